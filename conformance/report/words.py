"""A history in words: who did what, and what came of it, as numbered sentences that a person can follow.

The terminal, the HTML page and the JUnit file all tell a history through this module. It describes, in the terms of the
documents; whether something was right is not its business.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar, assert_never

from conformance.history.document import History, Step
from model.operations import (
    AnyOperation,
    AnyOutcome,
    Cleared,
    ClearFailpoints,
    CloseProducer,
    CrashProducer,
    Created,
    CreateTopic,
    Done,
    Duplicate,
    Entry,
    FailpointKind,
    Kill,
    Late,
    LogRead,
    Opened,
    OpenProducer,
    ReadLog,
    ReadSnapshot,
    Refused,
    Restart,
    Send,
    Sent,
    SetFailpoint,
    Skipped,
    SnapshotRead,
    Stored,
    Switch,
    SwitchDeduplication,
    Switched,
    Unknown,
    Unload,
)

LISTED_AT_MOST = 40
"""How many entries of a log, a send or a snapshot are told one by one; the middle of more is left out."""

BROKER = "broker"
"""The actor of what is done to the broker itself, or to a topic inside it."""

ADMIN = "admin"
"""The actor of what is asked of the broker over its REST interface."""

CLIENTS = {"wire": "wire client", "official": "pulsar-client"}
"""How the two clients are called."""


class Tone(enum.Enum):
    """What kind of thing came of an operation; reports colour by it."""

    PLAIN = "plain"
    STORED = "stored"
    DUPLICATE = "duplicate"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Result:
    """One thing that came of an operation, in words; a send has as many as it has entries."""

    words: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """One step, told: ``actor`` did ``did``, and ``results`` came of it.

    ``late`` tells what arrived before it, for earlier operations whose answers nobody awaited. ``subject`` is who the
    actor is, for a sentence of its own; a lane that is headed by the actor needs only ``did``.
    """

    step: int
    actor: str
    subject: str
    did: str
    results: tuple[Result, ...]
    late: str = ""
    invoked_ms: float = 0.0
    completed_ms: float = 0.0

    @property
    def tone(self) -> Tone:
        """The tone of its worst result."""
        tones = {result.tone for result in self.results}
        return next(tone for tone in reversed(Tone) if tone in tones or tone is Tone.PLAIN)

    def __str__(self) -> str:
        came = "; ".join(result.words for result in self.results)
        late = f" Before that came {self.late}." if self.late else ""
        return f"{self.step}. {self.subject} {self.did}{': ' if came else ''}{came}.{late}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Steps in the middle of a history that is too long to be told whole: from one number to another."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"… {self.last - self.first + 1} steps, {self.first} to {self.last}, are left out here …"


def explain(history: History) -> tuple[Telling, ...]:
    """Tell every step of a history, in its order."""
    sessions: dict[str, OpenProducer] = {}
    told = []
    for number, step in enumerate(history.steps, start=1):
        if isinstance(step.operation, OpenProducer):
            sessions[step.operation.session] = step.operation
        told.append(_telling(number, step, sessions))
    return tuple(told)


def cut(tellings: Sequence[Telling], *, at_most: int) -> tuple[Telling | LeftOut, ...]:
    """Keep a telling within ``at_most`` steps: a third of them from the beginning, the rest from the end."""
    if len(tellings) <= at_most:
        return tuple(tellings)
    head = at_most // 3
    tail = at_most - head
    gap = LeftOut(first=tellings[head].step, last=tellings[-tail].step - 1)
    return (*tellings[:head], gap, *tellings[-tail:])


def actors(tellings: Iterable[Telling | LeftOut]) -> tuple[str, ...]:
    """Everyone who acts, sessions first and in the order of their first act, then the broker and the admin."""
    seen = dict.fromkeys(telling.actor for telling in tellings if isinstance(telling, Telling))
    last = [actor for actor in (BROKER, ADMIN) if actor in seen]
    return (*(actor for actor in seen if actor not in last), *last)


def _telling(number: int, step: Step, sessions: Mapping[str, OpenProducer]) -> Telling:
    actor, subject, did = _who_did_what(step.operation, sessions)
    return Telling(
        step=number,
        actor=actor,
        subject=subject,
        did=did,
        results=_results(step.operation, step.outcome),
        late="; ".join(_late(late) for late in step.late),
        invoked_ms=step.invoked_ms,
        completed_ms=step.completed_ms,
    )


def _who_did_what(operation: AnyOperation, sessions: Mapping[str, OpenProducer]) -> tuple[str, str, str]:
    """The actor's short name, the actor as the subject of a sentence, and the rest of that sentence."""
    match operation:
        case OpenProducer(session=session) | CloseProducer(session=session) | CrashProducer(session=session):
            return session, _producer(session, sessions), _did_as_producer(operation)
        case Send(session=session):
            return session, _producer(session, sessions), _did_as_producer(operation)
        case Unload() | Restart() | Kill() | SetFailpoint() | ClearFailpoints():
            return BROKER, "the broker", _done_to_broker(operation)
        case CreateTopic() | SwitchDeduplication() | ReadSnapshot() | ReadLog():
            return ADMIN, "the suite", _did_as_admin(operation)
        case _:
            assert_never(operation)


