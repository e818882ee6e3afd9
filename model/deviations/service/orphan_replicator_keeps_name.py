from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.clusters import is_orphaned
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.service.unexpected import NOT_CONNECTED, Overdue

ENTRY = Deviation(
    name="orphan-replicator-keeps-name",
    rule="SERVE-02",
    statement="A topic is unloaded while its replicator waits to connect again, because the link was cut. That replicator connects all the same, and the one of the reloaded topic does not: the other cluster has a producer of its name.",
    cause="Closing the topic sets a replicator without a producer to Stopped, which is where a scheduled retry of AbstractReplicator.startProducer begins (2.11.0). apache/pulsar#21946 describes it and added a state for good; 3.3.6 and 4.0.8 have that.",
    upstream=("apache/pulsar#21946", "apache/pulsar#20567"),
    side="broker",
    releases=("<2.10.6", ">=2.11,<2.11.4"),
    seen=("2.11.0",),
    gone=("3.3.6", "4.0.8"),
    fixed=(
        "2.10.6",
        "2.11.4",
    ),
    shadow=Shadow(
        name="test_replicators_stay_disconnected_by_a_deviation_only_after_an_unload_of_a_topic_whose_link_was_cut",
        by="small history",
        statement="Replicators do not connect although no link was cut, or the topic was not unloaded at its source since, or the broker was restarted.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case Overdue("SERVE-02", what) if NOT_CONNECTED in what:
            return broken.passing() if any(is_orphaned(state, topic) for topic in state.replication.topics) else None
        case _:
            return None
