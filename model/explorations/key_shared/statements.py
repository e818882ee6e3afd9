"""What must hold of Key_Shared: in every state, and in every step of a kind. Each is one short function.

Statements about visible behavior do not use the draining hashes. So they apply to any implementation.
"""

from __future__ import annotations

from model.explorations.key_shared.world import ASIDE, REFUSED, Setup, Step, World
from model.explore import Always, EveryStep
from model.key_shared.dispatcher import KeySharedConsumer, KeySharedSubscription

Statements = tuple[tuple[Always[World], ...], tuple[EveryStep[World, Step], ...]]


def statements(setup: Setup) -> Statements:
    """The statements that must hold in this configuration; the order of keys only without nacks (KEY-08)."""
    if setup.classic_rule:
        return (NOBODY_GONE,), (RECENT_GETS_NOTHING_NEW, BEHIND_THE_REPLAY, LEAVER_IS_REPLAYED)
    always, every_step = [ONE_CONSUMER, NOBODY_GONE, RESTS_WITH_REASON], [KEPT_FOR_A_REASON, BEHIND_THE_REPLAY]
    if setup.variant.is_classic:
        every_step.append(RECENT_GETS_NOTHING)
    else:
        always += [COUNTED, DRAINS_WHERE_PENDING]
        every_step += [NOT_WHILE_IT_DRAINS, COMES_BACK]
    if setup.leaves:
        every_step.append(LEAVER_IS_REPLAYED)
    every_step.append(GIVEN_BACK if setup.backs else IN_ORDER)
    return tuple(always), tuple(every_step)


def _hashes_of(subscription: KeySharedSubscription, consumer: KeySharedConsumer) -> set[int]:
    return {subscription.hashes[position] for position in consumer.pending}


def _at_one_consumer(world: World) -> bool:
    subscription = world.subscription
    held = [_hashes_of(subscription, consumer) for consumer in (*subscription.consumers, *subscription.gone)]
    return sum(map(len, held)) == len(set().union(*held))


def _nobody_gone(world: World) -> bool:
    return not world.subscription.gone


def _counted(world: World) -> bool:
    subscription = world.subscription
    for hashed, entry in subscription.draining.entries:
        consumer = subscription.consumer(entry.consumer)
        if consumer is None or subscription.pending_of(hashed, consumer) != entry.pending:
            return False
    return True


def _drains_where_pending(world: World) -> bool:
    subscription = world.subscription
    owners = dict(subscription.owners)
    for consumer in subscription.consumers:
        for hashed in _hashes_of(subscription, consumer):
            entry = subscription.draining.of(hashed)
            if owners.get(hashed) != consumer.name and (entry is None or entry.consumer != consumer.name):
                return False
    return True


def _could_be_sent(subscription: KeySharedSubscription, position: int) -> bool:
    """Whether the document has no reason not to send this message to the owner of its hash."""
    hashed = subscription.hashes[position]
    owner = subscription.owner(hashed)
    if owner is None or not owner.permits:
        return False
    return all(
        hashed not in _hashes_of(subscription, other) for other in subscription.consumers if other is not owner
    ) and not _waiting_before(subscription, position)


def _waiting_before(subscription: KeySharedSubscription, position: int) -> bool:
    """Whether an earlier message of the same hash is neither acknowledged nor pending."""
    return any(
        subscription.hashes[earlier] == subscription.hashes[position] and _waits(subscription, earlier)
        for earlier in range(position)
    )


def _waits(subscription: KeySharedSubscription, position: int) -> bool:
    return position not in subscription.acknowledged and all(
        position not in consumer.pending for consumer in subscription.consumers
    )


def _rests_with_reason(world: World) -> bool:
    subscription = world.subscription
    if subscription.awake or subscription.sending is not None:
        return True
    waiting = (n for n in range(len(subscription.hashes)) if _waits(subscription, n))
    return not any(_could_be_sent(subscription, position) for position in waiting)


def _in_order(before: World, step: Step, _: World) -> bool:
    subscription = before.subscription
    return not _waiting_before(subscription, step.position)


def _kept_for_a_reason(before: World, step: Step, _: World) -> bool:
    return not _could_be_sent(before.subscription, step.position)


