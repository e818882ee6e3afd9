"""What was gathered of a Key_Shared subscription, judged: deliveries, what must have come, the broker's account."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from immutables import Map

from model.catalogue import carries
from model.cursors import deliveries
from model.cursors.consumers import Key
from model.cursors.left import surely_left
from model.cursors.state import Consumption, messages_at
from model.cursors.words import Dispatched
from model.deviations import DEVIATIONS, PUT_ASIDE_IN_TURN, REPLAY_WAITS_FOR_NEWS
from model.judgement import Allowed, Broken
from model.keys import order, recently_joined, stats, watch
from model.keys.liveness import Open, Receiver, draining, due, owner_of
from model.keys.state import Keyed
from model.keys.words import Gather, Gathered, KeyOperation, Permit, Share
from model.log import Position
from model.vocabulary import Outcome

Judged = Allowed[Consumption] | Broken

OF_LIVENESS = frozenset({"KEY-04", "KEY-05", "KEY-07", "KEY-08", "KEY-13"})
"""The rules that say what must come."""


def judge(state: Consumption, operation: KeyOperation, outcome: Outcome, known: frozenset[str]) -> Judged:
    """What this operation with this outcome leaves possible."""
    match operation:
        case Permit(name):
            consumer = state.consumers.get(name)
            if consumer is None:
                return Allowed(state)
            return Allowed(state.with_consumer(name, replace(consumer, is_settled=False)))
        case Gather(topic, subscription):
            key = (topic, subscription)
            if not isinstance(outcome, Gathered) or key not in state.cursors or not state.topics[topic].is_sure:
                return Allowed(state)
            return _gathered(state, key, outcome, known)
        case _:
            assert_never(operation)


@carries("KEY-10")
def in_a_race(broken: Broken, *, are_raced: bool) -> Broken:
    """What does not come while calls race one another was added to what is pending where it must not be."""
    if are_raced and broken.deviation is None and broken.rule in OF_LIVENESS:
        return replace(broken, rule="KEY-10")
    return broken


def _gathered(state: Consumption, key: Key, outcome: Gathered, known: frozenset[str]) -> Judged:
    exercised: tuple[str, ...] = ()
    deviations: tuple[str, ...] = ()
    for share in outcome.shares:
        if share.consumer not in state.consumers:
            continue
        judged = _arrived(state, key, share, known)
        if isinstance(judged, Broken):
            return judged
        state, exercised, deviations = (
            judged.state,
            exercised + judged.exercised,
            deviations + judged.deviations,
        )
    accounted = _accounted(state, key, outcome, known)
    if isinstance(accounted, Broken):
        return accounted
    has_come = any(share.messages for share in outcome.shares)
    state = _all_seen(accounted.state, key, has_come=has_come, is_stalled=bool(accounted.deviations))
    return Allowed(state, exercised + accounted.exercised, deviations + accounted.deviations)


def _all_seen(state: Consumption, key: Key, *, has_come: bool, is_stalled: bool) -> Consumption:
    """All is gathered that was on its way: what waits for replay from now on was there before anything that comes.

    ``is_stalled``: by a known deviation nobody looks at what waits for replay; nothing is said on what comes before it.
    """
    keyed = state.keyed_of(key)
    replays = Map(dict.fromkeys(keyed.replays, not is_stalled))
    may_be_read = keyed.may_be_read and not has_come
    return state.with_keyed(key, replace(keyed, is_gathered=True, replays=replays, may_be_read=may_be_read))


def _arrived(state: Consumption, key: Key, share: Share, known: frozenset[str]) -> Judged:
    """A consumer was given messages, in this order."""
    name = share.consumer
    exercised: tuple[str, ...] = ()
    deviations: tuple[str, ...] = ()
    before: Position | None = None
    for dispatched in share.messages:
        is_first = dispatched.position != before
        before = dispatched.position
        placed = _placed(state, key, name, dispatched, known, is_first=is_first)
        if isinstance(placed, Broken):
            return placed
        deviations += placed.deviations
        judged = deliveries.received(state, name, [dispatched], is_all=False, known=known)
        if isinstance(judged, Broken):
            return judged
        state = _got(judged.state, key, name, dispatched)
        exercised += placed.exercised + judged.exercised
        deviations += judged.deviations
    judged = deliveries.received(state, name, [], is_all=True, known=known)
    return judged if isinstance(judged, Broken) else Allowed(judged.state, exercised, deviations)


def _placed(
    state: Consumption, key: Key, name: str, dispatched: Dispatched, known: frozenset[str], *, is_first: bool
) -> Allowed[None] | Broken:
    """Whether a message comes in its order, and what that puts to the test; ``is_first``: of its entry."""
    message = state.place_of(state.consumers[name], dispatched)
    if message is None or dispatched.position not in state.log(key[0]).keys:
        return Allowed(None)
    broken = order.out_of_order(state, key, name, dispatched.position) if is_first else None
    if broken is not None and broken.deviation in known:
        return Allowed(None, (), (str(broken.deviation),))
    exercised = order.exercised_by(state, key, name, message)
    if state.topics[key[0]].drains:
        return broken or Allowed(None, exercised + _moved(state, key, name, dispatched.position))
    if broken is None and is_first:
        broken = recently_joined.too_soon(state, key, name, dispatched.position)
    rules = recently_joined.exercised_by(state, key, name, dispatched.position)
    return broken or Allowed(None, exercised + rules)


@carries("KEY-03")
def _moved(state: Consumption, key: Key, name: str, position: Position) -> tuple[str, ...]:
    """The rules that are put to the test where a hash had drained, or drains, and something of it is delivered.

    That it had drained when it moved needs no judgement of its own: otherwise two consumers have messages of its keys
    (KEY-01).
    """
    keyed = state.keyed_of(key)
    hashed = watch.hash_of(state, key, position)
    waited_for = keyed.draining.get(hashed)
    if waited_for is None:
        return ("KEY-04", "KEY-13") if keyed.held_up else ()
    if waited_for == name:
        return ("KEY-07",)
    return ("KEY-03", "KEY-05") if hashed in keyed.held_up else ("KEY-03",)


def _got(state: Consumption, key: Key, name: str, dispatched: Dispatched) -> Consumption:
    keyed = state.keyed_of(key)
    position = dispatched.position
    replays = keyed.replays.delete(position) if position in keyed.replays else keyed.replays
    return state.with_keyed(key, replace(keyed, got=keyed.got.set(position, name), replays=replays))


# ------------------------------------------------------------------------------------------------- what must have come


def _accounted(state: Consumption, key: Key, outcome: Gathered, known: frozenset[str]) -> Judged:
    """The broker's account, where it says enough: nothing is left that must have come, and its stats are right."""
    receivers = receivers_of(outcome)
    if receivers is None or not state.topics[key[0]].drains or state.keyed_of(key).is_administered:
        return Allowed(state)
    if any(consumer.client != "wire" for _, consumer in state.of_subscription(key)):
        return Allowed(state)  # what waits in the queues of other clients is not known
    keyed, entries = state.keyed_of(key), list(_open(state, key))
    is_ordered = watch.is_ordered(state, key)
    owed = due(entries, receivers, drains=is_ordered)
    deviations: tuple[str, ...] = ()
    if owed:
        starved = _starved(state, key, owed, receivers)
        again = {message[1].position for message, why in state.due(key).items() if why == "failed"}
        deviation = _deviation(keyed, owed, entries, receivers, has_hash=lambda at: is_ordered and at not in again)
        if deviation is None:
            return starved
        if deviation not in known:
            return DEVIATIONS[deviation].broken(starved.because)
        deviations = (deviation,)
    if not is_ordered:
        return Allowed(state.with_keyed(key, replace(keyed, is_unread=bool(owed))), (), deviations)
    broken = stats.wrong(outcome, entries, receivers, keyed.draining) or stats.miscounted(
        outcome, keyed.draining, keyed.cleared
    )
    if broken is not None:
        return broken
    drains = draining(entries, receivers)
    counts = Map({share.consumer: share.cleared for share in outcome.shares})
    held_up = frozenset(entry.hashed for entry in entries if entry.holder is None and entry.hashed in drains)
    exercised = ("KEY-11",) if drains or keyed.draining else ()
    after = replace(keyed, draining=Map(drains), held_up=held_up, cleared=counts, is_unread=bool(owed))
    return Allowed(state.with_keyed(key, after), exercised, deviations)


