from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import msgspec

from model.cursors.acked import Acked, skip_before_last_ledger
from model.cursors.log import TopicLog
from model.deviation import Deviation, Shadow
from model.deviations.facts import is_reopened
from model.deviations.subscriptions import judged_as, skipping_on_reopened
from model.events import CursorReset, Refused
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.log import Position
from model.service.reasons import NO_SUCH_ENTRY, PEEK, RESET
from model.service.unexpected import ErrorAnswer
from model.subscription_operations import Expire, PeekMessage, ResetCursor, Seek
from model.subscriptions import administration
from model.subscriptions.counts import Peeked

ENTRY = Deviation(
    name="terminated-last-ledger-not-skipped",
    aliases=("terminated-not-skipped",),
    rule="ACK-04",
    also=("SERVE-04", "SERVE-01", "ACK-01"),
    statement="After a terminated topic is reloaded, a skip leaves the messages of its last ledger, and still answers success. An expiry up to one of them leaves them, too, or all but the first. A peek at one of them returns the last entry before that ledger, or fails with an internal error where there is none. A reset to the time of one of them goes to the first of them, or fails so.",
    cause="ManagedLedgerImpl.initialize makes the last ledger of a terminated topic the current one, with an entry counter (currentLedgerEntries) of 0. getPositionAfterN, which computes the end of a skip, the position of a peek and where an expiry or a reset to a time searches, then considers the current ledger empty (4.0.8, lines 3802 to 3808). Other topics have a new ledger as the current one, and the counter is right. 2.11.0 has no current ledger for a terminated topic and skips correctly, but getLastMessageId fails there with a NullPointerException.",
    side="broker",
    releases=(">=3.3.6,<=5.0.1",),
    seen=("4.0.8", "3.3.6", "4.2.4", "5.0.1"),
    gone=("2.11.0",),
    shadow=Shadow(name="skips-one-too-many", statement="Skipping n entries skips n + 1."),
)


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    match step.operation, step.outcome:
        case ResetCursor(topic, by_time=True), CursorReset(to=to) if to is not None and is_reopened(state, topic):
            if to.ledger == state.consumption.log(topic).last.ledger:
                first = msgspec.structs.replace(step.outcome, to=Position(to.ledger, 0))
                yield from judged_as(state, msgspec.structs.replace(step, outcome=first))
        case _:
            yield from skipping_on_reopened(state, step, skip_before_last_ledger)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    return broken.passing() if _is_of_it(state, step, broken.evidence) else None


def _is_of_it(state: Example, step: Step, evidence: object) -> bool:
    match evidence:
        case Expire(topic, up_to=up_to):
            return administration.ends_in_reopened_ledger(state.consumption, topic, str(up_to))
        case Peeked(possible, log, nth, position) if is_reopened(state, step.operation.topic):
            return position == log.before_last_ledger and any(_is_in_last_ledger(one, log, nth) for one in possible)
        case ErrorAnswer(request=request, message=message, topic=topic) if NO_SUCH_ENTRY in message:
            return is_reopened(state, topic) and (PEEK in request or RESET in request)
        case Refused(message=message):
            return _is_refused(state, step, message)
        case _:
            return False


def _is_in_last_ledger(one: Acked, log: TopicLog, nth: int) -> bool:
    position = next(islice(one.unacknowledged(log), nth - 1, None), None)
    return position is not None and position.ledger == log.last.ledger


def _is_refused(state: Example, step: Step, message: str) -> bool:
    match step.operation:
        case PeekMessage(topic) | ResetCursor(topic):
            return is_reopened(state, topic)
        case Seek(name, by_time=True) if NO_SUCH_ENTRY in message and name in state.consumption.consumers:
            return any(is_reopened(state, topic) for topic in state.consumption.consumers[name].topics)
        case _:
            return False
