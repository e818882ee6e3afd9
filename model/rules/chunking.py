"""The rules of document 002: chunking."""

from __future__ import annotations

from model.rules.rule import Decided, Rule

STATEMENTS = (
    Rule(
        "CHUNK-01",
        "002",
        "A payload over the broker's limit is split when chunking is enabled; without it the send fails with a clear error and nothing is stored. A payload under the limit is never split.",
        (Decided.WIRE,),
        "Approach",
    ),
    Rule(
        "CHUNK-02",
        "002",
        "Each chunk carries the same uuid, the number of chunks, the total size, and its chunk id 0…n−1.",
        (Decided.WIRE,),
        "Approach",
    ),
    Rule(
        "CHUNK-03",
        "002",
        "Chunks are ordinary entries; those of one message are in order, and may be interleaved with other messages and other producers' chunks.",
        (Decided.WIRE,),
        "Usecase 1: Single producer with ordered consumer",
    ),
    Rule(
        "CHUNK-04",
        "002",
        "A message is delivered only when all its chunks are there, once, with the payload byte for byte.",
        (Decided.WIRE,),
        "Usecase 1: Single producer with ordered consumer",
    ),
    Rule(
        "CHUNK-05",
        "002",
        "Ordered consumers (Exclusive, Failover) get a producer's messages, chunked or not, in its order.",
        (Decided.WIRE,),
        "Usecase 1: Single producer with ordered consumer",
    ),
    Rule(
        "CHUNK-06",
        "002",
        "Interleaved producers: one buffer per unfinished message, no more buffers than producers.",
        (Decided.WIRE,),
        "Usecase 2: Multiple producers with ordered consumer",
    ),
    Rule(
        "CHUNK-07",
        "002",
        "Acknowledging a chunked message acknowledges every one of its chunks; redelivery brings back the whole message.",
        (Decided.WIRE,),
        "Usecase 1: Single producer with ordered consumer",
    ),
    Rule(
        "CHUNK-08",
        "002",
        "Past the limit of pending chunked messages the consumer discards the oldest buffer and has it redelivered later (or acknowledges it, where so configured, and only then may it be lost).",
        (Decided.WIRE,),
        "Client changes",
    ),
    Rule(
        "CHUNK-09",
        "002",
        "A message whose producer died half-way is never delivered, and blocks no other message.",
        (Decided.FAULT,),
        "Usecase 2: Multiple producers with ordered consumer",
    ),
    Rule(
        "CHUNK-10",
        "002",
        "The broker only counts chunked messages (a rate in the topic's stats).",
        (Decided.STATS,),
        "Broker changes",
    ),
    Rule(
        "CHUNK-11",
        "002",
        "Shared consumers, option 1 (uuid as key): all chunks to one consumer; what goes wrong on redelivery.",
        (Decided.MODEL,),
        "Usecase 3: Multiple producers with shared consumers",
    ),
    Rule(
        "CHUNK-12",
        "002",
        "Shared consumers, option 2 (marker with the chunks' message ids): chunks are skipped, then delivered together with their marker to one consumer, and acknowledged with it.",
        (Decided.MODEL,),
        "Usecase 3: Multiple producers with shared consumers",
    ),
    Rule(
        "CHUNK-13",
        "002",
        "With deduplication on, a chunked message is stored once, whole, whatever part of it is sent again.",
        (Decided.FAULT,),
        "Chunking on large-message Vs Txn with large-message",
    ),
    Rule(
        "CHUNK-14",
        "002",
        "Shared and Key_Shared subscriptions with several consumers deliver every whole chunked message to one application, whole, however many producers interleave, whatever the receiver queues.",
        (Decided.WIRE,),
        "Usecase 3: Multiple producers with shared consumers",
    ),
    Rule(
        "CHUNK-15",
        "002",
        "Chunks count as entries for permits, limits and assignments: pressure, a leave or a read in flight never leaves a chunked message of a connected consumer undelivered, nor its permits used up.",
        (Decided.WIRE,),
        "Usecase 3: Multiple producers with shared consumers",
    ),
)
