"""Small histories as text: steps with their outcomes, separated by semicolons, in the words of reports.

    t on; p opens -1; p sends 1@0 2-3@1 2=dup; t unloads; p opens 3; log p:1 p:2-3

| step | meaning |
|---|---|
| ``t on``, ``t off``, ``t topic-on`` | topic t is created, with this policy of the topic or of its namespace |
| ``t disables``, ``t enables``, ``t enables-in-flight`` | its namespace's policy changes |
| ``t enables-itself`` | it gets a policy of its own |
| ``p opens 4``, ``p opens 4 official`` | a new session of producer p learns this last sequence id |
| ``p sends 1@0 2-3@2:1 2=dup 4=? 5=Code`` | entries, each with its answer: stored, duplicate, unknown, refused |
| ``p sends 1 2-3`` | the same, with the answers not awaited |
| ``p sends 1+200ms@0`` | the same, with a message that is delayed by 200 ms |
| ``p sends 3@0 -> 3`` | the same, after which its client reports this last sequence id |
| ``p closes``, ``p crashes`` | its session ends |
| ``c subscribes``, ``c gets p1@0 p2@1`` | a consumer of subscription s, and the messages that it receives |
| ``c subscribes Exclusive``, ``c gets-all p1@0`` | the same on another type; and as much as there is |
| ``t unloads``, ``t skips`` | an unload; an entry of subscription s is skipped |
| ``t off 2/2/2`` | a topic without deduplication, with these quorums |
| ``t off at-once`` | one whose broker delivers delayed messages at once |
| ``t on at-home`` | a topic that is replicated from its home to another cluster, so that its log may have markers |
| ``bookies 2``, ``bookies 2 power-failure`` | so many of three bookies are left, one was lost like this; with 3, back |
| ``power fails`` | the broker is killed, and its bookies lose what they have not synced |
| ``t moves``, ``t moves unload`` | another broker takes it over, after its owner was killed or in another way |
| ``t freezes``, ``thaws p 3@2`` | another one does, while its owner is frozen; what that one answers to p later |
| ``p sends-frozen 4`` | p sends to the frozen owner |
| ``t fails-late``, ``t fails-snapshots``, ``t cleared`` | a failpoint; no more failpoints |
| ``snapshot @4 p=4 q=1`` | the stored snapshot, and the ids in it |
| ``snapshot-due @4 p=4 of @5`` | the same, awaited; and the last entry of the log |
| ``log p:1 q:2-3``, ``log p:1 p:2@2:0`` | the log, entry by entry, from ledger 1's first, or where it is said |
| ``…  ~ p @0 ?`` | after any step: answers that p received before it |

``2-3`` is a batch of 2 and 3, whose business ids are p2 and p3 if producer p sends it; ``1+3`` one of 1 and 3; ``5a0``
the first of three chunks of message 5, with the uuid a. ``@4`` is the fifth entry of ledger 1, ``@2:0`` the first of
ledger 2.
"""

from __future__ import annotations

import re

from msgspec import convert

from model.cluster_operations import HOME
from model.events import (
    Answer,
    AnyOutcome,
    BookiesLeft,
    Cleared,
    Created,
    DeduplicationSet,
    Delivery,
    Done,
    Duplicate,
    FormerAnswer,
    Late,
    LoggedEntry,
    LogRead,
    Opened,
    PowerFailed,
    ReceivedMessages,
    Refused,
    Sent,
    SnapshotRead,
    Stored,
    Subscribed,
    TakenOver,
    Thawed,
    Unknown,
)
from model.log import Position
from model.operations import (
    AnyOperation,
    ClearFailpoints,
    CloseProducer,
    CrashProducer,
    CreateTopic,
    Departure,
    FreezeOwner,
    Kill,
    LoseBookie,
    Loss,
    OpenProducer,
    ReadLog,
    ReadSnapshot,
    RestoreBookies,
    Send,
    SendToFrozen,
    SetDeduplication,
    SetFailpoint,
    Switch,
    TakeOver,
    ThawOwners,
    Unload,
)
from model.producer_operations import ProducersPurged, PurgeProducers
from model.subscription_operations import Receive, Skip, Subscribe
from model.vocabulary import ChunkNumber, Client, Entry, Message, Quorum, SubscriptionType
from tests.verdicts import Happened

