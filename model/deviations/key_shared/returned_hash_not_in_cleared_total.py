from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.looks import shown_at, since_reset
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.subscriptions.evidence import Uncleared, WronglyDraining

ENTRY = Deviation(
    name="returned-hash-not-in-cleared-total",
    aliases=("back-not-counted",),
    rule="KEY-11",
    statement="A draining hash that moves back to its consumer stops draining, but the totals of cleared draining hashes omit it.",
    cause="DrainingHashesTracker.shouldBlockStickyKeyHash removes the entry from its map without updating the statistics of the consumer (4.0.4). In 4.0.8 it clears the hash there, too.",
    side="broker",
    releases=(">=4.0.0,<=4.0.6",),
    seen=("4.0.4", "4.0.1", "4.0.6", "4.0.0"),
    gone=("4.0.8",),
    shadow=Shadow(
        name="test_only_a_hash_that_returned_and_was_dispatched_may_be_missing_from_the_cleared_total",
        by="small history",
        statement="The total omits a hash that drained because its messages were acknowledged.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    """A hash does not count that no longer drains because of a dispatch to its consumer. Then the consumer has messages
    of it, whereas a hash that has drained has none."""
    match broken.evidence:
        case Uncleared(has_returned=hashes, missing=missing) if hashes:
            return broken.passing(None if missing <= len(hashes) else hashes)
        case WronglyDraining() as wrong if _is_shown_elsewhere(wrong) and _is_uncounted(state, wrong):
            return broken.passing()
        case _:
            return None


def _is_shown_elsewhere(wrong: WronglyDraining) -> bool:
    """Whether a hash drains for another consumer, with the same count."""
    one = wrong.mismatch
    elsewhere = (read for read in wrong.outcome.consumers if read.consumer != one.consumer)
    counts = [shown.unacknowledged for read in elsewhere for shown in read.draining if shown.hashed == one.hashed]
    return one.waits_for == 0 and one.shown in counts


def _is_uncounted(state: Example, wrong: WronglyDraining) -> bool:
    """Whether a hash returned to this consumer without being counted, and stays on its list since. It is shown there
    again when it drains for another consumer."""
    one = wrong.mismatch
    for past in since_reset(state, wrong.subscription):
        if (shown := shown_at(past, wrong.subscription)) is None:
            continue
        if any(one.hashed in each.has_returned and each.name == one.consumer for each in shown.uncleared()):
            return True
        here = [read for read in shown.outcome.consumers if read.consumer == one.consumer]
        is_shown = any(each.hashed == one.hashed for read in here for each in read.draining)
        if here and shown.drained.get(one.hashed) == one.consumer and not is_shown:
            return False
    return False
