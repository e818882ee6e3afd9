"""The broker's own account of draining hashes (KEY-11), against what follows from who has what, and from the ranges.

A hash drains while a consumer has messages of it and it is in another one's ranges. Brokers count entries: a batch is
one. A hash that came back to the consumer that it waits for may be shown until something of it is sent, because the
document lets it be removed as late as that (KEY-07); anything else that is shown and does not drain is wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from model.catalogue import carries
from model.judgement import Broken
from model.keys.liveness import Open, Receiver, draining, owner_of
from model.keys.words import Gathered, Share


def expected(entries: Iterable[Open], receivers: Iterable[Receiver]) -> dict[str, dict[int, int]]:
    """By consumer, the hashes that must be shown to wait for it, and for how many entries each."""
    entries = list(entries)
    waits = draining(entries, receivers)
    counts = Counter(entry.hashed for entry in entries if entry.holder is not None)
    shown: dict[str, dict[int, int]] = {}
    for hashed, name in waits.items():
        shown.setdefault(name, {})[hashed] = counts[hashed]
    return shown


@carries("KEY-11")
def wrong(
    outcome: Gathered, entries: Sequence[Open], receivers: Sequence[Receiver], before: Mapping[int, str]
) -> Broken | None:
    """What the broker shows wrongly; ``before``: the hashes that drained when it was last looked, and for whom."""
    must = expected(entries, receivers)
    for share in outcome.shares:
        own = must.get(share.consumer, {})
        shown = {one.hashed: one.unacknowledged for one in share.draining}
        for hashed in sorted(own.keys() | shown.keys()):
            if shown.get(hashed, 0) != own.get(hashed, 0) and not _may_linger(share, hashed, own, receivers, before):
                what = f"hash {hashed} waits for {own.get(hashed, 0)} entries of {share.consumer}"
                return Broken("KEY-11", f"{what}, and the broker shows {shown.get(hashed, 0)}")
    return _wrong_sums(outcome)


def _may_linger(
    share: Share,
    hashed: int,
    own: Mapping[int, int],
    receivers: Sequence[Receiver],
    before: Mapping[int, str],
) -> bool:
    owner = owner_of(hashed, receivers)
    is_back = owner is not None and owner.name == share.consumer and before.get(hashed) == share.consumer
    return is_back and hashed not in own


def _wrong_sums(outcome: Gathered) -> Broken | None:
    """The subscription's numbers are the sums of its consumers'."""
    of_consumers = (
        sum(len(share.draining) for share in outcome.shares),
        sum(one.unacknowledged for share in outcome.shares for one in share.draining),
        sum(share.cleared for share in outcome.shares),
    )
    shown = (outcome.draining, outcome.unacknowledged, outcome.cleared)
    names = ("hashes draining", "messages of them", "hashes cleared")
    for what, one, other in zip(names, of_consumers, shown, strict=True):
        if one != other:
            return Broken("KEY-11", f"the broker shows {other} {what} for the subscription, {one} for its consumers")
    return None


@carries("KEY-11")
def miscounted(outcome: Gathered, before: Mapping[int, str], cleared: Mapping[str, int]) -> Broken | None:
    """Every hash that drained for a consumer and does so no more was cleared, and is counted."""
    for share in outcome.shares:
        if share.consumer not in cleared:
            continue
        still = {one.hashed for one in share.draining}
        gone = [hashed for hashed, name in before.items() if name == share.consumer and hashed not in still]
        if share.cleared < cleared[share.consumer] + len(gone):
            what = f"{len(gone)} hashes of {share.consumer} were cleared since {cleared[share.consumer]} were counted"
            return Broken("KEY-11", f"{what}, and the broker counts {share.cleared}")
    return None
