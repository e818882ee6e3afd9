"""The rules of document 003: individual acknowledgment and cursors."""

from __future__ import annotations

from model.rules.rule import Decided, Rule

STATEMENTS = (
    Rule(
        "ACK-01",
        "003",
        "A subscription's state is a mark-delete position (all up to it acknowledged) and the individually acknowledged positions after it.",
        (Decided.STATS,),
        "Acknowledgment of messages",
    ),
    Rule(
        "ACK-02",
        "003",
        "Mark-delete advances over every contiguous acknowledged position, across ledgers.",
        (Decided.STATS,),
        "Acknowledgment of messages",
    ),
    Rule(
        "ACK-03",
        "003",
        "Acks are idempotent; one at or below mark-delete changes nothing; order does not matter.",
        (Decided.STATS,),
        "Acknowledgment of messages",
    ),
    Rule(
        "ACK-04",
        "003",
        "A cumulative ack acknowledges everything up to its position.",
        (Decided.STATS,),
        "Acknowledgment of messages",
    ),
    Rule(
        "ACK-05",
        "003",
        "Subscriptions of a topic, and partitions of a partitioned topic, are independent.",
        (Decided.WIRE,),
        "Reading and writing in Pulsar",
    ),
    Rule(
        "ACK-06",
        "003",
        "Positions are (ledger, entry), entries from 0, strictly rising; a ledger rolls over by size or time, has one writer, and never changes once closed.",
        (Decided.STATS,),
        "How do messages persist on Pulsar brokers?",
    ),
    Rule(
        "ACK-07",
        "003",
        "Position info is mark-delete plus ranges; converting to it and back changes nothing (the worked example included).",
        (
            Decided.STATS,
            Decided.MODEL,
        ),
        "Acknowledgment of messages",
    ),
    Rule(
        "ACK-08",
        "003",
        "Acks persist at most once a second by default, and a dirty state at the latest after the flush interval.",
        (Decided.FAULT,),
        "Acknowledgment of messages",
    ),
    Rule(
        "ACK-09",
        "003",
        "After a broker kill the state is one that was persisted: it has only acks that were made, and at most the interval's acks are lost. What was lost is redelivered: at least once, never zero times.",
        (Decided.FAULT,),
        "Acknowledgment of messages",
    ),
    Rule(
        "ACK-10",
        "003",
        "A graceful unload or shutdown loses no ack: fewer than the configured number of ranges go to the metadata store, more go to the cursor's ledger.",
        (Decided.FAULT,),
        "Acknowledgment of messages",
    ),
    Rule(
        "ACK-11",
        "003",
        "The client groups acks; those still buffered when it dies are lost and their messages redelivered; a graceful close flushes them.",
        (Decided.FAULT,),
        "Reading and writing in Pulsar",
    ),
    Rule(
        "ACK-12",
        "003",
        "Consumers of a shared subscription share the messages: each is unacknowledged at one of them at a time; those of a consumer that leaves are dispatched to the others.",
        (Decided.WIRE,),
        "Reading and writing in Pulsar",
    ),
    Rule(
        "ACK-13",
        "003",
        "Nacked messages are redelivered without the others, with exponential back-off (2, 4, 8, 16, 32 s by default; scaled down for tests).",
        (Decided.WIRE,),
        "Individual message acknowledgment: Why other systems fall short",
    ),
    Rule(
        "ACK-14",
        "003",
        "Messages that all subscriptions acknowledged may be deleted, ledger by ledger; no other may.",
        (Decided.STATS,),
        "How do messages persist on Pulsar brokers?",
    ),
    Rule(
        "ACK-15",
        "003",
        "Where acknowledgment at batch index level is enabled, acks of parts of batches obey the bounds of ACK-08 to ACK-10 as those of entries do.",
        (Decided.FAULT,),
        "Acknowledgment of messages",
    ),
    Rule(
        "ACK-16",
        "003",
        "A cursor that was created, reset, or moved by a seek, a skip or an expiry is, after a kill, at that position or at one that the acks since then explain; never after a message that was neither acknowledged nor skipped nor expired.",
        (Decided.FAULT,),
        "Acknowledgment of messages",
    ),
    Rule(
        "ACK-18",
        "003",
        "A subscription begins where it asked to (earliest that is retained, latest, a message id inclusive or exclusive, a time), also on a topic that was trimmed (compacted ledgers apart), terminated or reloaded; a reset or seek to a time begins with the first message published at or after it.",
        (Decided.WIRE,),
        "What users do every day",
    ),
    Rule(
        "ACK-19",
        "003",
        "Unsubscribe, deletion and forced deletion remove a subscription with its backlog, durable or not, on partitioned topics as on others; nothing of it comes back after a kill; a subscription that is created again with that name begins as ACK-18 says.",
        (Decided.FAULT,),
        "What users do every day",
    ),
)