def _behind_the_replay(before: World, step: Step, _: World) -> bool:
    subscription = before.subscription
    assert subscription.sending is not None
    hashed = subscription.hashes[step.position]
    return subscription.sending.replayed or all(
        subscription.hashes[waiting] != hashed for waiting in subscription.replay if waiting < step.position
    )


def _not_while_it_drains(before: World, step: Step, _: World) -> bool:
    entry = before.subscription.draining.of(before.subscription.hashes[step.position])
    return entry is None or entry.consumer == step.consumer


def _comes_back(before: World, step: Step, after: World) -> bool:
    return after.subscription.draining.of(before.subscription.hashes[step.position]) is None


def _leaver_is_replayed(before: World, step: Step, after: World) -> bool:
    leaver = before.subscription.consumer(step.consumer)
    assert leaver is not None
    return all(_comes_again(after.subscription, position) for position in leaver.pending)


def _given_back(_: World, step: Step, after: World) -> bool:
    return _comes_again(after.subscription, step.position) and _waits(after.subscription, step.position)


def _comes_again(subscription: KeySharedSubscription, position: int) -> bool:
    return position in subscription.replay or position >= subscription.read


def _recent_gets_nothing_new(before: World, step: Step, _: World) -> bool:
    limit = before.subscription.recent.of(step.consumer)
    return limit is None or step.position < limit


def _recent_gets_nothing(before: World, step: Step, _: World) -> bool:
    return before.subscription.recent.of(step.consumer) is None


SENT = frozenset({"sent"})
KEPT = frozenset({kind for kind in (*ASIDE.values(), *REFUSED.values()) if kind not in ("gone", "moved")})

ONE_CONSUMER = Always(
    ("KEY-01", "KEY-03"), "messages of one key are pending at one consumer at most", _at_one_consumer, promise=True
)
NOBODY_GONE = Always(("KEY-10",), "a disconnected consumer has no pending messages", _nobody_gone, promise=True)
COUNTED = Always(("KEY-05", "KEY-11"), "a draining hash counts its pending messages", _counted)
DRAINS_WHERE_PENDING = Always(
    ("KEY-03",), "a hash with pending messages is assigned to their consumer, or drains there", _drains_where_pending
)
RESTS_WITH_REASON = Always(
    ("KEY-05", "KEY-13"),
    "the broker keeps dispatching while a message can be sent: no other consumer has pending messages of its key, "
    "no earlier one waits, and its consumer has permits",
    _rests_with_reason,
)
IN_ORDER = EveryStep(
    ("KEY-02", "KEY-06", "KEY-09"),
    "a message is sent after all earlier ones of its key are acknowledged or pending",
    SENT,
    _in_order,
    promise=True,
)
KEPT_FOR_A_REASON = EveryStep(
    ("KEY-04", "KEY-13"),
    "a message is blocked only because of its own key, or because its consumer has no permits",
    KEPT,
    _kept_for_a_reason,
)
BEHIND_THE_REPLAY = EveryStep(
    ("KEY-09",),
    "no new message is sent while an earlier one of its key waits for replay",
    SENT,
    _behind_the_replay,
)
NOT_WHILE_IT_DRAINS = EveryStep(
    ("KEY-10",), "no message is sent while its hash drains at another consumer", SENT, _not_while_it_drains
)
COMES_BACK = EveryStep(("KEY-07",), "a hash of which a message is sent does not drain", SENT, _comes_back)
LEAVER_IS_REPLAYED = EveryStep(
    ("KEY-06",),
    "messages that were pending at a consumer that leaves are replayed",
    frozenset({"leaves"}),
    _leaver_is_replayed,
)
GIVEN_BACK = EveryStep(("KEY-08",), "a nacked message is redelivered", frozenset({"nacks"}), _given_back)
RECENT_GETS_NOTHING_NEW = EveryStep(
    ("KEY-14",),
    "a recently joined consumer gets no message read after it joined, until all earlier ones are acknowledged",
    SENT,
    _recent_gets_nothing_new,
)
RECENT_GETS_NOTHING = EveryStep(
    ("KEY-14",),
    "a recently joined consumer gets no message, until all earlier ones are acknowledged",
    SENT,
    _recent_gets_nothing,
)
