"""The deviations that explain why a due entry is not dispatched, entry by entry.

A deviation stalls only the entries that its cause affects: those of a hash, those in the ranges of a consumer that
left, or those after an entry in the replay queue. It ends with its cause. After each dispatch the next read begins with
the replay queue, and three of the deviations end when a consumer sends permits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from model.events import DueReceived
from model.excuses import preferred
from model.excuses.key_shared import (
    DELAYED_WAITS_FOR_REPLAY_QUEUE,
    LEAVE_TRIGGERS_NO_READ,
    LOOK_AHEAD_SKIPS_REPLAY,
    LOOK_AHEAD_SKIPS_UNORDERED_REPLAY,
    PERMITS_OF_STUCK_CONSUMER_IGNORED,
    RECENTLY_JOINED_CLEARED_WITHOUT_READ,
    RECENTLY_JOINED_OUTLIVES_SKIP,
    REPLAY_FILTERED_AFTER_LIMIT,
    REPLAY_HASH_KEPT_AFTER_ACK,
    REPLAY_HEAD_OF_LINE_BLOCKING,
    REWIND_SKIPPED_AFTER_REPLAY_READ,
    UNCLAIMED_HASH_READ_AGAIN,
)
from model.immutable.map import Map
from model.key_shared.liveness import Open, Receiver, owner_of
from model.key_shared.state import Keyed
from model.log import EARLIEST, Position

ENDED_BY_PERMITS = (
    LEAVE_TRIGGERS_NO_READ,
    LOOK_AHEAD_SKIPS_REPLAY,
    LOOK_AHEAD_SKIPS_UNORDERED_REPLAY,
    REPLAY_HASH_KEPT_AFTER_ACK,
)


@dataclass(frozen=True, slots=True)
class Look:
    """A look at a subscription: its unacknowledged entries, its consumers, and possible causes of a stall.

    ``without_hash``: entries whose hash the replay queue lacks. ``passed``: the hashes of entries that were
    acknowledged while they were in the replay queue, and that mark-delete has passed. ``last``: the last entry of the
    log. ``is_passed_over``: a look-ahead may have passed over the replay queue. ``is_passed_over_unordered``: the
    same, after the broker replayed messages that no consumer has permits for, as it does only without an order.
    ``has_dispatched``: something was dispatched since the last look.
    """

    entries: Sequence[Open]
    receivers: Sequence[Receiver]
    without_hash: frozenset[Position]
    passed: frozenset[int]
    last: Position
    is_passed_over: bool
    has_dispatched: bool
    is_passed_over_unordered: bool = False


def explained(keyed: Keyed, owed: Iterable[Position], look: Look, known: frozenset[str]) -> Map[Position, str]:
    """The entries that a deviation stalls, and its name: a known one if there is one. A stall that has not ended
    continues."""
    before = _continuing(keyed, has_dispatched=look.has_dispatched)
    if keyed.last != look.last:  # a new message has made the broker rewind
        before = {at: name for at, name in before.items() if name != REWIND_SKIPPED_AFTER_REPLAY_READ}
    hashes = {entry.position: entry.hashed for entry in look.entries}
    owed = tuple(owed)
    ready = frozenset(hashes[at] for at in owed)
    continuing = {at: [before[at]] if at in before else [] for at in owed}
    reasons = {at: [*continuing[at], *_reasons(keyed, at, hashes[at], look, ready)] for at in owed}
    stalled_at = {at: preferred(names, known) for at, names in reasons.items() if names}
    if REWIND_SKIPPED_AFTER_REPLAY_READ in stalled_at.values():
        # The broker reads nothing until the next new message, so it does not read later entries either.
        following = (entry.position for entry in look.entries if entry.holder is None)
        stalled_at = {**dict.fromkeys(following, REWIND_SKIPPED_AFTER_REPLAY_READ), **stalled_at}
    return Map(stalled_at)


def replays_waiting(outcome: DueReceived) -> int:
    """How many messages are in the replay queue while the broker waits for a new one."""
    return outcome.in_replay if outcome.is_waiting else 0


def lasting(
    keyed: Keyed, owed: Iterable[Position], *, is_passed_over: bool, is_skipped: bool, has_dispatched: bool
) -> Map[Position, str]:
    """The entries that the classic implementation stalls until something else triggers a read.

    ``is_skipped``: the recently joined consumers wait for messages that were skipped.
    """
    if is_skipped and not has_dispatched:
        return Map(dict.fromkeys(owed, RECENTLY_JOINED_OUTLIVES_SKIP))
    before = _continuing(keyed, has_dispatched=has_dispatched)
    return Map(
        {at: LOOK_AHEAD_SKIPS_REPLAY for at in owed if is_passed_over or before.get(at) == LOOK_AHEAD_SKIPS_REPLAY}
    )


def crowded_out(
    owed: Iterable[Position], entries: Iterable[Open], receivers: Sequence[Receiver], *, in_replay: int
) -> Map[Position, str]:
    """The entries that the classic implementation never looks at, because its replay queue begins with other ones.

    It takes as many of the first ones as there are permits, and omits those that it cannot dispatch. ``in_replay``: the
    size of the queue.
    """
    owed = frozenset(owed)
    room = max(
        sum(one.permits for one in receivers), min((one.permits for one in receivers if one.permits > 0), default=0)
    )
    in_the_way, found = 0, dict[Position, str]()
    for entry in entries:
        if entry.position in owed and room <= in_the_way < in_replay:
            found[entry.position] = REPLAY_FILTERED_AFTER_LIMIT
        elif entry.holder is None and entry.position not in owed:
            in_the_way += 1
    return Map(found)


def untracked(
    tracked: Collection[Position],
    owed: Iterable[Position],
    entries: Iterable[Open],
    receivers: Sequence[Receiver],
    *,
    recent: Mapping[str, Position],
    is_waiting: bool,
) -> Map[Position, str]:
    """The due delayed messages that the classic implementation does not take from its tracker.

    It looks at the tracker only if the replay queue is empty. There, messages wait whose consumers have no permits, and
    the broker waits, too (``is_waiting``), or reads them again and again while there are recently joined consumers; or
    messages without a consumer, or of a recently joined one, which it reads again and again instead of waiting, delayed
    or not. ``recent``: the recently joined consumers, and the last entry that each may receive.
    ``tracked``: the delayed messages that were not delivered yet.
    """
    waiting = [(entry, owner_of(entry.hashed, receivers)) for entry in entries if entry.holder is None]
    owners = [owner for entry, owner in waiting if not entry.is_not_due]
    is_kept = (is_waiting or bool(recent)) and any(owner is not None and owner.permits <= 0 for owner in owners)
    is_kept |= any(
        owner is not None and entry.position > recent.get(owner.name, entry.position)
        for entry, owner in waiting
        if not (is_waiting and entry.is_not_due)
    )
    if not is_kept and None not in owners:
        return Map()
    return Map({at: DELAYED_WAITS_FOR_REPLAY_QUEUE for at in owed if at in tracked})


def unread(keyed: Keyed, owed: Iterable[Position], *, is_waiting: bool, in_replay: int) -> Map[Position, str]:
    """The entries that the classic implementation has not read since only a recently joined consumer was left.

    It read in order, so it dispatched nothing after them. A replay queue with messages would have triggered a read.
    """
    if not keyed.is_left_unread or is_waiting or in_replay:
        return Map()
    delivered = max(keyed.got, default=EARLIEST)
    return Map({at: RECENTLY_JOINED_CLEARED_WITHOUT_READ for at in owed if at > delivered and at not in keyed.replays})


def dropped(keyed: Keyed, entries: Iterable[Open], receivers: Sequence[Receiver]) -> frozenset[Position]:
    """The entries that the classic implementation may have read while no consumer claimed their hash.

    A consumer with permits makes it read. Entries in the replay queue stay there.
    """
    if all(one.permits <= 0 for one in receivers):
        return keyed.dropped
    waiting = (entry for entry in entries if entry.holder is None and entry.position not in keyed.replays)
    return keyed.dropped.union(entry.position for entry in waiting if owner_of(entry.hashed, receivers) is None)


def stuck(
    keyed: Keyed,
    owed: Mapping[Position, str],
    entries: Iterable[Open],
    receivers: Sequence[Receiver],
    *,
    received: Mapping[str, int],
) -> Map[Position, str]:
    """The entries of consumers whose permits the classic implementation ignores, until something else triggers a read.

    A dispatch that sends nothing, because only consumers without permits have messages in it, makes these *stuck*. Some
    other consumer had permits, or nothing would have been read. The next dispatch sends stuck consumers nothing, even
    if they have permits. If it sends nothing at all, and some have none, the dispatcher looks ahead and waits for a new
    entry. ``received``: how many messages each consumer received since the last look, which took its permits.
    """
    without_permits = [one for one in receivers if one.permits <= 0]
    waiting = (owner_of(entry.hashed, without_permits) for entry in entries if entry.holder is None)
    if not any(waiting):
        return Map()
    ready = keyed.ready | keyed.permitted
    names = {
        name
        for name in keyed.permitted
        if keyed.permits.get(name, 0) <= received.get(name, 0)
        and (ready - {name} or keyed.has_left or keyed.is_last_gone)
    }
    before = _continuing(keyed, has_dispatched=any(received.values()))
    continued = {at for at, name in before.items() if name == PERMITS_OF_STUCK_CONSUMER_IGNORED}
    return Map({at: PERMITS_OF_STUCK_CONSUMER_IGNORED for at, name in owed.items() if name in names or at in continued})


def behind_unclaimed(
    owed: Iterable[Position], entries: Iterable[Open], receivers: Sequence[Receiver]
) -> Map[Position, str]:
    """The entries that the classic implementation does not read, because it replays one without a consumer for ever.

    A dispatch that sends nothing makes the dispatcher look ahead only if it found a consumer without permits.
    """
    owed = frozenset(owed)
    is_unclaimed, found = False, dict[Position, str]()
    for entry in entries:
        if entry.holder is not None:
            continue
        owner = owner_of(entry.hashed, receivers)
        if owner is None:
            is_unclaimed = True
        elif owner.permits <= 0:
            break  # it is looked ahead of
        elif is_unclaimed and entry.position in owed:
            found[entry.position] = UNCLAIMED_HASH_READ_AGAIN
    return Map(found)


def _continuing(keyed: Keyed, *, has_dispatched: bool) -> dict[Position, str]:
    """The stalls that have not ended since the last look."""
    ended = ENDED_BY_PERMITS if keyed.is_permitted else ()
    return {} if has_dispatched else {at: name for at, name in keyed.stalled.items() if name not in ended}


def _reasons(keyed: Keyed, position: Position, hashed: int, look: Look, ready: frozenset[int]) -> Iterator[str]:
    """``ready``: the hashes of due entries. All other entries in the replay queue may block later ones."""
    if any(own.has(position, hashed) for own in keyed.unread):
        yield LEAVE_TRIGGERS_NO_READ
    if keyed.may_be_replay_read and keyed.may_be_read_to == look.last:
        yield REWIND_SKIPPED_AFTER_REPLAY_READ
    waiting = (entry for entry in look.entries if entry.holder is None and entry.position < position)
    blocked = (entry for entry in waiting if entry.position in look.without_hash and entry.hashed not in ready)
    if any(owner_of(entry.hashed, look.receivers) for entry in blocked):
        yield REPLAY_HEAD_OF_LINE_BLOCKING
    # A message that was blocked once is in the replay queue, where its hash no longer matters.
    if hashed in look.passed and keyed.stalled.get(position) != REPLAY_HASH_KEPT_AFTER_ACK:
        yield REPLAY_HASH_KEPT_AFTER_ACK
    if look.is_passed_over_unordered:
        yield LOOK_AHEAD_SKIPS_UNORDERED_REPLAY
    if look.is_passed_over:
        yield LOOK_AHEAD_SKIPS_REPLAY
