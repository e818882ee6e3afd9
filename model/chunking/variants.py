"""Variants of the reference of chunking, each with one difference from the document.

Each shows what a sentence of the document, or a choice of the model, is for.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from model.variants import assumption, defect, reading, release, variants_of


class ChunksVariant(Struct, frozen=True, kw_only=True, cache_hash=True, gc=False):
    """How producers, brokers and consumers differ from the reference; not at all by default."""

    metadata_not_counted: Annotated[
        bool, defect("A payload may take the whole limit, without room for the metadata.")
    ] = False
    two_at_once: Annotated[bool, assumption("A producer begins a message before it has finished another one.")] = False
    chunk_skipped: Annotated[bool, defect("A producer that reconnects skips the chunk that it was about to send.")] = (
        False
    )
    uuid_of_each_connection: Annotated[
        bool, reading("The chunks that are sent after a reconnect have another uuid than those before it.")
    ] = False
    each_deduplicated: Annotated[
        bool,
        release(
            "Deduplication judges each chunk by its sequence id, which is the same for all chunks of a message.",
            "isDuplicate of MessageDeduplication (2.11.0)",
        ),
    ] = False
    only_last_deduplicated: Annotated[
        bool,
        release(
            "Deduplication judges the last chunk of a message, and stores all others, even repeated ones.",
            "MessageDeduplication.java:447 (4.0.8)",
        ),
    ] = False
    recovery_counts_unfinished: Annotated[
        bool,
        release(
            "A reloaded topic counts a message as stored if any chunk of it is in the log.",
            "MessageDeduplication.java:254 (4.0.8)",
        ),
    ] = False
    never_judged: Annotated[bool, defect("Deduplication lets all chunks pass.")] = False
    repeated_discards_buffer: Annotated[
        bool,
        release(
            "A consumer that receives a repeated chunk discards the buffer of the message and that chunk, without a "
            "redelivery request.",
            "processMessageChunk of ConsumerImpl (pulsar-client 3.13.0)",
        ),
    ] = False
    one_buffer: Annotated[bool, defect("A consumer has one buffer for all uuids.")] = False
    last_delivers: Annotated[bool, defect("A last chunk completes a message even if chunks are missing.")] = False
    waits_for_unfinished: Annotated[bool, defect("A complete message waits until older messages are complete.")] = False
    limit_ignored: Annotated[bool, defect("There are more buffers than the pending limit allows.")] = False
    newest_discarded: Annotated[
        bool, defect("At the pending limit the newest buffer is discarded, not the oldest.")
    ] = False
    acknowledged_delivered: Annotated[bool, defect("A new consumer is also sent acknowledged entries.")] = False
    discarded_not_redelivered: Annotated[
        bool,
        release(
            "A client sends no redelivery request for discarded entries.",
            "discardChunkMessages of ConsumerImpl, without a timeout for unacknowledged messages (pulsar-client "
            "3.13.0)",
        ),
    ] = False
    buffers_survive_resubscribe: Annotated[
        bool,
        release(
            "A consumer that requests redelivery of everything keeps its buffers.",
            "redeliverUnacknowledgedMessages of ConsumerImpl (pulsar-client 3.13.0)",
        ),
    ] = False
    last_acknowledged: Annotated[bool, defect("Acknowledging a message acknowledges its last chunk.")] = False
    duplicates_not_acked: Annotated[
        bool, reading("Acknowledging a message acknowledges its chunks, but not those that were stored twice.")
    ] = False
    cumulative: Annotated[bool, reading("A message is acknowledged cumulatively, up to its last chunk.")] = False
    mapping_not_kept: Annotated[
        bool, defect("Option 1: a chunk is sent to the next consumer, regardless of its uuid.")
    ] = False
    chunks_not_skipped: Annotated[bool, defect("Option 2: chunks are also sent when they are read.")] = False
    marker_too_early: Annotated[bool, defect("Option 2: the marker is published before the last chunk.")] = False
    chunks_acknowledged_first: Annotated[
        bool, reading("Option 2: the chunks are acknowledged before their marker, and then no longer read.")
    ] = False
    marker_acknowledged_first: Annotated[bool, reading("Option 2: the marker is acknowledged before its chunks.")] = (
        False
    )


DOCUMENT = ChunksVariant()
"""The unchanged reference."""


VARIANTS = variants_of(ChunksVariant, prefix="chunk-")
"""All variants."""
