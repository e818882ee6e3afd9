"""Judges the draining hashes in the stats of a subscription (KEY-11), hash by hash, and their totals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from model.events import DueReceived
from model.immutable.map import Map
from model.judgement import Allowed, Broken, all_of
from model.key_shared import stats
from model.key_shared.liveness import Open, Receiver, draining
from model.key_shared.stats import Mismatch
from model.rules.catalogue import carries
from model.subscriptions.entries import open_entries, unsure_hashes
from model.subscriptions.evidence import Uncleared, WronglyDraining
from model.subscriptions.state import Consumption
from model.vocabulary import SubscriptionId


@dataclass(frozen=True, slots=True)
class Shown:
    """What the stats show of draining hashes. ``entries``: the unacknowledged ones whose hashes are judged. ``unsure``:
    the hashes that are not. ``before``: the hashes that may drain, and their consumers. ``back``: those that returned,
    and are shown all the same. ``drained``: as the stats showed them at the last look."""

    state: Consumption
    subscription: SubscriptionId
    outcome: DueReceived
    receivers: Sequence[Receiver]
    entries: Sequence[Open]
    unsure: frozenset[int]
    before: Mapping[int, str]
    back: Mapping[int, str]
    drained: Mapping[int, str]

    def mismatches(self) -> Iterator[Mismatch]:
        """The hashes that are shown wrongly."""
        found = stats.mismatches(self.outcome, self.entries, self.receivers, self.before)
        return (one for one in found if one.hashed not in self.unsure)

    def uncleared(self) -> Iterator[Uncleared]:
        """The consumers of which too few cleared hashes are counted."""
        cleared = self.state.keyed_of(self.subscription).cleared
        drained = {hashed: name for hashed, name in self.drained.items() if hashed not in self.unsure}
        found = stats.uncleared(self.outcome, self.entries, self.receivers, drained, cleared)
        return (Uncleared(self.subscription, *one) for one in found)


def shown(
    state: Consumption, subscription: SubscriptionId, outcome: DueReceived, receivers: Sequence[Receiver]
) -> Shown:
    """What the stats show at a look. ``state``: after all that it received."""
    unsure, keyed = unsure_hashes(state, subscription), state.keyed_of(subscription)
    entries = [entry for entry in open_entries(state, subscription) if entry.hashed not in unsure]
    drained = keyed.draining.updated(keyed.back)
    before = drained
    if keyed.has_left:  # a hash that moved away and back since the last look is known only by its pending entries
        before = before.updated({entry.hashed: entry.holder for entry in entries if entry.holder is not None})
    back = stats.lingering(outcome, entries, receivers, before)
    return Shown(state, subscription, outcome, receivers, entries, unsure, before, back, drained)


@carries("KEY-11")
def counted(
    state: Consumption, subscription: SubscriptionId, outcome: DueReceived, receivers: Sequence[Receiver]
) -> Allowed[Consumption] | Broken:
    """The stats are right. Hashes whose pending entries are not known are not judged."""
    accounts, keyed = shown(state, subscription, outcome, receivers), state.keyed_of(subscription)
    answers: list[Allowed[None] | Broken] = [
        Broken("KEY-11", str(one), evidence=WronglyDraining(state, subscription, one, outcome)).passing_to(None)
        for one in accounts.mismatches()
    ]
    sums = stats.wrong_sums(outcome)
    answers += [] if sums is None else [sums]
    answers += map(_uncleared, accounts.uncleared())
    drains = draining(accounts.entries, receivers)
    after = replace(
        keyed,
        draining=Map(drains),
        back=Map(accounts.back),
        blocked=frozenset(one.hashed for one in accounts.entries if one.holder is None and one.hashed in drains),
        cleared=Map({read.consumer: read.cleared for read in outcome.consumers}),
    )
    exercised = ("KEY-11",) if drains or keyed.draining else ()
    judged = Allowed(state.with_keyed(subscription, after), exercised, excused=("KEY-11",) * len(accounts.unsure))
    return all_of(answers).then(lambda _: judged)


@carries("KEY-11")
def _uncleared(one: Uncleared) -> Allowed[None] | Broken:
    """A hash that no longer drains for a consumer counts as cleared."""
    if one.missing <= 0:
        return Allowed(None)
    broken = Broken("KEY-11", one.because, evidence=one)
    return replace(broken, passed=lambda part: Allowed(None) if part is None else _uncleared(one.without(part)))
