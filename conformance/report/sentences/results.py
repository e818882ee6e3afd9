"""Outcomes in words: the results of an operation, one for each entry of a send."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import assert_never

from msgspec import structs

from conformance.report.sentences import (
    chunking,
    deployment,
    expiry,
    holes,
    key_shared,
    policies,
    producers,
    readers,
    reads,
    replication,
)
from conformance.report.sentences.consumption import outcome_in_words
from conformance.report.sentences.lists import count, ends, joined, times
from model.cluster_events import ReplicationOutcome
from model.events import (
    Abandoned,
    AnyOutcome,
    BookiesLeft,
    BothAnswered,
    ChunkRate,
    Cleared,
    Confirmed,
    Consumed,
    Created,
    CursorMoved,
    CursorOutcome,
    DatabaseRead,
    DeduplicationSet,
    Done,
    Drained,
    DueReceived,
    Duplicate,
    Late,
    LogRead,
    NetworkFaultsCleared,
    NotPersisted,
    Opened,
    PolicyIgnored,
    PowerFailed,
    Ran,
    Refused,
    Sent,
    Skipped,
    SnapshotRead,
    SourceEnded,
    SourceStarted,
    Starved,
    StillConnected,
    Stored,
    Stuck,
    TakenOver,
    Thawed,
    UnacknowledgedRead,
    Unknown,
)
from model.expiry_operations import ExpiryAnswer
from model.hole_operations import HoleOutcome
from model.operations import AnyOperation, Send
from model.policy_operations import PolicyAnswer
from model.producer_operations import ProducerAnswer
from model.read_operations import ReadAnswer
from model.reader_operations import ReaderOutcome
from model.service.unexpected import BeyondPermits, Closed, ErrorAnswer, Overdue, Silence, Unexpected
from model.traffic import Delivery
from model.vocabulary import Entry


class Tone(enum.Enum):
    """The kind of a result, for the colours of reports."""

    PLAIN = "plain"
    STORED = "stored"
    DUPLICATE = "duplicate"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Result:
    """One result of an operation in words; a send has one for each entry."""

    words: str
    tone: Tone = Tone.PLAIN


def results(operation: AnyOperation, outcome: AnyOutcome) -> tuple[Result, ...]:
    """The outcome, with each answer beside the entry that it is for."""
    if not isinstance(operation, Send) or not isinstance(outcome, Sent):
        words = _outcome(outcome)
        return (Result(words, _tone(outcome)),) if words else ()
    if not outcome.answers:
        return (Result("no answer"),) if operation.wait else ()
    reported = _last_sequence_id(operation, outcome)
    if len(operation.entries) == 1 and not outcome.lives:
        return (*(Result(_outcome(answer), _tone(answer)) for answer in outcome.answers), *reported)
    answered = zip(operation.entries, outcome.answers, strict=False)
    answers = [Result(f"{_ids(entry)}, {_outcome(answer)}", _tone(answer)) for entry, answer in answered]
    seen = map(Result, chunking.lives_in_words(outcome))
    missing = len(operation.entries) - len(outcome.answers)
    silence = [Result(f"no answer for the other {missing}")] if missing > 0 else []
    return (*ends(answers, Result), *silence, *reported, *seen)


def _last_sequence_id(operation: Send, outcome: Sent) -> list[Result]:
    """The last sequence id that the producer reports, if it is not the highest that was sent."""
    last = outcome.last_sequence_id
    if last is None or last == max(entry.highest for entry in operation.entries):
        return []
    return [Result(f"the producer's last sequence id is {last}")]


def unexpected_in_words(unexpected: Unexpected) -> str:
    """What a broker did in a step besides the outcome."""
    match unexpected:
        case ErrorAnswer(request=request, code=code, message=message, is_last=is_last):
            return f"{request} is {'' if is_last else 'first '}answered with {code} ({message})"
        case Silence(request=request, why=why):
            return f"{request} is not answered ({why})"
        case Closed(actor=actor, why=why):
            return f"{actor} is closed ({why})"
        case BeyondPermits(actor=actor, permits=permits):
            return f"{actor} was sent another entry with {permits} permits left"
        case Overdue(what=what):
            return what
        case _:
            assert_never(unexpected)


def late_in_words(late: Late) -> str:
    """Answers that arrived after the wait for them ended; equal ones are counted."""
    answers = [
        f"{_outcome(answer)}{f' ({number} times)' if (number := len(list(alike))) > 1 else ''}"
        for answer, alike in groupby(late.answers)
    ]
    return f"session {late.session} received {'; '.join(answers) or 'nothing'}"


def _ids(entry: Entry) -> str:
    return f"{entry.lowest} to {entry.highest}" if entry.is_batch else str(entry.lowest)


def _outcome(outcome: AnyOutcome) -> str:
    if traffic := getattr(outcome, "traffic", ()):
        plain = "" if isinstance(outcome, DueReceived) else _plain(structs.replace(outcome, traffic=()))
        return "; ".join(filter(None, (plain, chunking.traffic_in_words(traffic))))
    return _plain(outcome)


def _answer(outcome: ReadAnswer | ProducerAnswer | ExpiryAnswer | PolicyAnswer | HoleOutcome | ReaderOutcome) -> str:
    """An outcome whose words are found by its type."""
    if isinstance(outcome, ReadAnswer):
        return reads.outcome_in_words(outcome)
    if isinstance(outcome, ProducerAnswer):
        return producers.outcome_in_words(outcome)
    if isinstance(outcome, ExpiryAnswer):
        return expiry.outcome_in_words(outcome)
    if isinstance(outcome, PolicyAnswer):
        return policies.outcome_in_words(outcome)
    if isinstance(outcome, HoleOutcome):
        return holes.outcome_in_words(outcome)
    return readers.outcome_in_words(outcome)


def _plain(outcome: AnyOutcome) -> str:
    """An outcome without the frames that passed a proxy."""
    if isinstance(outcome, CursorMoved | UnacknowledgedRead | ChunkRate):
        return chunking.read_in_words(outcome)
    if isinstance(outcome, ReplicationOutcome):
        return replication.outcome_in_words(outcome)
    if isinstance(outcome, DueReceived):
        return key_shared.outcome_in_words(outcome)
    if isinstance(outcome, CursorOutcome):
        return outcome_in_words(outcome)
    if isinstance(outcome, ReadAnswer | ProducerAnswer | ExpiryAnswer | PolicyAnswer | HoleOutcome | ReaderOutcome):
        return _answer(outcome)
    if isinstance(outcome, StillConnected | BothAnswered):
        return _of_administrators(outcome)
    if isinstance(outcome, TakenOver | Thawed | BookiesLeft):
        return deployment.outcome_in_words(outcome)
    match outcome:
        case Done():
            return ""
        case PowerFailed():
            return "the bookies lost what they had not synced"
        case Created(deduplication=on, snapshot_room=room, replication=settings):
            where = "" if settings is None else f"{replication.settings_in_words(settings)}; "
            return f"{where}deduplication is {_switched(on)}, a snapshot holds {count(room, 'producer', 'producers')}"
        case DeduplicationSet(deduplication=on):
            return f"deduplication is {_switched(on)} now"
        case PolicyIgnored(deduplication=status):
            return f"the broker still reports deduplication as {status}"
        case Cleared(fired=fired):
            each = (f"{one.kind} on topic {one.topic} fired {times(one.times)}" for one in fired)
            return "; ".join(each) or "there were none"
        case NetworkFaultsCleared(fired=fired):
            return f"network faults fired {times(fired)}"
        case Skipped(why=why):
            return f"not performed, because {why}"
        case Refused(code=code, message=message):
            return f"refused with {code}" + (f" ({message})" if message else "")
        case Unknown(why=why):
            return f"unknown, because {why}"
        case Abandoned(why=why):
            return f"given up: {why}"
        case Stored(position=position):
            return f"stored at {position}"
        case Duplicate():
            return "the broker confirms it as a duplicate"
        case Sent(answers=answers):
            return "; ".join(_outcome(answer) for answer in answers) or "no answer"
        case Opened(last_sequence_id=last) | SourceStarted(told=last):
            return _opened(last)
        case LogRead(parts=(_, *_) as parts):
            return chunking.log_in_words(parts)
        case LogRead(entries=()):
            return "it is empty"
        case LogRead(entries=entries):
            listed = [f"{logged.position} {logged.producer} {logged.entry}" for logged in entries]
            return f"{count(len(entries), 'entry', 'entries')}: " + joined(listed, "; ")
        case SnapshotRead(position=position, producers=highest_ids, last=last, waited_s=waited_s):
            ids = joined([f"{name} at {highest}" for name, highest in highest_ids.items()]) or "no producer"
            awaited = "" if last is None else f", {waited_s:.1f} s after the log's end was at {last}"
            return f"taken at {position}, with {ids}{awaited}"
        case SourceEnded() | Consumed() | Drained() | Ran() | DatabaseRead() | Stuck():
            return _of_application(outcome)
        case _:
            assert_never(outcome)


def _switched(on: bool) -> str:
    return "on" if on else "off"


def _of_administrators(outcome: StillConnected | BothAnswered) -> str:
    if isinstance(outcome, StillConnected):
        return f"{joined(outcome.actors)} stay connected"
    return f"first: {_plain(outcome.first) or 'done'}; second: {_plain(outcome.second) or 'done'}"


def _opened(last: int | None) -> str:
    if last is None:
        return "this client does not report the last sequence id"
    return f"last sequence id {last}"


def _of_application(outcome: SourceEnded | Consumed | Drained | Ran | DatabaseRead | Stuck) -> str:
    match outcome:
        case SourceEnded(confirmed=confirmed, left=left, came_back=came_back, stalled=stalled):
            ids = joined([_confirmed(one) for one in confirmed]) or "nothing"
            silent = f", {times(stalled)} because its client did not respond" if stalled else ""
            reconnected = f"; it reconnected {times(came_back)}{silent}" if came_back else ""
            return f"confirmed: {ids}; {count(left, 'entry', 'entries')} left unconfirmed{reconnected}"
        case Consumed(messages=messages, acknowledged=acknowledged):
            acks = joined([_message(one) for one in acknowledged]) or "nothing"
            return f"{_messages(messages)}; acknowledged: {acks}"
        case Drained(messages=messages):
            return f"{_messages(messages)}; the subscription is drained"
        case Ran(killed=killed, received=received):
            how = "killed" if killed else "ended by itself"
            return f"{how}, after {count(received, 'message', 'messages')}"
        case DatabaseRead(applied=applied):
            return f"it has applied {_messages(applied)}"
        case Stuck(why=why):
            return f"stuck: {why}"
        case _:
            assert_never(outcome)


def _confirmed(one: Confirmed) -> str:
    return f"{one.sequence_id} at {one.position}" if one.position is not None else f"{one.sequence_id} as a duplicate"


def _messages(messages: Sequence[Delivery]) -> str:
    listed = [_message(one) for one in messages]
    number = count(len(messages), "message", "messages")
    return f"{number} ({joined(listed)})" if listed else number


def _message(one: Delivery) -> str:
    within = f"[{one.batch_index}]" if one.batch_index >= 0 else ""
    return f"{one.position}{within} {one.business_id}"


def _tone(outcome: AnyOutcome) -> Tone:
    match outcome:
        case Stored():
            return Tone.STORED
        case Duplicate():
            return Tone.DUPLICATE
        case Refused() | Stuck() | Starved() | NotPersisted():
            return Tone.REFUSED
        case Unknown():
            return Tone.UNKNOWN
        case _:
            return Tone.PLAIN
