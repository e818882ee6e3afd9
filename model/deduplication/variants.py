"""Variants of the reference of deduplication, each with one difference from the document."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from model.chunking.variants import DOCUMENT as CHUNKS_AS_DOCUMENTED
from model.chunking.variants import ChunksVariant
from model.variants import assumption, defect, reading, release, variants_of


class Variant(Struct, frozen=True, kw_only=True, cache_hash=True, gc=False):
    """The differences from the document; none by default."""

    judged_when_off: Annotated[bool, defect("Entries are judged although deduplication is off.")] = False
    no_check: Annotated[bool, defect("Every entry counts as new.")] = False
    strict_less_than: Annotated[
        bool, reading("An id equal to the highest pushed counts as new: the prose's '<' for the code's '<='.")
    ] = False
    overlapping_batch_dropped: Annotated[
        bool,
        release(
            "A batch is judged by its lowest id: one that begins at or below persisted and ends above it is "
            "confirmed, and its new part is not stored. The document's own listing does it too.",
            "MessageDeduplication.java:455,468 (4.0.8)",
        ),
    ] = False
    batch_without_highest_id: Annotated[
        bool,
        release(
            "pulsar-client does not send the highest id of a batch, so the broker counts its lowest only.",
            "CommandSend without highest_sequence_id",
        ),
    ] = False
    shared_maps: Annotated[bool, defect("All producers share one highest id.")] = False
    duplicate_refused: Annotated[bool, defect("A duplicate is answered with an error instead of a confirmation.")] = (
        False
    )
    unknown_confirmed: Annotated[bool, defect("An entry of unknown status is confirmed as a duplicate.")] = False
    unknown_stored: Annotated[bool, defect("An entry of unknown status is stored.")] = False
    reset_on_unknown: Annotated[
        bool,
        reading(
            "Pushed falls back to persisted whenever an entry is of unknown status, as the document says, and not "
            "after a failed write, as the broker does."
        ),
    ] = False
    persisted_before_write: Annotated[bool, defect("Persisted rises before the write, together with pushed.")] = False
    pushed_after_write: Annotated[bool, defect("Pushed rises after the write, together with persisted.")] = False
    deduplication_enabled_in_flight: Annotated[
        bool,
        release(
            "An entry that was in flight when deduplication was switched on raises persisted, but not pushed, which "
            "the broker compares first.",
            "MessageDeduplication.java:454,533 (4.0.8)",
        ),
    ] = False
    no_reset_after_failure: Annotated[bool, defect("Pushed does not change after a failed write.")] = False
    sessions_survive_failure: Annotated[
        bool,
        assumption(
            "Producers stay connected after a failed write: later entries are stored before the failed one is resent."
        ),
    ] = False
    later_writes_succeed: Annotated[bool, assumption("A write after a failed one may still succeed.")] = False
    failed_write_stored: Annotated[
        bool, assumption("A write is reported as failed, although its entry is in the log.")
    ] = False
    pushed_id_in_producer_success: Annotated[
        bool,
        release(
            "ProducerSuccess has the highest id pushed, though a write in flight may still fail.",
            "MessageDeduplication.java:657 (4.0.8)",
        ),
    ] = False
    snapshot_of_pushed: Annotated[bool, defect("The snapshot is of pushed instead of persisted.")] = False
    snapshot_not_cut: Annotated[bool, defect("The snapshot has more producers than the configured maximum.")] = False
    snapshot_position_ahead: Annotated[
        bool,
        release(
            "The timer's snapshot has the position of the last entry, which has not raised persisted yet, for as long"
            " as a full ledger takes to close.",
            "MessageDeduplication.java:673, OpAddEntry.java:273,279 (4.0.8)",
        ),
    ] = False
    failed_snapshot_forgets: Annotated[bool, defect("A snapshot that cannot be stored empties both maps.")] = False
    recovery_without_replay: Annotated[bool, defect("Recovery takes the snapshot alone.")] = False
    replay_skips_one: Annotated[bool, defect("The replay begins one entry too late.")] = False
    replay_counts_lowest: Annotated[bool, defect("The replay uses a batch's lowest id instead of its highest.")] = False
    inactive_forgotten: Annotated[
        bool,
        release(
            "The ids of a producer that was disconnected for a configured time (six hours by default) are removed.",
            "MessageDeduplication.java:625 (4.0.8)",
        ),
    ] = False
    chunks: ChunksVariant = CHUNKS_AS_DOCUMENTED
    """How chunks are deduplicated; its variants have names of their own."""


DOCUMENT = Variant()
"""The topic of the document."""


VARIANTS = variants_of(Variant)
"""All variants."""
