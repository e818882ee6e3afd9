"""The deviations from the family SERVE: what a broker owes its clients."""

from __future__ import annotations

from model.deviation import Deviation

STATS_OF_TERMINATED_TOPIC_FAIL = "stats-of-terminated-topic-fail"

DEVIATIONS = (
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
