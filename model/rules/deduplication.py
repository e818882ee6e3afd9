"""The rules of document 000: effectively-once publishing and consuming."""

from __future__ import annotations

from model.rules.rule import Decided, Rule

STATEMENTS = (
    Rule(
        "DEDUP-01",
        "000",
        "Deduplication is switched per broker, namespace and topic. Off: a repeated sequence id is stored again.",
        (Decided.WIRE,),
        "Effectively-once publishing",
    ),
    Rule(
        "DEDUP-02",
        "000",
        "The broker keeps, per producer name, the highest sequence id *pushed* and the highest *persisted*. A sequence id above *pushed* is new: stored once, at the next position.",
        (Decided.WIRE,),
        "How can I tell if a message is a duplicate?",
    ),
    Rule(
        "DEDUP-03",
        "000",
        "A sequence id at or below *persisted* is a duplicate: confirmed to the producer, not stored, never delivered.",
        (Decided.WIRE,),
        "How can I tell if a message is a duplicate?",
    ),
    Rule(
        "DEDUP-04",
        "000",
        "A sequence id above *persisted* and at or below *pushed* is of unknown status: neither stored nor confirmed; the producer gets a retriable error.",
        (Decided.FAULT,),
        "How can I tell if a message is a duplicate?",
    ),
    Rule(
        "DEDUP-05",
        "000",
        "*Pushed* rises before the write, *persisted* after it; the two differ only while a write is in flight or has failed.",
        (Decided.FAULT,),
        "How can I tell if a message is a duplicate?",
    ),
    Rule(
        "DEDUP-06",
        "000",
        "After a failed write *pushed* falls back to *persisted*, so the same sequence id sent again is stored (nothing is lost).",
        (Decided.FAULT,),
        "How can I tell if a message is a duplicate?",
    ),
    Rule(
        "DEDUP-07",
        "000",
        "Producer names do not influence one another; neither do topics.",
        (Decided.WIRE,),
        "Effectively-once publishing",
    ),
    Rule(
        "DEDUP-08",
        "000",
        "Sequence ids are the user's: rising, not necessarily consecutive.",
        (Decided.WIRE,),
        "Effectively-once publishing",
    ),
    Rule(
        "DEDUP-09",
        "000",
        "A producer that reconnects under its name learns the highest sequence id that the broker has stored for it and goes on from there.",
        (Decided.WIRE,),
        "Effectively-once publishing",
    ),
    Rule(
        "DEDUP-10",
        "000",
        "A snapshot is the map producer → highest persisted, stored with a position in the deduplication cursor's properties, cut to a configured number of producers.",
        (Decided.STATS,),
        "How is the MessageDeduplication state persisted?",
    ),
    Rule(
        "DEDUP-11",
        "000",
        "Snapshots are taken in the background (timer, number of entries). A snapshot that fails or is late loses no state.",
        (Decided.FAULT,),
        "How is the MessageDeduplication state persisted?",
    ),
    Rule(
        "DEDUP-12",
        "000",
        "Recovery is the snapshot plus a replay of the entries after its position: after a kill or a move of the topic, every producer's highest sequence id equals that of the entries stored.",
        (Decided.FAULT,),
        "How is the MessageDeduplication state persisted?",
    ),
    Rule(
        "DEDUP-13",
        "000",
        "Fixed name, no send timeout, retries until confirmed, a replayable source: each message is stored exactly once and in the source's order, through broker kills, cut connections, lost confirmations and producer restarts.",
        (Decided.FAULT,),
        "Effectively-once publishing",
    ),
    Rule(
        "DEDUP-14",
        "000",
        "Only the most recent ids are judged: an old business id under a new sequence id is stored again.",
        (Decided.WIRE,),
        "How can I tell if a message is a duplicate?",
    ),
    Rule(
        "DEDUP-15",
        "000",
        "A source that cannot replay may lose what was unconfirmed when its producer died; it never loses what was confirmed.",
        (Decided.FAULT,),
        "Summary: business scenario 2",
    ),
    Rule(
        "DEDUP-16",
        "000",
        "Subscribing consumers get a message again after a broker, consumer or network failure before the ack; they never miss one.",
        (Decided.FAULT,),
        "Effectively-once consumer",
    ),
    Rule(
        "DEDUP-17",
        "000",
        "A reader that stores its last message id in one transaction with its state ends with every message applied exactly once, wherever it is killed (document scenario 1; the store is a real database).",
        (Decided.FAULT,),
        "Summary: business scenario 1",
    ),
    Rule(
        "DEDUP-18",
        "000",
        "With a source that cannot be deduplicated, a consumer that stores every business id in one transaction with its state applies each once (scenario 2), even where the log holds duplicates.",
        (Decided.FAULT,),
        "Summary: business scenario 2",
    ),
)
