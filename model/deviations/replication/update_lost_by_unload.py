from __future__ import annotations

from model.cluster_events import SubscriptionUpdated
from model.deviation import Deviation, Shadow
from model.deviations.clusters import explaining, may_be_at_load
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.replication.evidence import Findings, NotUpdated

ENTRY = Deviation(
    name="update-lost-by-unload",
    rule="REPL-13",
    statement="A cluster unloads a topic while it receives the first update of a subscription that it does not have. It creates the subscription at the beginning of the topic, and leaves it there until the next update.",
    cause="ReplicatedSubscriptionsController.receiveSubscriptionUpdated creates the subscription, and acknowledges up to the position once that is done. Closing the topic waits for neither. A marker is handled when it is stored, and not again after a reload. Concluded from the logs and positions of a history; the code was not traced.",
    side="broker",
    releases=("==3.3.6",),
    seen=("3.3.6",),
    occurrence="In 1 of 8 replays: the unload must begin a millisecond after the ack that publishes the update.",
    shadow=Shadow(
        name="test_an_update_is_lost_only_where_it_creates_a_subscription_during_a_reload",
        by="small history",
        statement="A subscription that an update created stays at the beginning without a reload then, or moves, but not far enough.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    def is_explained(found: Findings, about: object) -> bool:
        """Whether the subscription is where an update, received while the cluster reloaded the topic, created it."""
        if not isinstance(about, NotUpdated):
            return False
        log = found.logs[about.cluster]
        received = [
            index
            for index, entry in enumerate(log.entries)
            if isinstance(entry.marker, SubscriptionUpdated)
            and (entry.origin, entry.marker.subscription) == (about.by, about.cursor.subscription)
        ]
        is_at_start = bool(received) and about.cursor.mark_delete < log.entries[0].position
        return is_at_start and may_be_at_load(state, found.name, log, received[-1])

    return explaining(ENTRY, broken, is_explained)
