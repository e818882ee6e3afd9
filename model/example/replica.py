"""What another cluster has of a topic that is replicated from its home.

The other cluster has the messages of the producers at home in the same order (REPL-01). Where the topic is not
deduplicated, a replicator that reconnected may have sent again what was in flight: everything from an earlier entry on.
Between these are the messages of the producers there (:mod:`model.example.remote`), each once: no replicator returns a
message to the cluster that it is from. A reader receives no markers from either cluster (REPL-10).

A subscription there follows the one at home by updates, which have positions that mark-delete at home had passed. So a
consumer that fails over receives at least every message after the highest position that mark-delete had at home at any
time (REPL-14), whichever cluster the message is from: a snapshot's position at home is after all that the other cluster
had before its response. Acks that were lost at home later, and a reset there, do not change the other cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, assert_never

from model.cluster_events import ReplicatorStalled
from model.cluster_operations import AWAY
from model.cursors.log import TopicLog
from model.events import AllReceived, AnyOutcome, Delivery, LogRead
from model.example.remote import REPL_01, Published, Remote, compared, compared_from_home
from model.judgement import Allowed, Broken, in_turn
from model.log import EARLIEST, Position
from model.operations import ReadLog
from model.rules.catalogue import carries
from model.subscription_operations import ReceiveAll
from model.subscriptions.state import Consumption, TrackedTopic, upper
from model.vocabulary import SubscriptionId

REPL_14: Final = "REPL-14"

Judged = Allowed[Consumption] | Broken


@dataclass(frozen=True, slots=True)
class MissedByFailover:
    """A consumer that fails over misses messages. ``is_skipped``: it received everything after them."""

    is_skipped: bool


def judge(state: Consumption, operation: ReadLog | ReceiveAll, outcome: AnyOutcome, remote: Remote) -> Judged:
    """An operation at another cluster than the topic's home, for which ``remote`` was published there."""
    tracked = state.topics.get(operation.topic)
    if isinstance(outcome, ReplicatorStalled):
        return _stalled(state, outcome)
    if tracked is None:
        return Allowed(state)
    match operation:
        case ReadLog(topic):
            if not isinstance(outcome, LogRead):
                return Allowed(state)
            judged = _log_read(tracked, remote, outcome)
            return judged.then(lambda after: Allowed(state.with_topic(topic, after)))
        case ReceiveAll():
            if not isinstance(outcome, AllReceived):
                return Allowed(state)
            return _failed_over(state, tracked, operation, outcome.messages).then(lambda _: Allowed(state))
        case _:
            assert_never(operation)


@carries("REPL-01")
def _stalled(state: Consumption, stalled: ReplicatorStalled) -> Broken:
    link = f"the replicator of {stalled.source} to {stalled.target}"
    because = f"{link} was connected, but replicated nothing for {stalled.stalled_s:.0f} s"
    return Broken(REPL_01, because, evidence=stalled).passing_to(state)


def advanced(state: Consumption) -> Consumption:
    """Where mark-delete of subscriptions at home may be by now."""
    for subscription, one in state.cursors.items():
        log = state.log(subscription.topic)
        if log.has_markers and one.durable:
            highest = max(upper(possible, one, log).mark_delete for possible in one.possible)
            if highest > state.passed.get(subscription, EARLIEST):
                state = replace(state, passed=state.passed.set(subscription, highest))
    return state


@carries("REPL-01")
def _log_read(tracked: TrackedTopic, remote: Remote, read: LogRead) -> Allowed[TrackedTopic] | Broken:
    """The log of the other cluster was read after everything was replicated to it."""
    unknown = replace(tracked, replica=None)
    if not tracked.is_sure or tracked.is_trimmed or remote.is_in_flight:
        return Allowed(unknown, excused=(REPL_01,))
    home = _at_home(tracked.log)
    of_home = [one for one in home if one.position not in remote.at_home]
    own = [one for one in read.entries if one.producer in remote.producers]
    came = remote.of_home(read)
    judged = in_turn(
        0,
        [
            lambda _: compared_from_home(remote, of_home, read),
            lambda _: compared(remote.published, (AWAY, AWAY), own, may_repeat=False),
        ],
    )
    if len(came) != len(of_home) or len(remote.at_home) != len(own):
        return judged.then(lambda _: Allowed(unknown))
    there = {mine.position: one.position for mine, one in zip(of_home, came, strict=True)}
    there |= {mine: one.position for mine, one in zip(remote.at_home, own, strict=True)}
    return judged.then(lambda _: Allowed(replace(tracked, replica=tuple(there[one.position] for one in home))))


@carries("REPL-01", "REPL-14")
def _failed_over(
    state: Consumption,
    tracked: TrackedTopic,
    operation: ReceiveAll,
    received: Sequence[Delivery],
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
    in_order = [one for _, one in sorted(zip(there, home, strict=True), key=lambda placed: placed[0])]
    is_skipped = set(lacking) == set(in_order[: len(lacking)])  # it received everything after that
    return Broken(REPL_14, because, evidence=MissedByFailover(is_skipped)).passing_to(None)


def _at_home(log: TopicLog) -> list[Published]:
    keys = ((position, log.keys.get(position)) for position in log.all_after(EARLIEST))
    return [Published(position, log.entries[position], None if key is None else key.key) for position, key in keys]
