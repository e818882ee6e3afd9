"""Short constructors of steps of one producer's topic, for what ``tests/notation.py`` has no words for."""

from __future__ import annotations

from model.events import Answer, Created, Done, Late, Opened, Sent, Stored
from model.log import Position
from model.operations import CreateTopic, OpenProducer, Send, Switch, Unload
from model.vocabulary import Client, Entry
from tests.judging import Happened

LEDGER_ROOM = 5
UNLOADED: Happened = (Unload("t0"), Done(), ())


def created(switch: Switch = "own-namespace-on") -> Happened:
    outcome = Created(deduplication=switch.endswith("on"), snapshot_room=6, ledger_room=LEDGER_ROOM)
    return CreateTopic("t0", switch), outcome, ()


def opened(last_sequence_id: int, *, session: str = "s1", producer: str = "p0", client: Client = "wire") -> Happened:
    return OpenProducer(session, "t0", producer, client), Opened(last_sequence_id), ()


def sent(*answered: tuple[Entry, Answer], session: str = "s1") -> Happened:
    return Send(session, tuple(e for e, _ in answered)), Sent(tuple(a for _, a in answered)), ()


def in_flight(*entries: Entry, session: str = "s1") -> Happened:
    return Send(session, entries, wait=False), Sent(()), ()


def with_late(happened: Happened, *answers: Answer, session: str = "s1") -> Happened:
    return happened[0], happened[1], (Late(session, answers),)


def at(number: int, *, ledger: int = 1) -> Stored:
    return Stored(Position(ledger, number))