def _deviation(
    keyed: Keyed,
    owed: Mapping[Position, str],
    entries: Sequence[Open],
    receivers: Sequence[Receiver],
    *,
    has_hash: Callable[[Position], bool],
) -> str | None:
    """What releases are known to do that may be behind it that something does not come.

    ``has_hash``: whether a broker can tell whom something is for that was put aside at a position.
    """
    if keyed.is_unread:
        return REPLAY_WAITS_FOR_NEWS
    first = min(owed)
    waiting = (entry for entry in entries if entry.holder is None and entry.position < first)
    if any(owner_of(entry.hashed, receivers) is not None and not has_hash(entry.position) for entry in waiting):
        return PUT_ASIDE_IN_TURN
    return None


def receivers_of(outcome: Gathered) -> list[Receiver] | None:
    """The consumers as the broker shows them; None if it does not show their ranges."""
    receivers = []
    for share in outcome.shares:
        if share.ranges is None:
            return None
        receivers.append(Receiver(share.consumer, share.permits, share.ranges))
    return receivers


def _open(state: Consumption, key: Key) -> Iterator[Open]:
    """The entries that are surely not acknowledged, in order, and who has them."""
    keys = state.log(key[0]).keys
    holders = {
        message[1].position: name
        for name, consumer in state.of_subscription(key)
        for message in consumer.outstanding
        if message[0] == key[0]
    }
    for position in dict.fromkeys(place.position for _, place in surely_left(state, key)):
        if position in keys:
            yield Open(position, watch.hash_of(state, key, position), holders.get(position))


@carries("KEY-04", "KEY-05", "KEY-07", "KEY-08", "KEY-13")
def _starved(state: Consumption, key: Key, owed: Mapping[Position, str], receivers: Sequence[Receiver]) -> Broken:
    """Something must have come and did not: which rule that is depends on what it might have waited for."""
    keyed, log, due_again = state.keyed_of(key), state.log(key[0]), state.due(key)
    position, name = next(iter(owed.items()))
    hashed = watch.hash_of(state, key, position)
    reasons = {due_again.get(message) for message in messages_at(key[0], log, position)}
    permits = next(one.permits for one in receivers if one.name == name)
    what = f"{name}, which has {permits} permits, is not given {', '.join(log.entries[position])} at {position}"
    if keyed.draining.get(hashed) == name:
        return Broken("KEY-07", f"{what}: its hash {hashed} came back while it drained there")
    if hashed in keyed.draining:
        return Broken("KEY-05", f"{what}: its hash {hashed} has drained at {keyed.draining[hashed]}")
    if "failed" in reasons:
        return Broken("KEY-08", f"{what}, which was asked for again")
    if "left" in reasons or not keyed.draining:
        return Broken("KEY-13", f"{what}: nothing of hash {hashed} is with anybody")
    return Broken("KEY-04", f"{what}: its hash {hashed} does not drain, only others do")
