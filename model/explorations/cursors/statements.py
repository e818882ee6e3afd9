"""What must hold of acknowledgment and cursors: in every state, and in every step of a kind. Each is a short function.

They use plain sets of messages, so that they do not share the model's bit sets.
"""

from __future__ import annotations

from itertools import chain, takewhile

from model.cursors import dispatch, reference
from model.cursors.acked import Acked
from model.cursors.info import info_of
from model.cursors.log import Place, TopicLog
from model.cursors.reference import CursorSubscription, Record
from model.explorations.cursors.world import FIRST_DELAY, Setup, Step, World, closed, is_dirty
from model.explore import Always, EveryStep
from model.log import Position

Statements = tuple[tuple[Always[World], ...], tuple[EveryStep[World, Step], ...]]
Messages = frozenset[Place]


def statements(setup: Setup) -> Statements:
    """The statements that must hold in this configuration."""
    always = [CONTIGUOUS, BACKLOG, CONVERTED, WAS_ACKNOWLEDGED]
    every_step = [INDIVIDUAL] if not setup.holds_back else []
    conditional = {
        UP_TO: setup.cumulative and not setup.holds_back,
        INDEPENDENT: setup.subscriptions > 1,
        NOT_TOO_OFTEN: setup.is_limited,
        NOT_TOO_SELDOM: setup.is_limited,
        FLUSHED: setup.is_limited,
        SKIPPED: setup.administration > 0,
        SKIP_PERSISTED: setup.administration > 0,
        EXPIRED: setup.administration > 0,
        RESET: setup.administration > 0,
        WAS_PERSISTED: setup.kills > 0,
        NOTHING_LOST: setup.unloads > 0,
        STORED: setup.unloads > 0,
        NEW_LEDGER: setup.kills + setup.unloads > 0,
        NEXT_POSITION: setup.publishes > 0,
        NOBODY_NEEDS: setup.trims,
        NOT_ACKNOWLEDGED: setup.acks == "received",
        REACHES: setup.unloads > 0 and setup.holds_back,
        CLOSED: setup.leaves > 0 and setup.holds_back,
        CRASHED: setup.leaves > 0 and setup.holds_back,
        COMES_TO_OTHERS: setup.leaves > 0,
        ONLY_NACKED: setup.nacks > 0 and setup.kind == "Shared",
        COUNTED: setup.nacks > 0,
        BACKED_OFF: setup.nacks > 0,
    }
    every_step += [statement for statement, is_said in conditional.items() if is_said]
    if setup.acks == "received":
        always += [ONE_CONSUMER, NOT_MISSED]
    return tuple(always), tuple(every_step)


# ------------------------------------------------------------------------------------------------------ plain sets


def everything(log: TopicLog) -> tuple[Place, ...]:
    """All messages of the topic, in order."""
    return tuple(chain.from_iterable(log.places_at(position) for position in sorted(log.entries)))


def acknowledged(state: Acked, log: TopicLog) -> Messages:
    """The messages that are acknowledged."""
    return frozenset(place for place in everything(log) if state.has_message(place))


def persisted(record: Record, log: TopicLog) -> Messages:
    """The messages that are acknowledged once this is recovered."""
    return acknowledged(reference.recovered_from(record, log), log)


def entries(messages: Messages, log: TopicLog) -> tuple[Position, ...]:
    """The entries all of whose messages are among these, in order."""
    return tuple(position for position in sorted(log.entries) if messages.issuperset(log.places_at(position)))


def _of(world: World, number: int = 0) -> Messages:
    return acknowledged(world.subscriptions[number].acked, world.log)


def _up_to(world: World, last: Place) -> Messages:
    return frozenset(place for place in everything(world.log) if place <= last)


# --------------------------------------------------------------------------------------------------- in every state


def _contiguous(world: World) -> bool:
    return all(_is_contiguous(one, world.log) for one in world.subscriptions)


