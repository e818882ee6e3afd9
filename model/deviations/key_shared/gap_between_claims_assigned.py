from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.subscriptions.claims import bounds
from model.subscriptions.evidence import Divided, Unclaimed
from model.subscriptions.invariant import hash_of, is_unclaimed

ENTRY = Deviation(
    name="gap-between-claims-assigned",
    rule="KEY-15",
    also=("KEY-01",),
    statement="A STICKY consumer that claims several hash ranges receives the messages of hashes between them as well, which no consumer claims. A consumer that joins and claims these hashes does not wait for the acks of the first.",
    cause="HashRangeExclusiveStickyKeyConsumerSelector.rangeMap has only the bounds of ranges, each with its consumer. select takes the nearest bound below a hash and the nearest one above it. If both belong to one consumer, it returns that consumer, whether or not they are the bounds of one range. Fixed by apache/pulsar#24730, in 4.0.7 (read in the sources of 2.6.0, 2.10.1, 2.11.0, 3.3.6 and 4.0.0 to 4.0.7).",
    upstream=("apache/pulsar#24730",),
    side="broker",
    releases=(">=2.6.0,<3.0.14", ">=3.1,<=3.3.6", ">=4.0.0,<=4.0.6", "==2.5.0", "==2.5.1", "==2.5.2"),
    seen=("3.3.6", "2.5.0", "2.5.1", "2.5.2"),
    read=("4.0.6",),
    gone=("4.0.8",),
    fixed=("3.0.14",),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_a_gap_in_which_another_consumer_has_a_claim_is_nobodys",
        by="small history",
        statement="A consumer receives a hash between its claims, although another consumer claims a range between them.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    """No one waits for the ack of a message whose hash its consumer does not claim."""
    match broken.evidence:
        case Unclaimed() as unclaimed if _is_between_own(unclaimed):
            return broken.passing()
        case Divided() as one if is_unclaimed(one.state, one.subscription, one.other, one.pending):
            return broken.passing()
        case _:
            return None


def _is_between_own(unclaimed: Unclaimed) -> bool:
    """Whether the nearest bounds below and above a hash belong to claims of this consumer."""
    every = list(bounds(unclaimed.state, unclaimed.subscription))
    hashed = hash_of(unclaimed.state, unclaimed.subscription, unclaimed.position)
    below = max((bound for bound in every if bound[0] < hashed), default=None)
    above = min((bound for bound in every if bound[0] > hashed), default=None)
    return below is not None and above is not None and below[1] == above[1] == unclaimed.name
