"""Judges unexpected behavior of a broker: SERVE-01, SERVE-02, what is overdue, and an unreadable log (SERVE-07).

An injected fault explains exactly its own effects. Failed writes on a topic explain refused clients on the binary
protocol and closed producers, but no answer of the admin API. While a topic loads, the broker may refuse clients as the
protocol says, for a limited time. Network faults explain closed connections of producers, because only these pass
through the proxy. A client may notice a cut after the fault was cleared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, assert_never

from model.excuses import requires
from model.excuses.cursors import TERMINATED_LAST_LEDGER_NOT_SKIPPED
from model.excuses.service import (
    EXPIRED_SESSION_FAILS_REQUESTS,
    ORPHAN_REPLICATOR_KEEPS_NAME,
    RECONNECT_NEVER_ANSWERED,
    REPLICATOR_RESENDS_AFTER_DROP,
    REPLICATOR_RESENDS_IN_A_LOOP,
    SESSION_RECREATED_IN_A_LOOP,
    SKIP_AFTER_ALL_TRIMMED_FAILS,
    SKIP_OF_EMPTY_TOPIC_FAILS,
    SKIP_PAST_TERMINATED_END_LOOPS,
    TERMINATED_EMPTY_TOPIC_REFUSES_SUBSCRIPTIONS,
    TERMINATED_TOPIC_WITHOUT_CURRENT_LEDGER,
    TERMINATION_RACES_WITH_ROLLOVER,
    UNLOAD_RACES_WITH_ROLLOVER,
)
from model.excuses.ways import explained
from model.judgement import Allowed, Broken, overdue
from model.operations import OpenProducer
from model.rules.catalogue import carries
from model.service.unexpected import (
    ANSWERED,
    NO_ELEMENT,
    NOT_REGISTERED,
    NOT_REPLICATED,
    REPEATED,
    STALE_OWNER,
    Closed,
    ErrorAnswer,
    Overdue,
    Silence,
    Unexpected,
)
from model.subscription_operations import CreateSubscription, Skip, Subscribe

OF_LOADING: Final = frozenset({"MetadataError", "PersistenceError", "ServiceNotReady"})
"""The errors with which releases refuse clients while they load a topic; the client retries."""
NO_OWNER: Final = "412"
"""The admin API's error for a topic without an owner."""
FAILED_LOAD: Final = "500"
"""The admin API's error for a topic that cannot be loaded."""
PEEK: Final = "/position/"
RESET: Final = "/resetcursor/"
SKIP_ENTRIES: Final = "/skip/"
NOT_CONNECTED: Final = "do not connect"
SKIP: Final = Skip.__name__
NEW_SUBSCRIPTIONS: Final = (CreateSubscription.__name__, Subscribe.__name__)
OPEN_PRODUCER: Final = OpenProducer.__name__
NO_SUCH_ENTRY: Final = "Incorrect parameter"
"""The error of a read before the first entry of a ledger."""
NO_CURRENT_LEDGER: Final = re.compile(r'"(this\.)?currentLedger" is null')
INVALID_MARK_DELETE: Final = "Invalid mark deleted position"
BAD_VERSION: Final = "BadVersionException"
OF_RACING_METADATA: Final = (BAD_VERSION, "ManagedLedgerFencedException", "fenced managed ledger")
"""The errors of a managed ledger, two of whose writes to the metadata store raced."""
OF_EXPIRED_SESSION: Final = (
    "Session expired",
    "SessionExpired",
    "ZooKeeper error code: -9",
    "Request failed.",
    "Can't find owner",
)
"""The errors of a request that needs the metadata store, in a session that has expired: of Pulsar, of BookKeeper, of
the web server if the broker does not handle the first one, and of a look-up while no broker is registered."""
OF_FAILED_WRITES: Final = frozenset({"PersistenceError", "ServiceNotReady"})
"""The errors with which brokers refuse clients of a topic whose write failed, until it has recovered."""


