"""What another cluster has of a topic that is replicated from its home.

Only producers at home write, so the other cluster has the same messages in the same order (REPL-01). Where the topic is
not deduplicated, a replicator that reconnected may have sent again what was in flight: everything from an earlier entry
on. A reader receives no markers from either cluster (REPL-10).

A subscription there follows the one at home by updates, which have positions that mark-delete at home had passed. So a
consumer that fails over receives at least every message after the highest position that mark-delete had at home at any
time (REPL-14). Acks that were lost at home later, and a reset there, do not change the other cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, assert_never

from model.cluster_events import ReplicatorStalled
from model.cursors.log import TopicLog
from model.deviations.replication import UPDATE_CREATES_AT_LATEST
from model.events import AllReceived, AnyOutcome, Delivery, LoggedEntry, LogRead
from model.judgement import Allowed, Broken
from model.log import EARLIEST, Position
from model.operations import ReadLog
from model.rules.catalogue import carries
from model.subscription_operations import ReceiveAll
from model.subscriptions.state import Consumption, TrackedTopic, upper
from model.vocabulary import SubscriptionId

REPL_01: Final = "REPL-01"
REPL_14: Final = "REPL-14"

Judged = Allowed[Consumption] | Broken


@dataclass(frozen=True, slots=True)
class _AtHome:
    """An entry at home: its position, and what the other cluster has of it."""

    position: Position
    ids: tuple[str, ...]
    key: str | None

    def is_in(self, found: LoggedEntry) -> bool:
        return (self.ids, self.key) == (_ids(found), found.entry.sticky_key)


def judge(
    state: Consumption, operation: ReadLog | ReceiveAll, cluster: str, outcome: AnyOutcome, known: frozenset[str]
) -> Judged:
    """An operation at another cluster than the topic's home."""
    tracked = state.topics.get(operation.topic)
    if isinstance(outcome, ReplicatorStalled):
        link = f"the replicator of {outcome.source} to {outcome.target}"
        return Broken(REPL_01, f"{link} was connected, but replicated nothing for {outcome.stalled_s:.0f} s")
    if tracked is None:
        return Allowed(state)
    match operation:
        case ReadLog(topic):
            if not isinstance(outcome, LogRead):
                return Allowed(state)
            judged = _log_read(tracked, cluster, outcome)
            return judged if isinstance(judged, Broken) else judged.of(state.with_topic(topic, judged.state))
        case ReceiveAll():
            if not isinstance(outcome, AllReceived):
                return Allowed(state)
            taken = _failed_over(state, tracked, operation, outcome.messages, known)
            return taken if isinstance(taken, Broken) else taken.of(state)
        case _:
            assert_never(operation)


def advanced(state: Consumption) -> Consumption:
    """Where mark-delete of subscriptions at home may be by now."""
    for subscription, one in state.cursors.items():
        log = state.log(subscription.topic)
        if log.has_markers and one.durable:
            highest = max(upper(possible, one, log).mark_delete for possible in one.imaginable)
            if highest > state.passed.get(subscription, EARLIEST):
                state = replace(state, passed=state.passed.set(subscription, highest))
    return state


@carries("REPL-01")
def _log_read(tracked: TrackedTopic, cluster: str, read: LogRead) -> Allowed[TrackedTopic] | Broken:
    """The log of a cluster was read after everything was replicated to it."""
    unknown = replace(tracked, replica=None)
    if not tracked.is_sure or tracked.is_trimmed:
        return Allowed(unknown, excused=(REPL_01,))
    home = _at_home(tracked.log)
    judged = _compared(home, cluster, read.entries, may_repeat=read.has_reconnected and not read.is_deduplicated)
    if isinstance(judged, Broken):
        return judged
    is_once = len(read.entries) == len(home)
    positions = tuple(entry.position for entry in read.entries)
    return judged.of(replace(tracked, replica=positions) if is_once else unknown)


@carries("REPL-01", "REPL-14")
def _failed_over(
    state: Consumption,
    tracked: TrackedTopic,
    operation: ReceiveAll,
    received: Sequence[Delivery],
    known: frozenset[str],
) -> Allowed[None] | Broken:
    """A consumer failed over: it receives only what was published, and everything that home may not have passed."""
    home, there, cluster = _at_home(tracked.log), tracked.replica, operation.cluster
    if there is None or len(there) != len(home) or tracked.has_untracked:
        return Allowed(None, excused=(REPL_14,))
    found: dict[Position, set[str]] = {}
    numbers = {position: number for number, position in enumerate(there)}
    for given in received:
        number = numbers.get(given.position)
        if number is None or given.business_id not in home[number].ids:
            return Broken(
                REPL_01, f"a consumer at {cluster} received {given.business_id} at {given.position}, which it has not"
            )
        found.setdefault(given.position, set()).add(given.business_id)
    passed = state.passed.get(SubscriptionId(operation.topic, operation.subscription), EARLIEST)
    lacking = [one for one, at in zip(home, there, strict=True) if found.get(at, set()) != set(one.ids)]
    missed = next((one for one in lacking if one.position > passed), None)
    if missed is None:
        return Allowed(None, (REPL_14,) if lacking else ())
    because = (
        f"a consumer of {operation.subscription} that fails over to {cluster} misses {', '.join(missed.ids)}, "
        f"which is at {missed.position} of home, where mark-delete never passed {passed}"
    )
    is_skipped = lacking == home[: len(lacking)]  # it received everything after that
    if not is_skipped or UPDATE_CREATES_AT_LATEST not in known:
        return Broken(REPL_14, because)
    return Allowed(None, (REPL_14,), (UPDATE_CREATES_AT_LATEST,))


def _at_home(log: TopicLog) -> list[_AtHome]:
    keys = ((position, log.keys.get(position)) for position in log.all_after(EARLIEST))
    return [_AtHome(position, log.entries[position], None if key is None else key.key) for position, key in keys]


def _compared(
    home: Sequence[_AtHome], cluster: str, entries: Sequence[LoggedEntry], *, may_repeat: bool
) -> Allowed[None] | Broken:
    """``replicated``: how many entries of home may be the first ones that were replicated by then."""
    replicated = {0}
    for found in entries:
        following = replicated.union(range(max(replicated))) if may_repeat else replicated
        after = {number + 1 for number in following if number < len(home) and home[number].is_in(found)}
        if not after:
            return Broken(REPL_01, f"{cluster} has {_words(found)} {_instead(home, max(replicated))}")
        replicated = after
    if len(home) not in replicated:
        lacking = home[max(replicated)]
        ids = ", ".join(lacking.ids)
        return Broken(REPL_01, f"{cluster} lacks {ids}, which its home has at {lacking.position}")
    return Allowed(None, (REPL_01,) if home else ())


def _instead(home: Sequence[_AtHome], number: int) -> str:
    if number == len(home):
        return "after the last message of the topic's home"
    return f"in place of {', '.join(home[number].ids)} at {home[number].position} of home"


def _ids(entry: LoggedEntry) -> tuple[str, ...]:
    return tuple(message.business_id for message in entry.entry.messages)


def _words(entry: LoggedEntry) -> str:
    return f"{', '.join(_ids(entry))} at {entry.position}"
