from __future__ import annotations

from collections.abc import Iterator

from model.cursors.acked import Acked
from model.cursors.cursor import Ack, Moment, mixed
from model.deviation import Deviation, Shadow
from model.deviations.subscriptions import before, continued_since_load, is_graceful, recovering, reloaded_by
from model.events import Acknowledged, TakenOver
from model.example.state import Example, Past
from model.example.step import Step
from model.operations import AcknowledgeAtFrozen, FreezeOwner
from model.subscriptions.acks import by_subscription
from model.vocabulary import SubscriptionId

ENTRY = Deviation(
    name="former-owner-persists-cursor",
    rule="SERVE-06",
    statement="A frozen broker loses a topic, and continues. It persists acks that it had not persisted before, or receives only now. The next owner recovers the cursor from them. If the present owner has persisted nothing of that cursor yet, its first ack afterwards is lost if it is killed.",
    cause="Recovery writes nothing to the cursor's node in the metadata store. So the former owner still knows its version, and ManagedCursorImpl.persistPositionMetaStore succeeds with the state in its memory: for the new ledger if the cursor has none, or because a write to its fenced ledger failed. Once the present owner has opened a ledger of its own, the version differs (BadVersion). If it does so later, its own write fails with BadVersion: the pending mark-deletes fail, and it knows the new version only for the next one. A graceful close persists everything. Read in 4.0.8.",
    side="broker",
    releases=(">=3.3.6,<=5.0.1",),
    seen=("4.2.4", "4.0.8", "3.3.6", "5.0.1"),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_a_former_owner_persists_no_ack_that_nobody_sent",
        by="small history",
        statement="The next owner recovers an ack that no consumer sent to the former owner, or the former owner's acks although the present one has a ledger for the cursor.",
    ),
)


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    """The next owner recovers what the former one persisted. A present owner that closes the cursor persists each
    change of its own."""
    for subscription in reloaded_by(state.past):
        then = before(state)
        is_written = then.consumption.cursors[subscription].ledger.since_ms is not None
        thaw = continued_since_load(then, subscription.topic)
        if thaw is not None and not (is_graceful(step) and is_written):
            yield from recovering(state, subscription, _persisted(thaw, subscription))


def _persisted(thaw: Past, subscription: SubscriptionId) -> Iterator[Acked]:
    """What a former owner may have persisted when it continued: nothing if the present one has a ledger of its own."""
    present = thaw.before.consumption.cursors.get(subscription)
    if present is None or (present.ledger.is_requested and not present.ledger.is_opening(thaw.step.at)):
        return
    acks = list[tuple[str, Acknowledged]]()
    for past in thaw.before.trace:
        match past.step.operation, past.step.outcome:
            case AcknowledgeAtFrozen(name), Acknowledged() as outcome:
                acks.append((name, outcome))
            case FreezeOwner(), TakenOver(topics) if subscription.topic in topics:
                yield from _handled(past, subscription, acks[::-1])
                return
            case _:
                pass


def _handled(freeze: Past, subscription: SubscriptionId, acks: list[tuple[str, Acknowledged]]) -> Iterator[Acked]:
    """What it has in memory, and after each ack that was sent to it."""
    then = freeze.before.consumption
    if subscription not in then.cursors:
        return
    log, moments = freeze.before.consumption.log(subscription.topic), [frozenset(then.cursors[subscription].possible)]
    for name, outcome in acks:
        places = by_subscription(then, then.consumers[name], outcome.messages) if name in then.consumers else {}
        if subscription in places:
            moments.append(frozenset(Ack(places[subscription]).on(one, log) for one in moments[-1]))
    yield from mixed([Moment(freeze.step.at, states) for states in moments])
