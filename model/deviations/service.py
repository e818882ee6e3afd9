"""The deviations from the family SERVE: what a broker owes its clients."""

from __future__ import annotations

from model.deviation import Deviation

SESSION_RECREATED_IN_A_LOOP = "session-recreated-in-a-loop"
STATS_OF_TERMINATED_TOPIC_FAIL = "stats-of-terminated-topic-fail"

DEVIATIONS = (
    Deviation(
        name=SESSION_RECREATED_IN_A_LOOP,
        rule="SERVE-02",
        also=("ACK-06",),
        statement="A broker that lost its session in ZooKeeper takes its next sessions for lost as well. It is never registered again, unloads nothing that others have taken over, and its full ledgers stay open.",
        cause="When the session expires, the client creates another one, and requests that fail with the old one's SessionExpired make it discard that again. The metadata store is told SessionLost for each, and the last SessionReestablished does not follow. Then locks are not revalidated, and managed ledgers do not roll over, as the metadata service counts as unavailable.",
        upstream=("apache/pulsar#23015",),
        side="broker",
        seldom=("==4.0.8",),
        seen=("4.0.8",),
        occurrence="About one in ten brokers that were frozen and thawed on a machine with a load of 25 on two cores.",
        has_history=False,
    ),
    Deviation(
        name=STATS_OF_TERMINATED_TOPIC_FAIL,
        rule="SERVE-01",
        statement="After a terminated topic is reloaded, a request for its stats is answered with an internal error (500).",
        cause='The managed ledger of a terminated topic has no current ledger once it is reloaded. Computing the stats reads the id of that ledger: `Cannot invoke "org.apache.bookkeeper.client.LedgerHandle.getId()" because "this.currentLedger" is null`. Which method does so was not looked up. apache/pulsar#24058 guards against the same null pointer where entries are read.',
        side="broker",
        releases=("==3.3.5",),
        seen=("3.3.5",),
        gone=("4.0.8",),
    ),
)
