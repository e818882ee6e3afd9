"""Variants of the reference, each with one difference from the document.

They show what each sentence of the document is for. A variant is a value of switches, all off in ``DOCUMENT``.
:data:`VARIANTS` describes each and its origin. A *defect* is one that a broker could have. A *release* is the behavior
of a released broker. An *assumption* is one that the document makes silently about the log or its clients. A *reading*
is a sentence of the document taken literally.
"""

from __future__ import annotations

from functools import partial

from msgspec import Struct

from model.chunking.variants import DOCUMENT as CHUNKS_AS_DOCUMENTED
from model.chunking.variants import ChunksVariant
from model.variants import NamedVariant, Origin, switched_on


class Variant(Struct, frozen=True, kw_only=True, cache_hash=True, gc=False):
    """The differences from the document; none by default."""

    judged_when_off: bool = False
    no_check: bool = False
    strict_less_than: bool = False
    overlapping_batch_dropped: bool = False
    batch_without_highest_id: bool = False
    shared_maps: bool = False
    duplicate_refused: bool = False
    unknown_confirmed: bool = False
    unknown_stored: bool = False
    reset_on_unknown: bool = False
    persisted_before_write: bool = False
    pushed_after_write: bool = False
    deduplication_enabled_in_flight: bool = False
    no_reset_after_failure: bool = False
    sessions_survive_failure: bool = False
    later_writes_succeed: bool = False
    failed_write_stored: bool = False
    pushed_id_in_producer_success: bool = False
    snapshot_of_pushed: bool = False
    snapshot_not_cut: bool = False
    snapshot_position_ahead: bool = False
    failed_snapshot_forgets: bool = False
    recovery_without_replay: bool = False
    replay_skips_one: bool = False
    replay_counts_lowest: bool = False
    inactive_forgotten: bool = False
    chunks: ChunksVariant = CHUNKS_AS_DOCUMENTED
    """How chunks are deduplicated; its variants have names of their own."""


DOCUMENT = Variant()
"""The topic of the document."""


_named = partial(switched_on, Variant)


VARIANTS: tuple[NamedVariant[Variant], ...] = (
    _named("judged_when_off", Origin.DEFECT, "Entries are judged although deduplication is off."),
    _named("no_check", Origin.DEFECT, "Every entry counts as new."),
    _named(
        "strict_less_than",
        Origin.READING,
        "An id equal to the highest pushed counts as new: the prose's '<' for the code's '<='.",
    ),
    _named(
        "overlapping_batch_dropped",
        Origin.RELEASE,
        "A batch is judged by its lowest id: one that begins at or below persisted and ends above it is confirmed, and "
        "its new part is not stored. The document's own listing does it too.",
        "MessageDeduplication.java:455,468 (4.0.8)",
    ),
    _named(
        "batch_without_highest_id",
        Origin.RELEASE,
        "pulsar-client does not send the highest id of a batch, so the broker counts its lowest only.",
        "CommandSend without highest_sequence_id",
    ),
    _named("shared_maps", Origin.DEFECT, "All producers share one highest id."),
    _named("duplicate_refused", Origin.DEFECT, "A duplicate is answered with an error instead of a confirmation."),
    _named("unknown_confirmed", Origin.DEFECT, "An entry of unknown status is confirmed as a duplicate."),
    _named("unknown_stored", Origin.DEFECT, "An entry of unknown status is stored."),
    _named(
        "reset_on_unknown",
        Origin.READING,
        "Pushed falls back to persisted whenever an entry is of unknown status, as the document says, and not after a "
        "failed write, as the broker does.",
    ),
    _named("persisted_before_write", Origin.DEFECT, "Persisted rises before the write, together with pushed."),
    _named("pushed_after_write", Origin.DEFECT, "Pushed rises after the write, together with persisted."),
    _named(
        "deduplication_enabled_in_flight",
        Origin.RELEASE,
        "An entry that was in flight when deduplication was switched on raises persisted, but not pushed, which the "
        "broker compares first.",
        "MessageDeduplication.java:454,533 (4.0.8)",
    ),
    _named("no_reset_after_failure", Origin.DEFECT, "Pushed does not change after a failed write."),
    _named(
        "sessions_survive_failure",
        Origin.ASSUMPTION,
        "Producers stay connected after a failed write: later entries are stored before the failed one is resent.",
    ),
    _named(
        "later_writes_succeed",
        Origin.ASSUMPTION,
        "A write after a failed one may still succeed.",
    ),
    _named(
        "failed_write_stored",
        Origin.ASSUMPTION,
        "A write is reported as failed, although its entry is in the log.",
    ),
    _named(
        "pushed_id_in_producer_success",
        Origin.RELEASE,
        "ProducerSuccess has the highest id pushed, though a write in flight may still fail.",
        "MessageDeduplication.java:657 (4.0.8)",
    ),
    _named("snapshot_of_pushed", Origin.DEFECT, "The snapshot is of pushed instead of persisted."),
    _named("snapshot_not_cut", Origin.DEFECT, "The snapshot has more producers than the configured maximum."),
    _named(
        "snapshot_position_ahead",
        Origin.RELEASE,
        "The timer's snapshot has the position of the last entry, which has not raised persisted yet, for as long as a "
        "full ledger takes to close.",
        "MessageDeduplication.java:673, OpAddEntry.java:273,279 (4.0.8)",
    ),
    _named("failed_snapshot_forgets", Origin.DEFECT, "A snapshot that cannot be stored empties both maps."),
    _named("recovery_without_replay", Origin.DEFECT, "Recovery takes the snapshot alone."),
    _named("replay_skips_one", Origin.DEFECT, "The replay begins one entry too late."),
    _named("replay_counts_lowest", Origin.DEFECT, "The replay uses a batch's lowest id instead of its highest."),
    _named(
        "inactive_forgotten",
        Origin.RELEASE,
        "The ids of a producer that was disconnected for a configured time (six hours by default) are removed.",
        "MessageDeduplication.java:625 (4.0.8)",
    ),
)
"""All variants."""

BY_NAME: dict[str, NamedVariant[Variant]] = {named.name: named for named in VARIANTS}


def named(name: str) -> NamedVariant[Variant]:
    """The variant of this name; ValueError if there is none."""
    if name not in BY_NAME:
        raise ValueError(f"there is no variant named {name!r}; there are {', '.join(BY_NAME)}")
    return BY_NAME[name]
