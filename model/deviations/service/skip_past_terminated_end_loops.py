from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.facts import is_reopened
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.service.unexpected import Silence
from model.subscription_operations import Skip

ENTRY = Deviation(
    name="skip-past-terminated-end-loops",
    rule="SERVE-01",
    statement="After a terminated topic is reloaded, a skip of more messages than it has left is never answered. A thread of the broker's web server computes from then on, until the broker is restarted.",
    cause="ManagedLedgerImpl.getPositionAfterN advances from ledger to ledger until the number of entries is reached. Without a current ledger to stop at, as after the reload of a terminated topic, it starts over with the last ledger each time (a stack of 2.10.1 shows it). apache/pulsar#17971 corrects the ledger that follows the last one.",
    upstream=("apache/pulsar#17967", "apache/pulsar#17971"),
    side="broker",
    releases=(">=2.10.1,<2.10.3",),
    seen=("2.10.1",),
    gone=("2.9.1", "2.10.5", "2.11.0"),
    fixed=("2.10.3",),
    occurrence="In 4 of 4 replays on 2.10.1, in none of 2 on each of the others.",
    shadow=Shadow(
        name="test_only_a_skip_of_a_topic_that_was_terminated_and_reloaded_is_not_answered_by_a_deviation",
        by="small history",
        statement="A skip is not answered on a topic that was not terminated or not reloaded, or another request is not answered.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case Silence(request=Skip.__name__, topic=topic) if is_reopened(state, topic):
            return broken.passing()
        case _:
            return None
