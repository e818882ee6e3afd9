"""The catalogue of the machines: what each does, which rules it decides, what it needs, and its share of the budget.

The classes are in ``stateful``, which looks up the descriptions by name
(:func:`conformance.engine.machines.machines`). So the command line lists, completes and refuses names of machines
without importing them or Hypothesis. Within a document, machines run in this order.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Final, Literal

from conformance.brokers.interface import Capability
from model.rules.catalogue import RULES

OF_CLUSTERS: Final = "001"
"""The document about several clusters."""


ROUND_AT_MOST: Final = 8
"""The largest number of examples in a round. In longer ones Hypothesis also tries what is simplest after a random first
choice, and changes earlier examples a little: of 106,000 operations of a check, 13 % only repeated others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """The description of a machine.

    ``decides``: the rules that it exercises. ``needs``: what it must be able to do to a broker. ``share``: its part of
    the budget relative to the others'. ``steps``: the length of an example. ``examples``: their number in one round of
    Hypothesis, at most :data:`ROUND_AT_MOST`; the run checks its time between examples. ``affects``: whether its
    operations affect only its own ``topics``, the process of the ``broker``, or the broker's ``settings``, which
    decides how machines run in parallel.
    """

    name: str
    summary: str = ""
    decides: tuple[str, ...]
    needs: frozenset[Capability] = frozenset()
    share: float = 1.0
    steps: int = 20
    examples: int = ROUND_AT_MOST
    affects: Literal["topics", "broker", "settings"] = "topics"

    @property
    def document(self) -> str | None:
        """The key of the document whose rules it decides: its number or ``service``; None for several documents."""
        documents = {RULES[rule].document for rule in self.decides}
        return documents.pop() if len(documents) == 1 else None

    @property
    def has_further_clusters(self) -> bool:
        """Whether it runs on clusters of its own, and leaves the run's broker alone."""
        return Capability.CLUSTERS in self.needs

    def is_for(self, rules: Set[str]) -> bool:
        """Whether it runs for these rules, unless machines are named: it decides one of them.

        Three more brokers start only for rules on several clusters.
        """
        asked = rules & set(self.decides)
        if self.has_further_clusters:
            asked = {rule for rule in asked if RULES[rule].document == OF_CLUSTERS}
        return bool(asked)


