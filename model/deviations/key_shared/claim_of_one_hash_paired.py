from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.subscription_operations import ReceiveDue
from model.subscriptions.claims import bounds
from model.subscriptions.evidence import RangesShown
from model.vocabulary import HashRange, SubscriptionId

ENTRY = Deviation(
    name="claim-of-one-hash-paired",
    rule="KEY-15",
    statement="If a STICKY consumer claims a range of one hash, the stats show other ranges of that consumer, and of those with higher ranges, than they claim.",
    cause="HashRangeExclusiveStickyKeyConsumerSelector.rangeMap has the bounds of all ranges; a range of one hash has one entry instead of two. getConsumerHashAssignmentsSnapshot takes each two entries as one range (read in the byte code of 2.11.0, 3.3.6 and 4.0.4). Where no pair is left of a consumer, its stats keep the ranges that they had. Fixed by apache/pulsar#24730, in 4.0.7.",
    upstream=("apache/pulsar#24730",),
    side="broker",
    releases=(">=4.0.0,<=4.0.6",),
    seen=("4.0.4", "4.0.6"),
    gone=("4.0.8",),
    occurrence="Every time. The stats of releases before 4.0 are not judged.",
    shadow=Shadow(
        name="test_ranges_in_the_stats_that_pairs_of_bounds_do_not_explain_break_a_rule",
        by="small history",
        statement="The stats show a range too few, or other ranges although nobody claims a single hash.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    """If no pair is left of a consumer, its stats show what they showed before."""
    match broken.evidence, step.operation:
        case RangesShown(name, ranges), ReceiveDue(topic, subscription):
            one = SubscriptionId(topic, subscription)
            paired = _paired(state, one, name)
            consumers = state.consumption.consumers_of(one)
            has_single = any(claim.first == claim.last for _, consumer in consumers for claim in consumer.claims)
            return broken.passing() if sorted(ranges) == paired or (not paired and has_single) else None
        case _:
            return None


def _paired(state: Example, subscription: SubscriptionId, name: str) -> list[HashRange]:
    """The ranges of a consumer if each two bounds of all claims, in their order, are taken as one range."""
    owners = dict(bounds(state.consumption, subscription))
    every = sorted(owners)
    pairs = zip(every[::2], every[1::2], strict=False)
    return [HashRange(first, last) for first, last in pairs if owners[first] == owners[last] == name]