TOPIC, SUBSCRIPTION = "t", "s"
LEDGER_ROOM = 5
BOOKIES = 3
SWITCHES: dict[str, Switch] = {"on": "own-namespace-on", "off": "own-namespace-off", "topic-on": "topic-on"}
CHUNKS = 3
MANY = 100
DELAY_TICK_MS = 10.0
INACTIVITY_TIMEOUT_MIN = 360
_ENTRY = re.compile(
    r"(?P<ids>\d+(?:-\d+|(?:\+\d+)*?))(?:\+(?P<delay>\d+)ms)?(?P<uuid>[a-z])?(?P<chunk>\d)?(?P<answer>[@=].+)?"
)


def steps(text: str) -> list[Happened]:
    """The steps of a history that is written as text."""
    sessions: dict[str, str] = {}
    return [_step(step.strip(), sessions) for step in text.split(";")]


def _step(text: str, sessions: dict[str, str]) -> Happened:
    """One step; ``sessions``: the present session of each producer, which a step may replace."""
    awaited, _, late = text.partition("~")
    name, *words = awaited.split()
    arrived = _late(late.split(), sessions)
    match name:
        case "log":
            return ReadLog(TOPIC), LogRead(tuple(_logged(n, word) for n, word in enumerate(words))), arrived
        case "snapshot" | "snapshot-due":
            is_due = name == "snapshot-due"
            last = _position(words[-1][1:]) if is_due else None
            ids = (word.split("=") for word in words if "=" in word)
            taken = SnapshotRead(_position(words[0][1:]), {who: int(highest) for who, highest in ids}, last)
            return ReadSnapshot(TOPIC, due=is_due), taken, arrived
        case "bookies":
            left, how = int(words[0]), convert("".join(words[1:]) or "kill", Loss)
            return LoseBookie(0, how) if left < BOOKIES else RestoreBookies(), BookiesLeft(left), arrived
        case "power":
            return Kill(power_fails=True), PowerFailed(), arrived
        case "thaws":
            who, word = words
            entry, answer = _entry(who, word)
            assert answer is not None, f"{word} has no answer"
            return ThawOwners(), Thawed((FormerAnswer(sessions[who], entry, answer),)), arrived
        case _ if name == TOPIC:
            return *_of_topic(*words), arrived
        case _:
            return *_of_client(name, words[0], words[1:], sessions), arrived


def _of_topic(verb: str, how: str | None = None) -> tuple[AnyOperation, AnyOutcome]:
    match verb:
        case "unloads":
            return Unload(TOPIC), Done()
        case "disables" | "enables" | "enables-in-flight":
            on = verb != "disables"
            policy = SetDeduplication(TOPIC, "namespace", on=on, in_flight=verb.endswith("in-flight"))
            return policy, DeduplicationSet(on)
        case "enables-itself":
            return SetDeduplication(TOPIC, "topic", on=True), DeduplicationSet(True)
        case "skips":
            return Skip(TOPIC, SUBSCRIPTION, 1), Done()
        case "moves":
            return TakeOver(TOPIC, convert(how or "kill", Departure)), TakenOver((TOPIC,))
        case "freezes":
            return FreezeOwner(TOPIC), TakenOver((TOPIC,))
        case "fails-late":
            return SetFailpoint(TOPIC, "write-fails-late", 1, 100), Done()
        case "fails-snapshots":
            return SetFailpoint(TOPIC, "snapshot-write-fails"), Done()
        case "cleared":
            return ClearFailpoints(), Cleared(())
        case "purges":
            return PurgeProducers(TOPIC, int(how or 0)), ProducersPurged(INACTIVITY_TIMEOUT_MIN)
        case _:
            is_on = verb.endswith("on")
            tick_ms = None if how == "at-once" else DELAY_TICK_MS
            created = Created(deduplication=is_on, snapshot_room=6, ledger_room=LEDGER_ROOM, delay_tick_ms=tick_ms)
            if how in (None, "at-once"):
                return CreateTopic(TOPIC, SWITCHES[verb]), created
            if how == "at-home":
                return CreateTopic(TOPIC, SWITCHES[verb], clusters=2, home=HOME), created
            return CreateTopic(TOPIC, SWITCHES[verb], persistence="every-ack", quorum=convert(how, Quorum)), created