@dataclass(frozen=True, slots=True)
class Reasons:
    """What may explain unexpected behavior: failing writes, topics that load or terminate, network faults."""

    failing: frozenset[str] = frozenset()
    loading: frozenset[str] = frozenset()
    ending: frozenset[str] = frozenset()
    severed: frozenset[str] = frozenset()
    """Topics on which a failpoint cuts the connections of producers."""
    cut: frozenset[str] = frozenset()
    """Producer sessions whose connection a network fault may have cut, which the client did not notice yet."""
    reopened: frozenset[str] = frozenset()
    """Topics that were terminated, and reloaded since."""
    empty: frozenset[str] = frozenset()
    """Topics without entries."""
    deleted: frozenset[str] = frozenset()
    """Topics whose ledgers were all deleted."""
    reloaded: frozenset[str] = frozenset()
    """Topics that nothing was sent to since they were reloaded."""
    full: frozenset[str] = frozenset()
    """Topics whose last ledger is full, or may be."""
    rolling: frozenset[str] = frozenset()
    """Those that were terminated, and not reloaded since."""
    unsaved: frozenset[str] = frozenset()
    """Topics whose deduplication snapshot cannot be written, which the recovery of a load may require."""
    is_disturbed: bool = False
    is_thawed: bool = False
    """Brokers that lost their sessions while frozen run again."""
    has_orphans: bool = False
    """Replicators may have outlived their topic, by a deviation."""
    dropped: frozenset[str] = frozenset()
    """Topics with entries that another cluster may drop when they are replicated to it."""
    may_resend: bool = False
    """Replicators may have sent messages and markers again, to topics with deduplication."""
    are_sessions_expired: bool = False
    """The sessions of the brokers in the metadata store expired, and may not be replaced yet."""
    read_after_loss: frozenset[str] = frozenset()
    """Topics that have confirmed entries and lost a bookie, if the operation reads the log of one."""
    being_reset: frozenset[str] = frozenset()
    """Consumers of subscriptions that the operation resets: the broker disconnects them first, and may then fail."""
    returns: bool = False
    """The operation opens a producer whose former connection ended, and which the broker may not have removed."""
    known: frozenset[str] = frozenset()
    """The known deviations."""


def judge(unexpected: Unexpected, reasons: Reasons) -> Allowed[None] | Broken:
    match unexpected:
        case ErrorAnswer():
            return _error(unexpected, reasons)
        case Silence():
            return overdue(_silence(unexpected, reasons))
        case Closed():
            return _closed(unexpected, reasons)
        case Overdue():
            return overdue(_late(unexpected, reasons))
        case _:
            assert_never(unexpected)


def _late(late: Overdue, reasons: Reasons) -> Allowed[None] | Broken:
    match late:
        case Overdue("SERVE-02", what) if reasons.is_thawed and (NOT_REGISTERED in what or STALE_OWNER in what):
            return requires(SESSION_RECREATED_IN_A_LOOP, None, reasons.known, what)
        case Overdue("SERVE-02", what) if reasons.has_orphans and NOT_CONNECTED in what:
            return requires(ORPHAN_REPLICATOR_KEEPS_NAME, None, reasons.known, what)
        case Overdue("SERVE-03", what) if NOT_REPLICATED in what:
            return _not_replicated(late, reasons)
        case _:
            return Broken(late.rule, late.what)


@carries("SERVE-03")
def _not_replicated(late: Overdue, reasons: Reasons) -> Allowed[None] | Broken:
    """By a deviation a replicator may send again and again, and make no progress."""
    possible = [REPLICATOR_RESENDS_IN_A_LOOP] if reasons.may_resend else []
    possible += [REPLICATOR_RESENDS_AFTER_DROP] if late.topic in reasons.dropped else []
    return explained(Broken(late.rule, late.what), possible, None, reasons.known)


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
    judged = explained(broken, _causes(answer, reasons), None, reasons.known)
    return overdue(judged) if answer.is_last and answer.code in REPEATED else judged