def _is_contiguous(subscription: CursorSubscription, log: TopicLog) -> bool:
    done = entries(acknowledged(subscription.acked, log), log)
    passed = list(takewhile(done.__contains__, sorted(log.entries)))
    info = reference.stats_position(subscription, log)
    in_ranges = {position for one in info.ranges for position in log.entries if one.after < position <= one.last}
    mark_delete = passed[-1] if passed else Position(min(log.entries).ledger, -1)
    return info.mark_delete == mark_delete and in_ranges == set(done) - set(passed)


def _backlog(world: World) -> bool:
    return all(
        reference.backlog(one, world.log)
        == len(world.log.entries) - len(entries(acknowledged(one.acked, world.log), world.log))
        for one in world.subscriptions
    )


def _converted(world: World) -> bool:
    return all(
        reference.recovered_from(reference.record_of(one.acked), world.log, one.variant) == one.acked
        for one in world.subscriptions
    )


def _was_acknowledged(world: World) -> bool:
    return all(
        persisted(record, world.log) <= acknowledged(one.acked, world.log)
        for one in world.subscriptions
        for record in (one.persisted, *one.writes)
    )


def _one_consumer(world: World) -> bool:
    return sum(len(one.pending) for one in world.dispatch.consumers) == len(world.dispatch.pending)


def _not_missed(world: World) -> bool:
    if not world.dispatch.receivers:
        return True
    left = {place.position for place in set(everything(world.log)) - _of(world)} - world.dispatch.pending
    state, to = world.subscriptions[0].acked, world.dispatch
    return not left or any(dispatch.next_entry(to, state, world.log, one.name) is not None for one in to.receivers)


# ---------------------------------------------------------------------------------------------------- in every step


def _individual(before: World, step: Step, after: World) -> bool:
    return _of(after, step.subscription) == _of(before, step.subscription).union(step.places)


def _cumulative(before: World, step: Step, after: World) -> bool:
    return _of(after, step.subscription) == _of(before, step.subscription) | _up_to(before, step.places[0])


def _independent(before: World, step: Step, after: World) -> bool:
    return all(
        now == then
        for number, (then, now) in enumerate(zip(before.subscriptions, after.subscriptions, strict=True))
        if number != step.subscription
    )


def _skipped(before: World, step: Step, after: World) -> bool:
    done = _of(before)
    left = sorted({place.position for place in everything(before.log) if place not in done})
    number = len(left) if step.kind == "skip all" else step.number
    return _of(after) == done | {place for place in everything(before.log) if place.position in left[:number]}


def _skip_persisted(before: World, step: Step, after: World) -> bool:
    then, now = before.subscriptions[step.subscription], after.subscriptions[step.subscription]
    return now.acked == then.acked or not (is_dirty(now) or now.writes)


def _expired(before: World, step: Step, after: World) -> bool:
    return _of(after) == _of(before) | {
        place for place in everything(before.log) if step.position is not None and place.position <= step.position
    }


def _reset(before: World, step: Step, after: World) -> bool:
    first = step.position
    is_there = _of(after) == {p for p in everything(before.log) if first is not None and p.position < first}
    return is_there and not is_dirty(after.subscriptions[0])


def _began(before: World, step: Step, after: World) -> bool:
    """Whether a write began."""
    now, then = after.subscriptions[step.subscription], before.subscriptions[step.subscription]
    return now.limited > then.limited or len(now.writes) > len(then.writes) or now.persisted != then.persisted


def _not_too_often(before: World, step: Step, after: World) -> bool:
    return not before.persisted_lately[step.subscription] or not _began(before, step, after)


def _not_too_seldom(before: World, step: Step, after: World) -> bool:
    then, now = before.subscriptions[step.subscription], after.subscriptions[step.subscription]
    is_free, is_changed = not before.persisted_lately[step.subscription], now.acked != then.acked
    return not (is_free and is_changed) or not is_dirty(now)


def _flushed(_: World, step: Step, after: World) -> bool:
    return not is_dirty(after.subscriptions[step.subscription])


def _was_persisted(before: World, _: Step, after: World) -> bool:
    return all(
        acknowledged(now.acked, after.log) in [persisted(one, after.log) for one in (then.persisted, *then.writes)]
        for then, now in zip(before.subscriptions, after.subscriptions, strict=True)
    )


