from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.service.refusals import MixedPolicies

ENTRY = Deviation(
    name="key-shared-policies-mixed",
    rule="KEY-17",
    statement="A Key_Shared consumer whose policy is not that of the connected consumers (STICKY or AUTO_SPLIT, out-of-order delivery) is accepted, and treated as if it had their policy.",
    cause="PersistentSubscription.addConsumer compares only the subscription type with that of the dispatcher while consumers are connected. The dispatcher has the policy of the first consumer: one for AUTO_SPLIT assigns ranges of its own to a consumer that claims others. Fixed by apache/pulsar#23449, in 4.0.1 (read in the sources of 2.6.0, 2.10.1, 2.11.0, 3.3.6, 4.0.0, 4.0.1, 4.0.4 and 4.0.6).",
    upstream=("apache/pulsar#23449", "apache/pulsar#23272"),
    side="broker",
    releases=(">=2.6.0,<4.0.1",),
    seen=("3.3.6",),
    gone=("4.0.8",),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_a_consumer_of_another_type_is_refused_although_policies_are_mixed",
        by="small history",
        statement="A Shared consumer is accepted beside a Key_Shared one.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    return broken.passing() if isinstance(broken.evidence, MixedPolicies) else None
