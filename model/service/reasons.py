"""Judges unexpected behavior of a broker: SERVE-01, -02, what is overdue, and an unreadable log (SERVE-07, -14).

An injected fault explains exactly its own effects. Failed writes on a topic explain refused clients on the binary
protocol and closed producers, but no answer of the admin API. While a topic loads, the broker may refuse clients as the
protocol says, for a limited time. Network faults explain closed connections of producers, because only these pass
through the proxy. A client may notice a cut after the fault was cleared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, assert_never

from model.judgement import Allowed, Broken, overdue
from model.rules.catalogue import carries
from model.service.unexpected import (
    ANSWERED,
    REPEATED,
    BeyondPermits,
    Closed,
    ErrorAnswer,
    Overdue,
    Silence,
    Unexpected,
)

OF_LOADING: Final = frozenset({"MetadataError", "PersistenceError", "ServiceNotReady"})
"""The errors with which releases refuse clients while they load a topic; the client retries."""
FAILED_LOAD: Final = "500"
"""The admin API's error for a topic that cannot be loaded."""
PEEK: Final = "/position/"
RESET: Final = "/resetcursor/"
SKIP_ENTRIES: Final = "/skip/"
NO_ELEMENT: Final = "null"
"""The message of an exception that has none."""
NO_SUCH_ENTRY: Final = "Incorrect parameter"
"""The error of a read before the first entry of a ledger."""
NO_CURRENT_LEDGER: Final = re.compile(r'"(this\.)?currentLedger" is null')
OF_FAILED_WRITES: Final = frozenset({"PersistenceError", "ServiceNotReady"})
"""The errors with which brokers refuse clients of a topic whose write failed, until it has recovered."""


@dataclass(frozen=True, slots=True)
class Reasons:
    """What may explain unexpected behavior: failing writes, topics that load or were terminated, network faults."""

    failing: frozenset[str] = frozenset()
    loading: frozenset[str] = frozenset()
    ending: frozenset[str] = frozenset()
    """Producer sessions of terminated topics."""
    severed: frozenset[str] = frozenset()
    """Topics on which a failpoint cuts the connections of producers."""
    cut: frozenset[str] = frozenset()
    """Producer sessions whose connection a network fault may have cut, which the client did not notice yet."""
    unsaved: frozenset[str] = frozenset()
    """Topics whose deduplication snapshot cannot be written, which the recovery of a load may require."""
    is_disturbed: bool = False
    over_quota: frozenset[str] = frozenset()
    """Topics whose backlog may exceed a quota that refuses producers."""
    fenced: frozenset[str] = frozenset()
    """Producer sessions that another one fenced."""
    read_after_loss: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Topics that have confirmed entries and lost a bookie, if the operation reads the log of one: the rule that
    requires them, and after what."""
    being_reset: frozenset[str] = frozenset()
    """Consumers of subscriptions that the operation resets: the broker disconnects them first, and may then fail."""
    may_be_replaced: bool = False
    """The operation cuts off a consumer that is not tracked. Its subscription may have been deleted, and another
    consumer may be connected to the one that was created again."""


def judge(unexpected: Unexpected, reasons: Reasons) -> Allowed[None] | Broken:
    match unexpected:
        case ErrorAnswer():
            return _error(unexpected, reasons)
        case Silence():
            return overdue(_silence(unexpected, reasons))
        case Closed():
            return _closed(unexpected, reasons)
        case BeyondPermits():
            return _beyond_permits(unexpected)
        case Overdue():
            return overdue(_late(unexpected, reasons))
        case _:
            assert_never(unexpected)


@carries("SERVE-13")
def _beyond_permits(sent: BeyondPermits) -> Broken:
    """A dispatch ends with the entry that uses the last permit: only that one, a batch, may go beyond the permits."""
    because = f"{sent.actor} is sent another entry although it has {sent.permits} permits left"
    return Broken("SERVE-13", because, evidence=sent).passing_to(None)


@carries("SERVE-03")
def _late(late: Overdue, reasons: Reasons) -> Allowed[None] | Broken:
    if late.rule == "SERVE-02" and reasons.may_be_replaced:
        return Allowed(None, excused=("SERVE-02",))
    return Broken(late.rule, late.what, evidence=late).passing_to(None)


@carries("SERVE-01")
def _error(answer: ErrorAnswer, reasons: Reasons) -> Allowed[None] | Broken:
    """A documented error is a valid answer while a topic cannot be served. Any other error breaks the rule."""
    is_binary = answer.interface == "binary"
    if ANSWERED in answer.request:
        because = f"{answer.request} is answered again with {answer.code}: {answer.message}"
        return Broken("SERVE-01", because, evidence=answer).passing_to(None)
    if is_binary and answer.topic in reasons.failing and answer.code in OF_FAILED_WRITES:
        return Allowed(None, excused=("SERVE-01",))
    if is_binary and answer.topic in reasons.loading and answer.code in OF_LOADING and not answer.is_last:
        return Allowed(None, excused=("SERVE-01",))
    if answer.topic in reasons.loading & reasons.unsaved and answer.code == FAILED_LOAD:
        return Allowed(None, excused=("SERVE-01",))
    how = "is answered" if answer.is_last else "is first answered"
    because = f"{answer.request} {how} with {answer.code}: {answer.message}"
    broken = Broken("SERVE-01", because, evidence=answer).passing_to(None)
    return overdue(broken) if answer.is_last and answer.code in REPEATED else broken


@carries("SERVE-01", "SERVE-07", "SERVE-14")
def _silence(silence: Silence, reasons: Reasons) -> Allowed[None] | Broken:
    """An answer is missing only under a network fault. A log that lost a bookie can still be read to its end."""
    if silence.interface == "binary" and reasons.is_disturbed:
        return Allowed(None, excused=("SERVE-01",))
    if silence.topic is not None and silence.topic in reasons.read_after_loss:
        rule, after = reasons.read_after_loss[silence.topic]
        return Broken(rule, f"{silence.topic} is not read to its end after {after}: {silence.why}")
    because = f"{silence.request} is not answered: {silence.why}"
    return Broken("SERVE-01", because, evidence=silence).passing_to(None)


@carries("SERVE-02")
def _closed(closed: Closed, reasons: Reasons) -> Allowed[None] | Broken:
    """A broker closes producers of a topic whose write failed, or that was terminated, and consumers for a reset."""
    if closed.topic in reasons.failing | reasons.severed | reasons.over_quota or reasons.is_disturbed:
        return Allowed(None, excused=("SERVE-02",))
    if closed.actor in reasons.ending | reasons.cut | reasons.being_reset | reasons.fenced:
        return Allowed(None, excused=("SERVE-02",))
    because = f"{closed.actor}, which did nothing wrong, lost its connection: {closed.why}"
    return Broken("SERVE-02", because, evidence=closed).passing_to(None)