def _nothing_lost(before: World, _: Step, after: World) -> bool:
    return all(_of(before, number) == _of(after, number) for number in range(len(before.subscriptions)))


def _stored(before: World, _: Step, after: World) -> bool:
    return all(
        _is_stored_well(then, now, before.stored_ranges)
        for then, now in zip(before.subscriptions, after.subscriptions, strict=True)
    )


def _is_stored_well(before: CursorSubscription, after: CursorSubscription, stored_ranges: int) -> bool:
    info = info_of(before.acked)
    if len(info.ranges) < stored_ranges:
        return after.stored == info
    return len(info.ranges) == stored_ranges or after.stored is None


def _next_position(before: World, step: Step, _: World) -> bool:
    position, there = step.position, before.log.entries
    assert position is not None
    in_ledger = [one for one in there if one.ledger == position.ledger]
    return all(one < position for one in there) and position.entry == len(in_ledger) < before.ledgers.room


def _new_ledger(before: World, _: Step, after: World) -> bool:
    return all(one.ledger < after.ledgers.next_position.ledger for one in before.log.entries)


def _nobody_needs(before: World, step: Step, _: World) -> bool:
    ledgers = closed(before)[: step.number]
    messages = {place for place in everything(before.log) if place.position.ledger in ledgers}
    everyone = all(messages <= _of(before, number) for number in range(len(before.subscriptions)))
    return everyone and len(ledgers) == step.number


def _not_acknowledged(before: World, step: Step, _: World) -> bool:
    return any(place.position == step.position for place in set(everything(before.log)) - _of(before))


def _reaches(before: World, step: Step, _: World) -> bool:
    return all(place.position != step.position for place in before.client(step.consumer).hidden)


def _closed(before: World, step: Step, after: World) -> bool:
    held_back = before.client(step.consumer).held_back
    whole = (_up_to(before, ack.place) if ack.is_cumulative else {ack.place} for ack in held_back)
    return _of(after) == _of(before).union(*whole)


def _crashed(before: World, _: Step, after: World) -> bool:
    return _of(after) == _of(before)


def _comes_to_others(before: World, step: Step, after: World) -> bool:
    left = before.dispatch.consumer(step.consumer).pending - set(entries(_of(after), after.log))
    return left.isdisjoint(after.dispatch.pending) and left.isdisjoint(after.dispatch.forgotten)


def _only_nacked(before: World, step: Step, after: World) -> bool:
    return before.dispatch.pending - after.dispatch.pending == {step.position}


def _counted(before: World, step: Step, _: World) -> bool:
    assert step.position is not None
    return step.number == dict(before.dispatch.redelivered).get(step.position, 0)


def _backed_off(before: World, step: Step, _: World) -> bool:
    assert step.position is not None
    return step.number >= FIRST_DELAY << dict(before.dispatch.redelivered).get(step.position, 0)


ACKS = frozenset({"acks", "acks up to"})