def _causes(answer: ErrorAnswer, reasons: Reasons) -> Iterator[str]:
    """The deviations that explain an error."""
    is_without = NO_CURRENT_LEDGER.search(answer.message)
    is_skip = SKIP_ENTRIES in answer.request
    is_skip_of_nothing = is_skip and answer.topic in reasons.empty
    if is_skip and answer.topic in reasons.empty | reasons.reloaded and INVALID_MARK_DELETE in answer.message:
        yield SKIP_OF_EMPTY_TOPIC_FAILS
    is_reset_of_nothing = answer.topic in reasons.empty and RESET in answer.request
    finds_nothing = (is_skip_of_nothing or is_reset_of_nothing) and answer.message == NO_ELEMENT
    if is_skip and answer.topic in reasons.reopened & reasons.deleted and answer.message == NO_ELEMENT:
        yield SKIP_AFTER_ALL_TRIMMED_FAILS
    if answer.topic in reasons.reopened and (is_without or finds_nothing):
        yield TERMINATED_TOPIC_WITHOUT_CURRENT_LEDGER
    looks_for_entry = PEEK in answer.request or RESET in answer.request
    if answer.topic in reasons.reopened and looks_for_entry and NO_SUCH_ENTRY in answer.message:
        yield TERMINATED_LAST_LEDGER_NOT_SKIPPED
    is_race = any(error in answer.message for error in OF_RACING_METADATA)
    if answer.topic in reasons.rolling and is_race and not answer.is_last:
        yield TERMINATION_RACES_WITH_ROLLOVER
    if answer.topic in reasons.loading & reasons.full and BAD_VERSION in answer.message and not answer.is_last:
        yield UNLOAD_RACES_WITH_ROLLOVER
    is_failed = answer.interface == "admin" and answer.code in (FAILED_LOAD, NO_OWNER)
    if reasons.are_sessions_expired and is_failed and any(error in answer.message for error in OF_EXPIRED_SESSION):
        yield EXPIRED_SESSION_FAILS_REQUESTS


@carries("SERVE-01", "SERVE-07")
def _silence(silence: Silence, reasons: Reasons) -> Allowed[None] | Broken:
    """An answer is missing only under a network fault. A log that lost a bookie can still be read to its end."""
    if silence.interface == "binary" and reasons.is_disturbed:
        return Allowed(None, excused=("SERVE-01",))
    if silence.topic in reasons.read_after_loss:
        return Broken("SERVE-07", f"{silence.topic} is not read to its end after the loss of a bookie: {silence.why}")
    because = f"{silence.request} is not answered: {silence.why}"
    return explained(Broken("SERVE-01", because), _causes_of_silence(silence, reasons), None, reasons.known)


def _causes_of_silence(silence: Silence, reasons: Reasons) -> Iterator[str]:
    if silence.topic in reasons.reopened and silence.request == SKIP:
        yield SKIP_PAST_TERMINATED_END_LOOPS
    if silence.topic in reasons.reopened & reasons.empty and silence.request.startswith(NEW_SUBSCRIPTIONS):
        yield TERMINATED_EMPTY_TOPIC_REFUSES_SUBSCRIPTIONS
    if reasons.returns and silence.request.startswith(OPEN_PRODUCER):
        yield RECONNECT_NEVER_ANSWERED


@carries("SERVE-02")
def _closed(closed: Closed, reasons: Reasons) -> Allowed[None] | Broken:
    """A broker closes producers of a topic whose write failed, or that was terminated, and consumers for a reset."""
    if closed.topic in reasons.failing | reasons.ending | reasons.severed or reasons.is_disturbed:
        return Allowed(None, excused=("SERVE-02",))
    if closed.actor in reasons.cut | reasons.being_reset:
        return Allowed(None, excused=("SERVE-02",))
    return Broken("SERVE-02", f"{closed.actor}, which did nothing wrong, lost its connection: {closed.why}")