def _late(late: Late) -> str:
    answers = [
        f"{_outcome(answer)}{f' ({times} times)' if (times := len(list(alike))) > 1 else ''}"
        for answer, alike in groupby(late.answers)
    ]
    return f"answers to session {late.session} that it had not waited for: {'; '.join(answers) or 'none'}"


def _producer(session: str, sessions: Mapping[str, OpenProducer]) -> str:
    opened = sessions.get(session)
    if opened is None:
        return f"session {session}, which was never opened,"
    return f"producer {opened.producer} (session {session}, {CLIENTS[opened.client]})"


def _did_as_producer(operation: OpenProducer | CloseProducer | CrashProducer | Send) -> str:
    match operation:
        case OpenProducer(topic=topic):
            return f"opens on topic {topic}"
        case CloseProducer():
            return "closes in good order"
        case CrashProducer():
            return "crashes: its connection is cut without a goodbye"
        case Send(entries=(entry,), wait=wait):
            return f"sends {entry}" + ("" if wait else " and does not wait for the answer")
        case Send(entries=entries, wait=wait):
            listed = ", ".join(_listed([str(entry) for entry in entries]))
            return f"sends {listed}, all in flight at once" + ("" if wait else ", and does not wait for the answers")
        case _:
            assert_never(operation)


def _done_to_broker(operation: Unload | Restart | Kill | SetFailpoint | ClearFailpoints) -> str:
    match operation:
        case Unload(topic=topic):
            return f"unloads topic {topic}, to load it again for whoever asks for it next"
        case Restart():
            return "is stopped gracefully and started again on the same data"
        case Kill():
            return "is killed (SIGKILL) and started again on the same data"
        case SetFailpoint(topic=topic, kind=kind, count=count, delay_ms=delay_ms):
            delay = f", by {delay_ms} ms" if delay_ms else ""
            return f"is made to fail on topic {topic}, {_times(count)}: {_failpoint(kind)}{delay} ({kind})"
        case ClearFailpoints():
            return "is no longer made to fail"
        case _:
            assert_never(operation)


def _failpoint(kind: FailpointKind) -> str:
    match kind:
        case "write-fails":
            return "a write fails before anything is stored"
        case "write-fails-late":
            return "a write fails late"
        case "write-slow":
            return "an entry is stored, but the broker learns of it late"
        case "snapshot-write-fails":
            return "a deduplication snapshot cannot be written"
        case "snapshot-slow":
            return "a deduplication snapshot is taken, but written late"
        case "confirmation-lost":
            return "an entry is stored, but its confirmation is lost with the connection"
        case "ledger-close-slow":
            return "a full ledger is slow to close"
        case _:
            assert_never(kind)


def _did_as_admin(operation: CreateTopic | SwitchDeduplication | ReadSnapshot | ReadLog) -> str:
    match operation:
        case CreateTopic(topic=topic, deduplication=deduplication):
            return f"creates topic {topic}, {_switched(deduplication)}"
        case SwitchDeduplication(topic=topic, scope=scope, on=on):
            return f"switches deduplication of topic {topic} {'on' if on else 'off'}, by a policy of the {scope}"
        case ReadSnapshot(topic=topic):
            return f"reads the stored deduplication snapshot of topic {topic}"
        case ReadLog(topic=topic):
            return f"reads the log of topic {topic} back"
        case _:
            assert_never(operation)