CONTIGUOUS = Always(
    ("ACK-01", "ACK-02"),
    "mark-delete is the last position up to which all is acknowledged; the ranges are the other acknowledged positions",
    _contiguous,
)
BACKLOG = Always(("ACK-01",), "the backlog is the number of entries that are not completely acknowledged", _backlog)
CONVERTED = Always(("ACK-07",), "converting a state to position info and back does not change it", _converted)
WAS_ACKNOWLEDGED = Always(("ACK-09",), "only acks that a client sent are persisted", _was_acknowledged)
ONE_CONSUMER = Always(("ACK-12",), "a message is pending at one consumer at most", _one_consumer)
NOT_MISSED = Always(
    ("ACK-09", "ACK-12"),
    "while a message is neither acknowledged nor pending, the dispatcher has one to send",
    _not_missed,
    promise=True,
)
INDIVIDUAL = EveryStep(
    ("ACK-03",), "an ack acknowledges exactly its message", frozenset({"acks"}), _individual, promise=True
)
UP_TO = EveryStep(
    ("ACK-04",),
    "a cumulative ack acknowledges exactly the messages up to its position",
    frozenset({"acks up to"}),
    _cumulative,
    promise=True,
)
INDEPENDENT = EveryStep(("ACK-05",), "an ack does not change other subscriptions", ACKS, _independent, promise=True)
SKIPPED = EveryStep(
    ("ACK-04",),
    "skipping acknowledges exactly the given number of unacknowledged entries",
    frozenset({"skip", "skip all"}),
    _skipped,
    promise=True,
)
SKIP_PERSISTED = EveryStep(
    ("ACK-16",), "a skip is persisted at once", frozenset({"skip", "skip all"}), _skip_persisted, promise=True
)
EXPIRED = EveryStep(
    ("ACK-04",), "expiry acknowledges everything up to its position", frozenset({"expire"}), _expired, promise=True
)
RESET = EveryStep(
    ("ACK-01", "ACK-09", "ACK-16"),
    "a reset makes its position the next one to read, and is persisted",
    frozenset({"reset"}),
    _reset,
    promise=True,
)
NOT_TOO_OFTEN = EveryStep(("ACK-08",), "at most one ack is persisted in an interval", ACKS, _not_too_often)
NOT_TOO_SELDOM = EveryStep(
    ("ACK-08", "ACK-15"),
    "an ack that changes the state is persisted, unless another one was in the same interval",
    ACKS,
    _not_too_seldom,
)
FLUSHED = EveryStep(
    ("ACK-08",), "at the end of the flush interval a dirty state is persisted", frozenset({"flush"}), _flushed
)
WAS_PERSISTED = EveryStep(
    ("ACK-09",),
    "after a kill the state is the one persisted last, or one that was being persisted",
    frozenset({"kill"}),
    _was_persisted,
    promise=True,
)
NOTHING_LOST = EveryStep(
    ("ACK-10",), "an unload loses no ack and adds none", frozenset({"unload"}), _nothing_lost, promise=True
)
STORED = EveryStep(
    ("ACK-10",),
    "an unload writes few ranges to the metadata store, and many to the cursor's ledger",
    frozenset({"unload"}),
    _stored,
)
NEXT_POSITION = EveryStep(
    ("ACK-06",),
    "an entry is after all others, and entries of a ledger are numbered from 0",
    frozenset({"published"}),
    _next_position,
)
NEW_LEDGER = EveryStep(
    ("ACK-06",),
    "a broker that loads the topic writes to a new ledger",
    frozenset({"unload", "kill"}),
    _new_ledger,
)
NOBODY_NEEDS = EveryStep(
    ("ACK-14",),
    "a ledger is deleted once it is closed and every subscription acknowledged it",
    frozenset({"deletes"}),
    _nobody_needs,
    promise=True,
)
NOT_ACKNOWLEDGED = EveryStep(
    ("ACK-02",), "no message of an acknowledged entry is sent", frozenset({"sent"}), _not_acknowledged
)
REACHES = EveryStep(
    ("ACK-11",), "a message that is sent reaches the application", frozenset({"sent"}), _reaches, promise=True
)
CLOSED = EveryStep(
    ("ACK-11",),
    "a client that closes flushes its grouped acks",
    frozenset({"closes"}),
    _closed,
)
CRASHED = EveryStep(("ACK-11",), "a client's grouped acks are lost when it crashes", frozenset({"crashes"}), _crashed)
COMES_TO_OTHERS = EveryStep(
    ("ACK-11", "ACK-12"),
    "messages that were pending at a consumer that leaves are redelivered",
    frozenset({"closes", "crashes"}),
    _comes_to_others,
)
ONLY_NACKED = EveryStep(
    ("ACK-13",), "exactly the nacked messages are redelivered", frozenset({"redelivers"}), _only_nacked
)
COUNTED = EveryStep(("ACK-13",), "the redelivery count of a message is correct", frozenset({"sent"}), _counted)
BACKED_OFF = EveryStep(
    ("ACK-13",), "with each redelivery of a message the delay doubles", frozenset({"redelivers"}), _backed_off
)
