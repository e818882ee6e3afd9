"""The rules of document 001: replicated subscriptions."""

from __future__ import annotations

from model.rules.rule import Decided, Rule

STATEMENTS = (
    Rule(
        "REPL-01",
        "001",
        "Messages are replicated by an internal subscription and an internal producer: each appears once in every other cluster, in its source's order, under another message id.",
        (Decided.WIRE,),
        "Implementation",
    ),
    Rule(
        "REPL-02",
        "001",
        "Snapshots start on a timer; none starts when nothing was published since the last completed one began.",
        (Decided.STATS,),
        "Cluster A publishes a snapshot request",
    ),
    Rule(
        "REPL-03",
        "001",
        "None starts while a replicator is disconnected.",
        (Decided.FAULT,),
        "Cluster A publishes a snapshot request",
    ),
    Rule(
        "REPL-04",
        "001",
        "A snapshot request marker reaches every remote cluster; each answers with its last position, in a response marker whose own position is higher.",
        (Decided.WIRE,),
        "Clusters B and C receive the request",
    ),
    Rule(
        "REPL-05",
        "001",
        "A cluster handles a marker only from the replicator whose remote cluster wrote it: once, not once per replicator.",
        (Decided.WIRE,),
        "Clusters B and C receive the request",
    ),
    Rule(
        "REPL-06",
        "001",
        "The first answer of a cluster counts; later ones of the same snapshot change nothing.",
        (Decided.MODEL,),
        "Cluster A maps its message ids to those of clusters B and C",
    ),
    Rule(
        "REPL-07",
        "001",
        "With more than one remote cluster a second round is made before the snapshot is complete. (Leaving it out can lose messages at a failover: show how.)",
        (
            Decided.WIRE,
            Decided.MODEL,
        ),
        "Cluster A maps its message ids to those of clusters B and C",
    ),
    Rule(
        "REPL-08",
        "001",
        "Snapshots that time out are dropped, and late answers to them ignored.",
        (Decided.FAULT,),
        "Cluster A publishes a snapshot request",
    ),
    Rule(
        "REPL-09",
        "001",
        "A complete snapshot is written as a marker: the local position of the last answer, and each remote cluster's position.",
        (Decided.WIRE,),
        "Cluster A maps its message ids to those of clusters B and C",
    ),
    Rule(
        "REPL-10",
        "001",
        "Markers are never delivered to consumers, do not count against them, and do not block mark-delete.",
        (Decided.WIRE,),
        "Clusters B and C receive the request",
    ),
    Rule(
        "REPL-11",
        "001",
        "A subscription caches the snapshots that its dispatcher reads, ordered by local position, at most a configured number; the oldest go first.",
        (Decided.WIRE,),
        "The snapshot cache is built",
    ),
    Rule(
        "REPL-12",
        "001",
        "When mark-delete advances, the latest cached snapshot at or below it is published as an update; acks that do not move mark-delete publish nothing.",
        (Decided.WIRE,),
        "Cluster A updates the progress",
    ),
    Rule(
        "REPL-13",
        "001",
        "On an update a remote cluster acknowledges cumulatively up to its own position, or creates the subscription, replicated, where it is missing.",
        (Decided.WIRE,),
        "Clusters B and C update the progress",
    ),
    Rule(
        "REPL-14",
        "001",
        "Soundness: a remote subscription is never ahead: no message unacknowledged at the source is acknowledged by an update at a remote. A consumer that fails over misses nothing.",
        (
            Decided.WIRE,
            Decided.FAULT,
        ),
        "Implementation",
    ),
    Rule(
        "REPL-15",
        "001",
        "Inexactness: a remote subscription may lag. The duplicates after a failover are only messages after the last snapshot that the source's mark-delete had passed.",
        (Decided.WIRE,),
        "Other remarks",
    ),
    Rule(
        "REPL-17",
        "001",
        "A cluster that gets a request while its own replicator to the requesting cluster is closed starts it again, and responds.",
        (Decided.FAULT,),
        "Clusters B and C receive the request",
    ),
    Rule(
        "REPL-18",
        "001",
        "Only subscriptions marked as replicated, on topics that are replicated and with the feature on, take part: elsewhere no marker is ever written and no subscription appears.",
        (Decided.WIRE,),
        "Cluster A publishes a snapshot request",
    ),
    Rule(
        "REPL-19",
        "001",
        "Progress: with links up and acks going on, a remote position lags by at most a stated number of snapshot periods, whatever the size of the snapshot cache.",
        (Decided.WIRE,),
        "Cluster A caches the snapshot",
    ),
    Rule(
        "REPL-20",
        "001",
        "Clusters that are configured unequally, or change (replication one way, a namespace's clusters changed, a cluster that stays dead, frozen or returns empty, messages restricted to some clusters), keep REPL-01, -10, -14 and -18 for those that are left.",
        (Decided.FAULT,),
        "Cluster A publishes a snapshot request",
    ),
    Rule(
        "REPL-16",
        "001",
        "The worked example: answers 6 and 7, the second stored locally at 10, gives the mapping 10 – 6 – 7.",
        (Decided.MODEL,),
        "Cluster A maps its message ids to those of clusters B and C",
    ),
)
