"""A real history of chunked messages, judged again as recorded and with one change: each change is detected.

The history was recorded on 4.0.8 with pulsar-client 3.13.0. The changes are what a broker or a client would have shown
that breaks a rule.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from conformance.history import document
from conformance.history.document import Step
from model.events import Acknowledged, DueReceived, RedeliveryRequested, Sent, Stored
from model.judgement import Allowed, Broken
from model.log import Position
from model.subscription_operations import Acknowledge, Nack, ReadCursor, ReceiveDue
from model.traffic import CommandAck, CommandMessage, CommandRedeliver, Delivery, Life, LoggedPart, Part, Traffic
from tests.verdicts import judged

RECORDED = document.read(Path(__file__).with_name("recorded.json")).steps
Change = Callable[[Any], Any]


HELD, REFUSED = 4, 10
"""The steps at which a producer is delayed between chunks, and another one's message is refused as too large."""


def with_outcome(where: type[Struct] | int, change: Change) -> tuple[Step, ...]:
    """The history with the outcome of a step changed, or of the first operation of a kind."""
    if isinstance(where, int):
        at = where
    else:
        at = next(number for number, step in enumerate(RECORDED) if isinstance(step.operation, where))
    changed = replace(RECORDED[at], outcome=change(RECORDED[at].outcome))
    assert changed != RECORDED[at], "nothing was changed"
    return (*RECORDED[:at], changed, *RECORDED[at + 1 :])


def in_traffic(change: Change) -> Change:
    """Change the one consumer's traffic."""

    def changed(outcome: DueReceived | Acknowledged | RedeliveryRequested) -> Struct:
        return replace(outcome, traffic=(change(outcome.traffic[0]),))

    return changed


def given(change: Change) -> Change:
    """Change what an application received."""

    def changed(traffic: Traffic) -> Traffic:
        return replace(traffic, received=tuple(change(list(traffic.received))))

    return in_traffic(changed)


def passed(kind: type[Struct], change: Change) -> Change:
    """Change the first thing of a kind that passed, or leave it out where it becomes None."""

    def changed(traffic: Traffic) -> Traffic:
        commands = traffic.commands
        at = next(number for number, one in enumerate(commands) if isinstance(one, kind))
        one = change(commands[at])
        rest = () if one is None else (one,)
        return replace(traffic, commands=(*commands[:at], *rest, *commands[at + 1 :]))

    return in_traffic(changed)


def logged(change: Change) -> Change:
    """Change the log that was read."""

    def changed(outcome: DueReceived) -> DueReceived:
        return replace(outcome, log=tuple(change(list(outcome.log))))

    return changed


def lived(change: Callable[[Life], Life]) -> Change:
    """Change the life of the producer that was delayed."""

    def changed(outcome: Sent) -> Sent:
        return replace(outcome, lives=(change(outcome.lives[0]), *outcome.lives[1:]))

    return changed


def split_at(log: list[LoggedPart]) -> int:
    """The number of the first entry that is a chunk."""
    return next(number for number, entry in enumerate(log) if entry.part.is_chunk)


def other_digest(one: Delivery | CommandMessage) -> Delivery | CommandMessage:
    """With other bytes."""
    return (
        replace(one, part=replace(one.part, digest="0" * 16))
        if isinstance(one, CommandMessage)
        else replace(one, digest="0" * 16)
    )


def swapped(items: list[Any]) -> list[Any]:
    """The last two in the other order."""
    return [*items[:-2], items[-1], items[-2]]


def with_chunk(change: Callable[[LoggedPart], LoggedPart]) -> Change:
    """Change the first chunk of the log."""

    def changed(log: list[LoggedPart]) -> list[LoggedPart]:
        at = split_at(log)
        return [*log[:at], change(log[at]), *log[at + 1 :]]

    return logged(changed)


def part_with(life: Life, nth: int, **fields: Any) -> Life:
    """A life with one of its sends changed."""
    sends: list[Part] = list(life.sends)
    sends[nth] = replace(sends[nth], **fields)
    return replace(life, sends=tuple(sends))


CHANGES: dict[str, tuple[type[Struct] | int, Change, str, str]] = {
    "a message is not delivered": (ReceiveDue, given(lambda got: got[:-1]), "CHUNK-06", "client"),
    "a message is delivered twice": (ReceiveDue, given(lambda got: [*got, got[-1]]), "CHUNK-04", "client"),
    "messages are delivered in another order": (ReceiveDue, given(swapped), "CHUNK-05", "client"),
    "other bytes are delivered": (
        ReceiveDue,
        given(lambda got: [*got[:-1], other_digest(got[-1])]),
        "CHUNK-04",
        "client",
    ),
    "an entry is not sent": (ReceiveDue, passed(CommandMessage, lambda _: None), "CHUNK-07", "broker"),
    "other bytes are sent": (ReceiveDue, passed(CommandMessage, other_digest), "CHUNK-03", "broker"),
    "an entry is lost": (ReceiveDue, logged(lambda log: log[1:]), "CHUNK-03", "broker"),
    "entries are stored in another order": (
        ReceiveDue,
        logged(lambda log: [*log[:1], replace(log[1], part=log[2].part), replace(log[2], part=log[1].part), *log[3:]]),
        "CHUNK-03",
        "broker",
    ),
    "a chunk is too small": (
        ReceiveDue,
        with_chunk(lambda one: replace(one, size_bytes=one.size_bytes - 1)),
        "CHUNK-02",
        "client",
    ),
    "a chunk is not acknowledged": (
        Acknowledge,
        passed(CommandAck, lambda one: replace(one, positions=one.positions[:1])),
        "CHUNK-07",
        "client",
    ),
    "too much is acknowledged": (
        Acknowledge,
        passed(CommandAck, lambda one: replace(one, positions=(*one.positions, Position(10**6, 0)))),
        "CHUNK-07",
        "client",
    ),
    "nothing is asked for again": (Nack, passed(CommandRedeliver, lambda _: None), "CHUNK-07", "client"),
    "an acknowledgment has no effect": (
        ReadCursor,
        lambda read: replace(read, positions=(RECORDED[5].outcome.log[0].position,)),  # type: ignore[union-attr]
        "CHUNK-07",
        "broker",
    ),
    "a chunk says another total": (
        HELD,
        lived(lambda life: part_with(life, -1, total_bytes=1)),
        "CHUNK-02",
        "client",
    ),
    "a chunk is left out": (
        HELD,
        lived(lambda life: replace(life, sends=(*life.sends[:-2], life.sends[-1]))),
        "CHUNK-03",
        "client",
    ),
    "something is confirmed elsewhere": (
        HELD,
        lived(lambda life: replace(life, receipts=((1, Position(10**6, 0)), *life.receipts[1:]))),
        "CHUNK-03",
        "broker",
    ),
    "what is too large is not refused": (
        REFUSED,
        lambda sent: replace(sent, answers=(Stored(Position(1, 0)),)),
        "CHUNK-01",
        "client",
    ),
}


def test_the_recorded_history_breaks_nothing() -> None:
    assert isinstance(judged(*RECORDED), Allowed)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_breaks_its_rule_on_its_side(name: str) -> None:
    operation, change, rule, side = CHANGES[name]
    broken = judged(*with_outcome(operation, change))
    assert isinstance(broken, Broken)
    assert (broken.rule, broken.side, broken.deviation) == (rule, side, None)