def _of_client(name: str, verb: str, words: list[str], sessions: dict[str, str]) -> tuple[AnyOperation, AnyOutcome]:
    match verb:
        case "opens":
            number = int(sessions.get(name, f"{name}0").removeprefix(name)) + 1
            sessions[name] = f"{name}{number}"
            client: Client = "official" if "official" in words else "wire"
            return OpenProducer(sessions[name], TOPIC, name, client), Opened(int(words[0]))
        case "closes":
            return CloseProducer(sessions[name]), Done()
        case "crashes":
            return CrashProducer(sessions[name]), Done()
        case "sends-frozen":
            return SendToFrozen(sessions[name], tuple(_entry(name, word)[0] for word in words)), Done()
        case "sends":
            words, reported = (words[:-2], int(words[-1])) if "->" in words else (words, None)
            sent = [_entry(name, word) for word in words]
            answers = tuple(answer for _, answer in sent if answer is not None)
            assert len(answers) in (0, len(sent)), f"some answers of {words} are missing"
            return Send(sessions[name], tuple(one for one, _ in sent), wait=bool(answers)), Sent(
                answers, last_sequence_id=reported
            )
        case "subscribes":
            kind: SubscriptionType = convert(words[0] if words else "Shared", SubscriptionType)
            return Subscribe(name, TOPIC, SUBSCRIPTION, kind), Subscribed()
        case "gets" | "gets-all":
            messages = (word.split("@") for word in words)
            got = tuple(Delivery(_position(at), -1, 0, business_id, 0) for business_id, at in messages)
            return Receive(name, len(got) if verb == "gets" else MANY), ReceivedMessages(got)
        case _:
            raise ValueError(f"{name} {verb}: no such step")


def _late(words: list[str], sessions: dict[str, str]) -> tuple[Late, ...]:
    return (Late(sessions[words[0]], tuple(map(_answer, words[1:]))),) if words else ()


def _entry(producer: str, word: str) -> tuple[Entry, Answer | None]:
    found = _ENTRY.fullmatch(word)
    assert found is not None, f"{word} is no entry"
    numbers = [int(number) for number in re.split(r"[-+]", found["ids"])]
    if "-" in found["ids"]:
        numbers = list(range(numbers[0], numbers[1] + 1))
    answer = found["answer"]
    chunk = None if found["uuid"] is None else ChunkNumber(int(found["chunk"]), CHUNKS, found["uuid"])
    name = "" if chunk is None else f"{chunk.uuid}{chunk.chunk_id}"
    delay_ms = int(found["delay"] or 0)
    messages = tuple(Message(n, f"{producer}{n}{name}", chunk=chunk, delay_ms=delay_ms) for n in numbers)
    return Entry(messages), None if answer is None else _answer(answer.removeprefix("="))


def _logged(index: int, word: str) -> LoggedEntry:
    said, _, position = word.partition("@")
    producer, ids = said.split(":")
    return LoggedEntry(_position(position or str(index)), producer, _entry(producer, ids)[0])


def _answer(word: str) -> Answer:
    match word:
        case "dup":
            return Duplicate()
        case "?":
            return Unknown("cut")
        case _ if word.startswith("@"):
            return Stored(_position(word[1:]))
        case _:
            return Refused(word)


def _position(text: str) -> Position:
    *ledger, number = text.split(":")
    return Position(int(ledger[0]) if ledger else 1, int(number))
