"""The rule catalogue: every statement of the five documents, as data.

A rule's id never changes. Where a rule is decided is marked in the model with :func:`carries`; a test holds the marks
against this catalogue. The documents are named by their numbers: 000 deduplication, 001 replicated subscriptions,
002 chunking, 003 acknowledgment and cursors, 004 Key_Shared.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from model import names


class Decided(enum.Enum):
    """From what a rule can be decided."""

    WIRE = "wire"
    STATS = "stats"
    FAULT = "fault"
    MODEL = "model"


@dataclass(frozen=True, slots=True)
class Rule:
    """One statement of a document: its id, the document, the statement and from what it is decided."""

    id: str
    document: str
    statement: str
    decided_by: tuple[Decided, ...]

    @property
    def family(self) -> str:
        """The part of the id before the number: ``DEDUP`` of ``DEDUP-03``."""
        return self.id.partition("-")[0]


CATALOGUE: tuple[Rule, ...] = (
    Rule(
        "DEDUP-01",
        "000",
        "Deduplication is switched per broker, namespace and topic. Off: a repeated sequence id is stored again.",
        (Decided.WIRE,),
    ),
    Rule(
        "DEDUP-02",
        "000",
        "The broker keeps, per producer name, the highest sequence id *pushed* and the highest *persisted*. A sequence id above *pushed* is new: stored once, at the next position.",
        (Decided.WIRE,),
    ),
    Rule(
        "DEDUP-03",
        "000",
        "A sequence id at or below *persisted* is a duplicate: confirmed to the producer, not stored, never delivered.",
        (Decided.WIRE,),
    ),
    Rule(
        "DEDUP-04",
        "000",
        "A sequence id above *persisted* and at or below *pushed* is of unknown status: neither stored nor confirmed; the producer gets a retriable error.",
        (Decided.FAULT,),
    ),
    Rule(
        "DEDUP-05",
        "000",
        "*Pushed* rises before the write, *persisted* after it; the two differ only while a write is in flight or has failed.",
        (Decided.FAULT,),
    ),
    Rule(
        "DEDUP-06",
        "000",
        "After a failed write *pushed* falls back to *persisted*, so the same sequence id sent again is stored (nothing is lost).",
        (Decided.FAULT,),
    ),
    Rule("DEDUP-07", "000", "Producer names do not influence one another; neither do topics.", (Decided.WIRE,)),
    Rule("DEDUP-08", "000", "Sequence ids are the user's: rising, not necessarily consecutive.", (Decided.WIRE,)),
    Rule(
        "DEDUP-09",
        "000",
        "A producer that reconnects under its name learns the highest sequence id that the broker has stored for it and goes on from there.",
        (Decided.WIRE,),
    ),
    Rule(
        "DEDUP-10",
        "000",
        "A snapshot is the map producer → highest persisted, stored with a position in the deduplication cursor's properties, cut to a configured number of producers.",
        (Decided.STATS,),
    ),
    Rule(
        "DEDUP-11",
        "000",
        "Snapshots are taken in the background (timer, number of entries). A snapshot that fails or is late loses no state.",
        (Decided.FAULT,),
    ),
    Rule(
        "DEDUP-12",
        "000",
        "Recovery is the snapshot plus a replay of the entries after its position: after a kill or a move of the topic, every producer's highest sequence id equals that of the entries stored.",
        (Decided.FAULT,),
    ),
    Rule(
        "DEDUP-13",
        "000",
        "Fixed name, no send timeout, retries until confirmed, a replayable source: each message is stored exactly once and in the source's order, through broker kills, cut connections, lost confirmations and producer restarts.",
        (Decided.FAULT,),
    ),
    Rule(
        "DEDUP-14",
        "000",
        "Only the most recent ids are judged: an old business id under a new sequence id is stored again.",
        (Decided.WIRE,),
    ),
    Rule(
        "DEDUP-15",
        "000",
        "A source that cannot replay may lose what was unconfirmed when its producer died; it never loses what was confirmed.",
        (Decided.FAULT,),
    ),
    Rule(
        "DEDUP-16",
        "000",
        "Subscribing consumers get a message again after a broker, consumer or network failure before the ack; they never miss one.",
        (Decided.FAULT,),
    ),
    Rule(
        "DEDUP-17",
        "000",
        "A reader that stores its last message id in one transaction with its state ends with every message applied exactly once, wherever it is killed (document scenario 1; the store is a real database).",
        (Decided.FAULT,),
    ),
    Rule(
        "DEDUP-18",
        "000",
        "With a source that cannot be deduplicated, a consumer that stores every business id in one transaction with its state applies each once (scenario 2), even where the log holds duplicates.",
        (Decided.FAULT,),
    ),
    Rule(
        "REPL-01",
        "001",
        "Messages are replicated by an internal subscription and an internal producer: each appears once in every other cluster, in its source's order, under another message id.",
        (Decided.WIRE,),
    ),
    Rule(
        "REPL-02",
        "001",
        "Snapshots start on a timer; none starts when nothing was published since the last completed one began.",
        (Decided.STATS,),
    ),
    Rule("REPL-03", "001", "None starts while a replicator is disconnected.", (Decided.FAULT,)),
    Rule(
        "REPL-04",
        "001",
        "A snapshot request marker reaches every remote cluster; each answers with its last position, in a response marker whose own position is higher.",
        (Decided.WIRE,),
    ),
    Rule(
        "REPL-05",
        "001",
        "A cluster handles a marker only from the replicator whose remote cluster wrote it: once, not once per replicator.",
        (Decided.WIRE,),
    ),
    Rule(
        "REPL-06",
        "001",
        "The first answer of a cluster counts; later ones of the same snapshot change nothing.",
        (Decided.MODEL,),
    ),
    Rule(
        "REPL-07",
        "001",
        "With more than one remote cluster a second round is made before the snapshot is complete. (Leaving it out can lose messages at a failover: show how.)",
        (
            Decided.WIRE,
            Decided.MODEL,
        ),
    ),
    Rule("REPL-08", "001", "Snapshots that time out are dropped, and late answers to them ignored.", (Decided.FAULT,)),
    Rule(
        "REPL-09",
        "001",
        "A complete snapshot is written as a marker: the local position of the last answer, and each remote cluster's position.",
        (Decided.WIRE,),
    ),
    Rule(
        "REPL-10",
        "001",
        "Markers are never delivered to consumers, do not count against them, and do not hold up mark-delete.",
        (Decided.WIRE,),
    ),
    Rule(
        "REPL-11",
        "001",
        "A subscription caches the snapshots that its dispatcher reads, ordered by local position, at most a configured number; the oldest go first.",
        (Decided.WIRE,),
    ),
    Rule(
        "REPL-12",
        "001",
        "When mark-delete advances, the latest cached snapshot at or below it is published as an update; acks that do not move mark-delete publish nothing.",
        (Decided.WIRE,),
    ),
    Rule(
        "REPL-13",
        "001",
        "On an update a remote cluster acknowledges cumulatively up to its own position, or creates the subscription, replicated, where it is missing.",
        (Decided.WIRE,),
    ),
    Rule(
        "REPL-14",
        "001",
        "Soundness: a remote subscription is never ahead: no message unacknowledged at the source is acknowledged by an update at a remote. A consumer that fails over misses nothing.",
        (
            Decided.WIRE,
            Decided.FAULT,
        ),
    ),
    Rule(
        "REPL-15",
        "001",
        "Inexactness: it may be behind. The duplicates after a failover are only messages after the last snapshot that the source's mark-delete had passed.",
        (Decided.WIRE,),
    ),
    Rule(
        "REPL-17",
        "001",
        "A cluster that is asked while its own replicator back to the asking cluster is closed starts it again, and answers.",
        (Decided.FAULT,),
    ),
    Rule(
        "REPL-18",
        "001",
        "Only subscriptions marked as replicated, on topics that are replicated and with the feature on, take part: elsewhere no marker is ever written and no subscription appears.",
        (Decided.WIRE,),
    ),
    Rule(
        "REPL-16",
        "001",
        "The worked example: answers 6 and 7, the second stored locally at 10, gives the mapping 10 – 6 – 7.",
        (Decided.MODEL,),
    ),
    Rule(
        "CHUNK-01",
        "002",
        "A payload over the broker's limit is split when chunking is enabled; without it the send fails with a clear error and nothing is stored. A payload under the limit is never split.",
        (Decided.WIRE,),
    ),
    Rule(
        "CHUNK-02",
        "002",
        "Each chunk carries the same uuid, the number of chunks, the total size, and its chunk id 0…n−1.",
        (Decided.WIRE,),
    ),
    Rule(
        "CHUNK-03",
        "002",
        "Chunks are ordinary entries; those of one message are in order, and may be interleaved with other messages and other producers' chunks.",
        (Decided.WIRE,),
    ),
    Rule(
        "CHUNK-04",
        "002",
        "A message is delivered only when all its chunks are there, once, with the payload byte for byte.",
        (Decided.WIRE,),
    ),
    Rule(
        "CHUNK-05",
        "002",
        "Ordered consumers (Exclusive, Failover) get a producer's messages, chunked or not, in its order.",
        (Decided.WIRE,),
    ),
    Rule(
        "CHUNK-06",
        "002",
        "Interleaved producers: one buffer per unfinished message, no more buffers than producers.",
        (Decided.WIRE,),
    ),
    Rule(
        "CHUNK-07",
        "002",
        "Acknowledging a chunked message acknowledges every one of its chunks; redelivery brings back the whole message.",
        (Decided.WIRE,),
    ),
    Rule(
        "CHUNK-08",
        "002",
        "Past the limit of pending chunked messages the consumer discards the oldest buffer and has it redelivered later (or acknowledges it, where so configured, and only then may it be lost).",
        (Decided.WIRE,),
    ),
    Rule(
        "CHUNK-09",
        "002",
        "A message whose producer died half-way is never delivered, and holds up no other message.",
        (Decided.FAULT,),
    ),
    Rule("CHUNK-10", "002", "The broker only counts chunked messages (a rate in the topic's stats).", (Decided.STATS,)),
    Rule(
        "CHUNK-11",
        "002",
        "Shared consumers, option 1 (uuid as key): all chunks to one consumer; what goes wrong on redelivery.",
        (Decided.MODEL,),
    ),
    Rule(
        "CHUNK-12",
        "002",
        "Shared consumers, option 2 (marker with the chunks' message ids): chunks are skipped, then delivered together with their marker to one consumer, and acknowledged with it.",
        (Decided.MODEL,),
    ),
    Rule(
        "CHUNK-13",
        "002",
        "With deduplication on, a chunked message is stored once, whole, whatever part of it is sent again.",
        (Decided.FAULT,),
    ),
    Rule(
        "ACK-01",
        "003",
        "A subscription's state is a mark-delete position (all up to it acknowledged) and the individually acknowledged positions after it.",
        (Decided.STATS,),
    ),
    Rule(
        "ACK-02",
        "003",
        "Mark-delete advances over every contiguous acknowledged position, across ledgers.",
        (Decided.STATS,),
    ),
    Rule(
        "ACK-03",
        "003",
        "Acks are idempotent; one at or below mark-delete changes nothing; order does not matter.",
        (Decided.STATS,),
    ),
    Rule("ACK-04", "003", "A cumulative ack acknowledges everything up to its position.", (Decided.STATS,)),
    Rule(
        "ACK-05",
        "003",
        "Subscriptions of a topic, and partitions of a partitioned topic, are independent.",
        (Decided.WIRE,),
    ),
    Rule(
        "ACK-06",
        "003",
        "Positions are (ledger, entry), entries from 0, strictly rising; a ledger rolls over by size or time, has one writer, and never changes once closed.",
        (Decided.STATS,),
    ),
    Rule(
        "ACK-07",
        "003",
        "Position info is mark-delete plus ranges; converting to it and back changes nothing (the worked example included).",
        (
            Decided.STATS,
            Decided.MODEL,
        ),
    ),
    Rule(
        "ACK-08",
        "003",
        "Acks persist at most once a second by default, and a dirty state at the latest after the flush interval.",
        (Decided.FAULT,),
    ),
    Rule(
        "ACK-09",
        "003",
        "After a broker kill the state is one that was persisted: no ack that was never made, and at most the interval's acks lost. What was lost is redelivered: at least once, never zero times.",
        (Decided.FAULT,),
    ),
    Rule(
        "ACK-10",
        "003",
        "A graceful move (unload, shutdown) loses no ack: fewer than the configured number of ranges go to the metadata store, more go to the cursor's ledger.",
        (Decided.FAULT,),
    ),
    Rule(
        "ACK-11",
        "003",
        "The client groups acks; those still buffered when it dies are lost and their messages redelivered; a graceful close flushes them.",
        (Decided.FAULT,),
    ),
    Rule(
        "ACK-12",
        "003",
        "Consumers of a shared subscription share the messages: each outstanding at one of them at a time; those of a consumer that leaves go to the others.",
        (Decided.WIRE,),
    ),
    Rule(
        "ACK-13",
        "003",
        "Messages that failed are redelivered without those that did not, with exponential back-off (2, 4, 8, 16, 32 s by default; scaled down for tests).",
        (Decided.WIRE,),
    ),
    Rule(
        "ACK-14",
        "003",
        "Messages that all subscriptions acknowledged may be deleted, ledger by ledger; no other may.",
        (Decided.STATS,),
    ),
    Rule(
        "KEY-01",
        "004",
        "The invariant: messages of one key are delivered to, and unacknowledged at, one consumer at a time. Always: joins, leaves, disconnects, nacks, unloads and kills included.",
        (Decided.WIRE,),
    ),
    Rule(
        "KEY-02",
        "004",
        "Without negative acks or redelivery requests, each key's messages are processed in order, across changes of consumers.",
        (Decided.WIRE,),
    ),
    Rule(
        "KEY-03",
        "004",
        "When a consumer joins or leaves, a key moves only after its pending messages are acknowledged or their consumer disconnected.",
        (Decided.WIRE,),
    ),
    Rule(
        "KEY-04",
        "004",
        "Only draining hashes are blocked: other keys of the same range go on at once.",
        (Decided.WIRE,),
    ),
    Rule(
        "KEY-05",
        "004",
        "A draining hash counts its pending messages; at zero it is removed and what it blocked is delivered, within the unblocking interval.",
        (
            Decided.WIRE,
            Decided.STATS,
        ),
    ),
    Rule(
        "KEY-06",
        "004",
        "A leaving consumer's pending messages are replayed, before later messages of their keys.",
        (Decided.WIRE,),
    ),
    Rule(
        "KEY-07",
        "004",
        "A hash that goes back to the consumer that is draining it is not blocked, and leaves the set.",
        (
            Decided.WIRE,
            Decided.STATS,
        ),
    ),
    Rule(
        "KEY-08",
        "004",
        "Negative acks and redelivery requests redeliver as soon as possible, without a promise of order; KEY-01 still holds.",
        (Decided.WIRE,),
    ),
    Rule(
        "KEY-09",
        "004",
        "A message of a hash that waits for replay is not delivered ahead of the replay.",
        (Decided.WIRE,),
    ),
    Rule(
        "KEY-10",
        "004",
        "Nothing is added to the pending messages of a closed consumer, nor of another one while a hash drains, however the calls race.",
        (Decided.FAULT,),
    ),
    Rule(
        "KEY-11",
        "004",
        "Stats: hashes draining, their pending messages, the total cleared, and per consumer the hashes with their counts; all back to zero when drained.",
        (Decided.STATS,),
    ),
    Rule(
        "KEY-12",
        "004",
        "Hash range 65535; about 80 bytes a draining hash, 5 MB at worst.",
        (
            Decided.STATS,
            Decided.MODEL,
        ),
    ),
    Rule("KEY-13", "004", "A stuck consumer blocks its own keys only; disconnecting it frees them.", (Decided.WIRE,)),
    Rule(
        "KEY-14",
        "004",
        'The classic implementation can be switched on: its "recently joined consumers" rule holds instead (a new consumer gets nothing until all that was read before it joined is acknowledged).',
        (Decided.WIRE,),
    ),
)

RULES: dict[str, Rule] = {rule.id: rule for rule in CATALOGUE}

FAMILIES: tuple[str, ...] = tuple(dict.fromkeys(rule.family for rule in CATALOGUE))
"""What rules are selected by together, in the order of the catalogue."""

LISTED_BY = "pulsar-conformance rules"
"""The command that lists them."""

DOCUMENTS: dict[str, str] = {
    "000": "effectively-once publishing and consuming (deduplication)",
    "001": "replicated subscriptions",
    "002": "chunking (PIP-37)",
    "003": "individual acknowledgment and cursors",
    "004": "Key_Shared and draining hashes (PIP-379)",
}

PLACES: dict[str, list[str]] = {}
"""Where each rule is decided: rule id to the qualified names of the functions that carry it."""

F = TypeVar("F", bound=Callable[..., object])


def carries(*rule_ids: str) -> Callable[[F], F]:
    """Mark a function of the model as the place where these rules are decided. The mark changes nothing in it."""
    for rule_id in rule_ids:
        if rule_id not in RULES:
            raise ValueError(f"{rule_id} is not in the catalogue")

    def mark(function: F) -> F:
        for rule_id in rule_ids:
            PLACES.setdefault(rule_id, []).append(f"{function.__module__}.{function.__qualname__}")
        return function

    return mark


def select(text: str) -> tuple[Rule, ...]:
    """The rules that ``text`` names: ids and families separated by commas (``DEDUP,KEY-01``), in catalogue order.

    Raises ValueError, with one sentence, for a name that is neither.
    """
    wanted = names.listed(text, kind="rule or family of rules", names=(*FAMILIES, *RULES), listed_by=LISTED_BY)
    return tuple(rule for rule in CATALOGUE if rule.id in wanted or rule.family in wanted)