def _switched(switch: Switch) -> str:
    match switch:
        case "broker":
            return "with deduplication as is the broker's default"
        case "namespace-on" | "namespace-off":
            return f"in a namespace that switches deduplication {switch.removeprefix('namespace-')}"
        case "own-namespace-on" | "own-namespace-off":
            on = switch.removeprefix("own-namespace-")
            return f"in a namespace of its own, which switches deduplication {on}"
        case "topic-on" | "topic-off":
            return f"with deduplication switched {switch.removeprefix('topic-')} by a policy of the topic"
        case _:
            assert_never(switch)


def _results(operation: AnyOperation, outcome: AnyOutcome) -> tuple[Result, ...]:
    """The outcome, with each answer beside the entry that it is for."""
    if not isinstance(operation, Send) or not isinstance(outcome, Sent):
        words = _outcome(outcome)
        return (Result(words, _tone(outcome)),) if words else ()
    if not outcome.answers:
        return (Result("no answer came"),) if operation.wait else ()
    if len(operation.entries) == 1:
        return tuple(Result(_outcome(answer), _tone(answer)) for answer in outcome.answers)
    answered = zip(operation.entries, outcome.answers, strict=False)
    told = [Result(f"{_ids(entry)}, {_outcome(answer)}", _tone(answer)) for entry, answer in answered]
    missing = len(operation.entries) - len(outcome.answers)
    silence = [Result(f"no answer came for the other {missing}")] if missing > 0 else []
    return (*_ends(told, Result), *silence)


def _ids(entry: Entry) -> str:
    return f"{entry.lowest} to {entry.highest}" if entry.is_batch else str(entry.lowest)


def _outcome(outcome: AnyOutcome) -> str:
    match outcome:
        case Done():
            return ""
        case Created(deduplication=on, snapshot_room=room):
            return f"deduplication is {'on' if on else 'off'}, a snapshot holds {count(room, 'producer', 'producers')}"
        case Switched(deduplication=on):
            return f"deduplication is {'on' if on else 'off'} now"
        case Cleared(fired=()):
            return "none was on"
        case Cleared(fired=fired):
            return "; ".join(f"{one.kind} on topic {one.topic} fired {_times(one.times)}" for one in fired)
        case Skipped(why=why):
            return f"not performed, because {why}"
        case Refused(code=code, message=message):
            return f"refused with {code}" + (f" ({message})" if message else "")
        case Unknown(why=why):
            return f"unknown, because {why}"
        case Stored(position=position):
            return f"stored at {position}"
        case Duplicate():
            return "the broker confirms it as a duplicate"
        case Sent(answers=answers):
            return "; ".join(_outcome(answer) for answer in answers) or "no answer"
        case Opened(last_sequence_id=None):
            return "open; this client does not tell the highest sequence id"
        case Opened(last_sequence_id=-1):
            return "open; the broker says that it has no sequence id of this name"
        case Opened(last_sequence_id=last):
            return f"open; the broker says that its highest sequence id is {last}"
        case LogRead(entries=()):
            return "it is empty"
        case LogRead(entries=entries):
            told = [f"{logged.position} {logged.producer} {logged.entry}" for logged in entries]
            return f"{count(len(entries), 'entry', 'entries')}: " + "; ".join(_listed(told))
        case SnapshotRead(position=position, producers=producers):
            told = [f"{name} at {highest}" for name, highest in producers.items()]
            return f"taken at {position}, with " + (", ".join(_listed(told)) or "no producer")
        case _:
            assert_never(outcome)


def _tone(outcome: AnyOutcome) -> Tone:
    match outcome:
        case Stored():
            return Tone.STORED
        case Duplicate():
            return Tone.DUPLICATE
        case Refused():
            return Tone.REFUSED
        case Unknown():
            return Tone.UNKNOWN
        case _:
            return Tone.PLAIN


T = TypeVar("T")


def _ends(told: Sequence[T], note: Callable[[str], T]) -> list[T]:
    """The parts to tell one by one; of very many, the first and the last, and a note on the others between them."""
    if len(told) <= LISTED_AT_MOST:
        return list(told)
    half = LISTED_AT_MOST // 2
    return [*told[:half], note(f"… {len(told) - 2 * half} more …"), *told[-half:]]


def _listed(told: Sequence[str]) -> list[str]:
    return _ends(told, str)


def _times(number: int) -> str:
    return {0: "never", 1: "once"}.get(number, f"{number} times")


def count(number: int, one: str, many: str) -> str:
    """A number and what it counts, in the singular or the plural."""
    return f"{number} {one if number == 1 else many}"
