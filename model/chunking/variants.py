"""Variants of the reference of chunking: the document with one thing done differently.

As in :mod:`model.deduplication.variants`, each shows what a sentence of the document, or a choice where it has none,
is there for.
"""

from __future__ import annotations

from functools import partial

from msgspec import Struct

from model.variants import NamedVariant, Origin, switched_on


class ChunksVariant(Struct, frozen=True, kw_only=True, cache_hash=True, gc=False):
    """What producers, brokers and consumers do differently from the reference; by default nothing."""

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
"""The reference as it is."""


_named = partial(switched_on, ChunksVariant, prefix="chunk-")


VARIANTS: tuple[NamedVariant[ChunksVariant], ...] = (
    _named("metadata_not_counted", Origin.DEFECT, "A payload may take the whole limit, whatever the metadata needs."),
    _named("two_at_once", Origin.ASSUMPTION, "A producer begins a message while another one of it is not finished."),
    _named(
        "chunk_skipped", Origin.DEFECT, "A producer that reconnects leaves out the chunk that it was about to send."
    ),
    _named(
        "uuid_of_each_connection",
        Origin.READING,
        "The chunks that are sent after a reconnection carry another uuid than those before it.",
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
        "Deduplication judges the last chunk of a message, and stores all others whatever was there before.",
        "MessageDeduplication.java:447 (4.0.8)",
    ),
    _named(
        "recovery_counts_unfinished",
        Origin.RELEASE,
        "A topic that is loaded again takes a message for stored when any chunk of it is in the log.",
        "MessageDeduplication.java:254 (4.0.8)",
    ),
    _named("never_judged", Origin.DEFECT, "Deduplication lets all chunks pass."),
    _named(
        "repeated_discards_buffer",
        Origin.RELEASE,
        "A consumer that gets a chunk which it has already throws away what it has of the message, and that chunk, "
        "and asks for neither again.",
        "processMessageChunk of ConsumerImpl (pulsar-client 3.13.0)",
    ),
    _named("one_buffer", Origin.DEFECT, "A consumer has one buffer, whatever the uuid."),
    _named("last_delivers", Origin.DEFECT, "A last chunk makes a message of what is there, gaps or not."),
    _named("waits_for_unfinished", Origin.DEFECT, "What is whole waits until older messages are."),
    _named("limit_ignored", Origin.DEFECT, "There are more buffers than the limit allows."),
    _named("newest_discarded", Origin.DEFECT, "Past the limit the newest buffer is discarded, not the oldest."),
    _named("acknowledged_delivered", Origin.DEFECT, "A consumer that begins is sent what is acknowledged, too."),
    _named(
        "discarded_not_redelivered",
        Origin.RELEASE,
        "What was discarded is not asked for again.",
        "discardChunkMessages of ConsumerImpl, without a timeout for what is unacknowledged (pulsar-client 3.13.0)",
    ),
    _named(
        "buffers_survive_resubscribe",
        Origin.RELEASE,
        "A consumer that has everything delivered again keeps what it has of messages.",
        "redeliverUnacknowledgedMessages of ConsumerImpl (pulsar-client 3.13.0)",
    ),
    _named("last_acknowledged", Origin.DEFECT, "Acknowledging a message acknowledges its last chunk."),
    _named(
        "duplicates_not_acked",
        Origin.READING,
        "Acknowledging a message acknowledges the chunks that it was made of, not those that were stored twice.",
    ),
    _named(
        "cumulative",
        Origin.READING,
        "A message is acknowledged cumulatively, up to its last chunk.",
    ),
    _named("mapping_not_kept", Origin.DEFECT, "Option 1: whoever is next gets a chunk, whatever its uuid."),
    _named("chunks_not_skipped", Origin.DEFECT, "Option 2: chunks are sent when they are read, too."),
    _named("marker_too_early", Origin.DEFECT, "Option 2: the marker is published before the last chunk."),
    _named(
        "chunks_acknowledged_first",
        Origin.READING,
        "Option 2: the chunks are acknowledged before their marker, and are read no more once they are.",
    ),
    _named(
        "marker_acknowledged_first",
        Origin.READING,
        "Option 2: the marker is acknowledged before its chunks.",
    ),
)
"""Every variant there is."""
