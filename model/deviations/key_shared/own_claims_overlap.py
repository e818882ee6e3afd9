from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.subscriptions.evidence import OwnOverlap

ENTRY = Deviation(
    name="own-claims-overlap",
    rule="KEY-15",
    statement="A STICKY consumer whose own hash ranges overlap is accepted.",
    cause="HashRangeExclusiveStickyKeyConsumerSelector.validateKeySharedMeta compares the ranges with those of other consumers only. pulsar-client refuses such ranges itself. Fixed by apache/pulsar#24730, in 4.0.7 (read in the sources of 2.6.0, 2.10.1, 2.11.0, 3.3.6 and 4.0.0 to 4.0.7).",
    upstream=("apache/pulsar#24730",),
    side="broker",
    releases=(">=2.6.0,<3.0.14", ">=3.1,<=3.3.6", ">=4.0.0,<=4.0.6"),
    seen=("3.3.6",),
    read=("4.0.6",),
    gone=("4.0.8",),
    fixed=("3.0.14",),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_ranges_of_another_consumer_are_refused",
        by="small history",
        statement="A consumer that claims a part of another consumer's range is accepted.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    return broken.passing() if isinstance(broken.evidence, OwnOverlap) else None