DESCRIPTIONS: tuple[Description, ...] = (
    # First, because a restart takes longer with more topics.
    Description(
        name="deduplication-settings",
        summary="Restarts the broker to switch its own deduplication setting on and off.",
        decides=("DEDUP-01",),
        needs=frozenset({Capability.RESTART}),
        share=2.0,
        steps=3,
        examples=1,
        affects="settings",
    ),
    Description(
        name="deduplication",
        summary="Switches deduplication in every way, unloads topics, and resends messages.",
        decides=(
            "DEDUP-01",
            "DEDUP-02",
            "DEDUP-03",
            "DEDUP-07",
            "DEDUP-08",
            "DEDUP-09",
            "DEDUP-10",
            "DEDUP-11a",
            "DEDUP-12",
            "DEDUP-14",
            "DEDUP-19",
        ),
        share=4.0,
    ),
    Description(
        name="deduplication-failures",
        summary="Fails writes and snapshots inside the broker; producers reconnect and resend. Wire client only.",
        decides=("DEDUP-04", "DEDUP-05", "DEDUP-06", "DEDUP-09", "DEDUP-11", "DEDUP-12"),
        needs=frozenset({Capability.DEFECTS}),
        share=4.0,
        steps=10,
    ),
    Description(
        name="deduplication-inactivity",
        summary="Has hours pass for producers that come and go, and has the broker purge inactive ones.",
        decides=("DEDUP-03", "DEDUP-09", "DEDUP-12", "DEDUP-20"),
        needs=frozenset({Capability.DEFECTS}),
        share=2.0,
        steps=10,
    ),
    Description(
        name="deduplication-network",
        summary="Cuts connections of producers, with and without an unload; they resend everything. Wire client only.",
        decides=("DEDUP-02", "DEDUP-03", "DEDUP-08", "DEDUP-09", "DEDUP-12", "DEDUP-19"),
        share=2.0,
        steps=10,
    ),
    Description(
        name="deduplication-kills",
        summary="Restarts and kills the broker, with and without messages in flight.",
        decides=("DEDUP-12",),
        needs=frozenset({Capability.KILL, Capability.RESTART}),
        share=2.0,
        steps=3,
        examples=2,
        affects="broker",
    ),
    Description(
        name="effectively-once",
        summary="Runs sources and consumers that crash, while topics are unloaded and writes fail.",
        decides=("DEDUP-13", "DEDUP-15", "DEDUP-16", "DEDUP-17", "DEDUP-18"),
        share=4.0,
        steps=8,
    ),
    Description(
        name="effectively-once-network",
        summary="Cuts connections of sources, while topics are unloaded and writes fail.",
        decides=("DEDUP-13", "DEDUP-15"),
        share=2.0,
        steps=8,
    ),
    Description(
        name="effectively-once-kills",
        summary="Kills and restarts the broker under sources and consumers.",
        decides=("DEDUP-13", "DEDUP-15", "DEDUP-16", "DEDUP-17", "DEDUP-18"),
        needs=frozenset({Capability.KILL, Capability.RESTART}),
        share=2.0,
        steps=2,
        examples=2,
        affects="broker",
    ),
    # An operation on several clusters costs about twenty times as much as others, hence these shares.
    Description(
        name="clusters",
        summary="Publishes, consumes and acknowledges in any cluster, fails over, breaks links, unloads topics.",
        decides=(
            "REPL-01",
            "REPL-02",
            "REPL-03",
            "REPL-04",
            "REPL-05",
            "REPL-06",
            "REPL-07",
            "REPL-08",
            "REPL-09",
            "REPL-10",
            "REPL-11",
            "REPL-12",
            "REPL-13",
            "REPL-14",
            "REPL-15",
            "REPL-18",
            "REPL-19",
            "REPL-20",
            "REPL-21",
        ),
        needs=frozenset({Capability.CLUSTERS}),
        share=20.0,
        steps=12,
        examples=3,
    ),
    Description(
        name="clusters-idle",
        summary="Leaves a topic idle in every cluster but the first while that makes its first snapshots.",
        decides=("REPL-17",),
        needs=frozenset({Capability.CLUSTERS}),
        share=5.0,
        steps=3,
        examples=1,
    ),
    Description(
        name="clusters-kills",
        summary="Kills, freezes and restarts clusters as well; one may be lost while the others go on.",
        decides=("REPL-01", "REPL-03", "REPL-10", "REPL-13", "REPL-14", "REPL-18", "REPL-20", "REPL-21"),
        needs=frozenset({Capability.CLUSTERS, Capability.KILL, Capability.RESTART}),
        share=5.0,
        steps=6,
        examples=1,
        affects="broker",
    ),
    Description(
        name="chunks",
        summary="Publishes around the size limit with two producers; one subscription acknowledges in any order.",
        decides=("CHUNK-01", "CHUNK-02", "CHUNK-03", "CHUNK-04", "CHUNK-05", "CHUNK-06", "CHUNK-07"),
        share=3.0,
        steps=10,
    ),
    Description(
        name="chunks-interrupted",
        summary="Interrupts producers between two chunks: they crash or reconnect, also after an unload.",
        decides=("CHUNK-02", "CHUNK-04", "CHUNK-05", "CHUNK-09", "CHUNK-13"),
        share=3.0,
        steps=8,
    ),
    Description(
        name="chunks-crafted",
        summary="Publishes chunks that no client sends: partial, repeated, out of order; small buffers.",
        decides=("CHUNK-03", "CHUNK-04", "CHUNK-06", "CHUNK-07", "CHUNK-08", "CHUNK-09"),
        share=3.0,
        steps=8,
    ),
    Description(
        name="chunks-shared",
        summary="Shares a subscription among consumers that join, leave with parts of messages or in a read, and fail.",
        decides=("CHUNK-04", "CHUNK-06", "CHUNK-07", "CHUNK-09", "CHUNK-15"),
        share=2.0,
        steps=8,
    ),
    Description(
        name="chunks-many",
        summary="Producers send chunks in turns, to several consumers with small queues that acknowledge everything.",
        decides=("CHUNK-03", "CHUNK-04", "CHUNK-06", "CHUNK-14", "CHUNK-15"),
        share=2.0,
        steps=8,
    ),
    Description(
        name="chunks-stats",
        summary="Reads the broker's chunk statistics.",
        decides=("CHUNK-10",),
        share=1.0,
        steps=2,
        examples=2,
    ),
    Description(
        name="chunks-kills",
        summary="Restarts and kills the broker between two chunks.",
        decides=("CHUNK-03", "CHUNK-13"),
        needs=frozenset({Capability.KILL, Capability.RESTART}),
        share=1.0,
        steps=2,
        examples=1,
        affects="broker",
    ),
    Description(
        name="acknowledgment",
        summary="Does everything to several subscriptions of one topic that consumers and administrators can do.",
        decides=(
            "ACK-01",
            "ACK-02",
            "ACK-03",
            "ACK-04",
            "ACK-05",
            "ACK-06",
            "ACK-07",
            "ACK-08",
            "ACK-10",
            "ACK-12",
            "ACK-13",
            "ACK-14",
            "ACK-18",
            "ACK-19",
            "ACK-17",
            "ACK-20",
            "ACK-21",
        ),
        share=4.0,
    ),
    Description(
        name="acknowledgment-network",
        summary="Cuts connections of consumers of several subscriptions.",
        decides=("ACK-02", "ACK-03", "ACK-04", "ACK-06", "ACK-11", "ACK-12", "ACK-18", "ACK-19"),
        share=2.0,
    ),
    Description(
        name="acknowledgment-chunks",
        summary="Does the same on topics with chunked messages, entry by entry. Consumers of the wire client only.",
        decides=("ACK-01", "ACK-02", "ACK-03", "ACK-04", "ACK-05", "ACK-06", "ACK-07", "ACK-10", "ACK-12", "ACK-13"),
        share=2.0,
    ),
    Description(
        name="acknowledgment-clients",
        summary="Consumes with pulsar-client, which groups acks and reconnects; partitioned topics too.",
        decides=("ACK-05", "ACK-11", "ACK-13"),
        share=2.0,
        steps=10,
        examples=5,
    ),
    Description(
        name="acknowledgment-clients-network",
        summary="Cuts connections of pulsar-client's consumers.",
        decides=("ACK-05", "ACK-11", "ACK-13"),
        share=1.0,
        steps=10,
        examples=5,
    ),
    Description(
        name="acknowledgment-kills",
        summary="Kills and restarts the broker: recent acks may be lost, messages never.",
        decides=("ACK-08", "ACK-09", "ACK-10", "ACK-15", "ACK-16", "ACK-18", "ACK-19", "ACK-21"),
        needs=frozenset({Capability.KILL, Capability.RESTART}),
        share=4.0,
        steps=2,
        examples=2,
        affects="broker",
    ),
    Description(
        name="keys",
        summary="Consumers join and leave while others have pending acks, and acknowledge in any order.",
        decides=(
            "KEY-01",
            "KEY-02",
            "KEY-03",
            "KEY-04",
            "KEY-05",
            "KEY-06",
            "KEY-07",
            "KEY-09",
            "KEY-11",
            "KEY-12",
            "KEY-13",
            "KEY-14",
            "KEY-16",
        ),
        share=4.0,
    ),
    Description(
        name="keys-again",
        summary="Consumers fail with pending acks, topics are unloaded, administrators reset subscriptions.",
        decides=("KEY-01", "KEY-02", "KEY-05", "KEY-06", "KEY-08", "KEY-09", "KEY-11", "KEY-14", "KEY-16"),
        share=4.0,
    ),
    Description(
        name="keys-chunks",
        summary="Does the same on topics with chunked messages, entry by entry. Consumers of the wire client only.",
        decides=("KEY-01", "KEY-02", "KEY-05", "KEY-06", "KEY-08", "KEY-09", "KEY-11"),
        share=2.0,
    ),
    Description(
        name="keys-claimed",
        summary="Consumers claim hash ranges (sticky), with gaps and overlaps, or ask for another policy.",
        decides=("KEY-01", "KEY-02", "KEY-06", "KEY-08", "KEY-09", "KEY-15", "KEY-17"),
        share=3.0,
    ),
    Description(
        name="keys-races",
        summary="Delays the broker between two steps of dispatch while consumers join and leave.",
        decides=("KEY-01", "KEY-10"),
        needs=frozenset({Capability.DEFECTS}),
        share=3.0,
        steps=10,
    ),
    Description(
        name="keys-switched",
        summary="Switches a topic between draining hashes and the classic implementation.",
        decides=("KEY-01", "KEY-02", "KEY-14", "KEY-16"),
        share=2.0,
        steps=8,
        examples=5,
        affects="settings",
    ),
    Description(
        name="keys-kills",
        summary="Kills and restarts the broker while consumers have pending acks.",
        decides=("KEY-01", "KEY-02"),
        needs=frozenset({Capability.KILL, Capability.RESTART}),
        share=1.0,
        steps=2,
        examples=2,
        affects="broker",
    ),
    Description(
        name="keys-network",
        summary="Cuts connections of consumers while they acknowledge.",
        decides=("KEY-01", "KEY-02", "KEY-05", "KEY-06", "KEY-09"),
        share=1.0,
    ),
    Description(
        name="keys-clients",
        summary="Mixes consumers of pulsar-client and of the wire client.",
        decides=("KEY-01", "KEY-02"),
        share=1.0,
        steps=10,
        examples=5,
    ),
    Description(
        name="service",
        summary="Asks for what is in use, and for what is not, and reads the broker's accounts after each request.",
        decides=(
            "SERVE-01",
            "SERVE-02",
            "SERVE-03",
            "SERVE-04",
            "SERVE-05",
            "SERVE-08",
            "SERVE-09",
            "SERVE-10",
            "SERVE-11",
            "SERVE-12",
            "SERVE-13",
        ),
        share=4.0,
    ),
    Description(
        name="policies",
        summary="Sets, changes and removes policies that limit clients, at two levels.",
        decides=("SERVE-10",),
        share=3.0,
        steps=4,
    ),
    Description(
        name="policies-kills",
        summary="Kills and restarts the broker under policies that limit clients.",
        decides=("SERVE-10",),
        needs=frozenset({Capability.KILL, Capability.RESTART}),
        share=1.0,
        steps=2,
        examples=2,
        affects="broker",
    ),
    Description(
        name="deduplication-takeovers",
        summary="Another broker takes topics over, with and without messages in flight.",
        decides=("SERVE-06", "SERVE-15"),
        needs=frozenset({Capability.TAKEOVER}),
        share=2.0,
        steps=3,
        examples=2,
    ),
    Description(
        name="acknowledgment-takeovers",
        summary="Another broker takes a topic over: recent acks may be lost, messages never.",
        decides=("SERVE-06", "SERVE-15"),
        needs=frozenset({Capability.TAKEOVER}),
        share=2.0,
        steps=3,
        examples=2,
    ),
    Description(
        name="keys-takeovers",
        summary="Another broker takes a topic over while consumers have pending acks.",
        decides=("SERVE-06", "SERVE-15"),
        needs=frozenset({Capability.TAKEOVER}),
        share=1.0,
        steps=3,
        examples=2,
    ),
    Description(
        name="effectively-once-takeovers",
        summary="Another broker takes topics over under sources and consumers.",
        decides=("SERVE-06", "SERVE-15"),
        needs=frozenset({Capability.TAKEOVER}),
        share=1.0,
        steps=3,
        examples=2,
    ),
    Description(
        name="policies-takeovers",
        summary="Another broker takes a topic over under policies that limit clients.",
        decides=("SERVE-06", "SERVE-10", "SERVE-15"),
        needs=frozenset({Capability.TAKEOVER}),
        share=1.0,
        steps=3,
        examples=2,
    ),
    Description(
        name="zombies",
        summary="Freezes an owner or cuts it off from ZooKeeper until its session ends; clients go on at both brokers.",
        decides=("SERVE-06",),
        needs=frozenset({Capability.TAKEOVER}),
        share=3.0,
        steps=3,
        examples=2,
    ),
    Description(
        name="bookies",
        summary="Kills and freezes one of the bookies; producers and readers go on.",
        decides=("SERVE-07", "SERVE-14"),
        needs=frozenset({Capability.BOOKIES}),
        share=2.0,
        steps=3,
        examples=2,
    ),
    Description(
        name="metadata-store",
        summary="Freezes and restarts the metadata store and ends sessions in it; clients and administrators go on.",
        decides=("SERVE-01", "SERVE-02"),
        needs=frozenset({Capability.METADATA_STORE}),
        share=2.0,
        steps=15,
        examples=4,
    ),
    Description(
        name="mixed",
        summary="Runs random subsets of two or three of these machines on one topic.",
        decides=(
            "DEDUP-01",
            "DEDUP-02",
            "DEDUP-03",
            "DEDUP-07",
            "DEDUP-09",
            "DEDUP-10",
            "DEDUP-12",
            "CHUNK-13",
            "ACK-01",
            "ACK-02",
            "ACK-03",
            "ACK-04",
            "ACK-05",
            "ACK-06",
            "ACK-07",
            "ACK-10",
            "ACK-12",
            "ACK-13",
            "ACK-18",
            "ACK-19",
            "ACK-17",
            "ACK-20",
            "ACK-21",
            "KEY-01",
            "KEY-02",
            "KEY-04",
            "KEY-11",
        ),
        share=4.0,
        steps=15,
    ),
    Description(
        name="mixed-kills",
        summary="The same, and the broker is killed or restarted after any operation, with what it left in flight.",
        decides=(
            "DEDUP-02",
            "DEDUP-03",
            "DEDUP-12",
            "ACK-01",
            "ACK-02",
            "ACK-09",
            "ACK-10",
            "ACK-12",
            "ACK-17",
            "ACK-20",
            "ACK-21",
            "KEY-01",
            "KEY-02",
            "SERVE-14",
        ),
        needs=frozenset({Capability.KILL, Capability.RESTART}),
        share=4.0,
        steps=8,
        examples=4,
        affects="broker",
    ),
    Description(
        name="mixed-clusters",
        summary="The same on a topic that two clusters replicate, with replicated subscriptions and producers at both.",
        decides=(
            "DEDUP-02",
            "DEDUP-03",
            "DEDUP-12",
            "REPL-01",
            "REPL-14",
            "ACK-01",
            "ACK-02",
            "ACK-03",
            "ACK-04",
            "ACK-10",
            "ACK-12",
            "KEY-01",
            "KEY-02",
        ),
        needs=frozenset({Capability.CLUSTERS}),
        share=2.0,
        steps=15,
        examples=2,
        affects="broker",
    ),
)

BY_NAME: dict[str, Description] = {description.name: description for description in DESCRIPTIONS}

LISTED_BY = "pulsar-conformance machines"
"""The command that lists the machines."""
