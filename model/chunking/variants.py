"""Variants of the reference of chunking, each with one difference from the document.

As in :mod:`model.deduplication.variants`, each shows what a sentence of the document, or a choice of the model, is for.
"""

from __future__ import annotations

from functools import partial

from msgspec import Struct

from model.variants import NamedVariant, Origin, switched_on


class ChunksVariant(Struct, frozen=True, kw_only=True, cache_hash=True, gc=False):
    """How producers, brokers and consumers differ from the reference; not at all by default."""

    metadata_not_counted: bool = False
    two_at_once: bool = False
    chunk_skipped: bool = False
    uuid_of_each_connection: bool = False
    each_deduplicated: bool = False
    only_last_deduplicated: bool = False
    recovery_counts_unfinished: bool = False
    never_judged: bool = False
    repeated_discards_buffer: bool = False
    one_buffer: bool = False
    last_delivers: bool = False
    waits_for_unfinished: bool = False
    limit_ignored: bool = False
    newest_discarded: bool = False
    acknowledged_delivered: bool = False
    discarded_not_redelivered: bool = False
    buffers_survive_resubscribe: bool = False
    last_acknowledged: bool = False
    duplicates_not_acked: bool = False
    cumulative: bool = False
    mapping_not_kept: bool = False
    chunks_not_skipped: bool = False
    marker_too_early: bool = False
    chunks_acknowledged_first: bool = False
    marker_acknowledged_first: bool = False


DOCUMENT = ChunksVariant()
"""The unchanged reference."""


_named = partial(switched_on, ChunksVariant, prefix="chunk-")


VARIANTS: tuple[NamedVariant[ChunksVariant], ...] = (
    _named("metadata_not_counted", Origin.DEFECT, "A payload may take the whole limit, without room for the metadata."),
    _named("two_at_once", Origin.ASSUMPTION, "A producer begins a message before it has finished another one."),
    _named("chunk_skipped", Origin.DEFECT, "A producer that reconnects skips the chunk that it was about to send."),
    _named(
        "uuid_of_each_connection",
        Origin.READING,
        "The chunks that are sent after a reconnect have another uuid than those before it.",
    ),
    _named(
        "each_deduplicated",
        Origin.RELEASE,
        "Deduplication judges each chunk by its sequence id, which is the same for all chunks of a message.",
        "isDuplicate of MessageDeduplication (2.11.0)",
    ),
    _named(
        "only_last_deduplicated",
        Origin.RELEASE,
        "Deduplication judges the last chunk of a message, and stores all others, even repeated ones.",
        "MessageDeduplication.java:447 (4.0.8)",
    ),
    _named(
        "recovery_counts_unfinished",
        Origin.RELEASE,
        "A reloaded topic counts a message as stored if any chunk of it is in the log.",
        "MessageDeduplication.java:254 (4.0.8)",
    ),
    _named("never_judged", Origin.DEFECT, "Deduplication lets all chunks pass."),
    _named(
        "repeated_discards_buffer",
        Origin.RELEASE,
        "A consumer that receives a repeated chunk discards the buffer of the message and that chunk, without a "
        "redelivery request.",
        "processMessageChunk of ConsumerImpl (pulsar-client 3.13.0)",
    ),
    _named("one_buffer", Origin.DEFECT, "A consumer has one buffer for all uuids."),
    _named("last_delivers", Origin.DEFECT, "A last chunk completes a message even if chunks are missing."),
    _named("waits_for_unfinished", Origin.DEFECT, "A complete message waits until older messages are complete."),
    _named("limit_ignored", Origin.DEFECT, "There are more buffers than the pending limit allows."),
    _named("newest_discarded", Origin.DEFECT, "At the pending limit the newest buffer is discarded, not the oldest."),
    _named("acknowledged_delivered", Origin.DEFECT, "A new consumer is also sent acknowledged entries."),
    _named(
        "discarded_not_redelivered",
        Origin.RELEASE,
        "A client sends no redelivery request for discarded entries.",
        "discardChunkMessages of ConsumerImpl, without a timeout for unacknowledged messages (pulsar-client 3.13.0)",
    ),
    _named(
        "buffers_survive_resubscribe",
        Origin.RELEASE,
        "A consumer that requests redelivery of everything keeps its buffers.",
        "redeliverUnacknowledgedMessages of ConsumerImpl (pulsar-client 3.13.0)",
    ),
    _named("last_acknowledged", Origin.DEFECT, "Acknowledging a message acknowledges its last chunk."),
    _named(
        "duplicates_not_acked",
        Origin.READING,
        "Acknowledging a message acknowledges its chunks, but not those that were stored twice.",
    ),
    _named(
        "cumulative",
        Origin.READING,
        "A message is acknowledged cumulatively, up to its last chunk.",
    ),
    _named(
        "mapping_not_kept", Origin.DEFECT, "Option 1: a chunk is sent to the next consumer, regardless of its uuid."
    ),
    _named("chunks_not_skipped", Origin.DEFECT, "Option 2: chunks are also sent when they are read."),
    _named("marker_too_early", Origin.DEFECT, "Option 2: the marker is published before the last chunk."),
    _named(
        "chunks_acknowledged_first",
        Origin.READING,
        "Option 2: the chunks are acknowledged before their marker, and then no longer read.",
    ),
    _named(
        "marker_acknowledged_first",
        Origin.READING,
        "Option 2: the marker is acknowledged before its chunks.",
    ),
)
"""All variants."""
