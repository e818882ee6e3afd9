"""The explorations of document 003: their exact results, and that each variant is detected."""

from __future__ import annotations

from model.cursors.variants import VARIANTS, CursorVariant
from model.explorations import cursors
from tests.model.explored import ExplorationContract, dead_end, words

INDIVIDUAL = "an ack acknowledges its message and no other"
UP_TO = "a cumulative ack acknowledges everything up to its position and nothing else"
CONTIGUOUS = "mark-delete is the last position up to which all is acknowledged, and the ranges are the rest of it"
BACKLOG = "the backlog is the number of entries that are not wholly acknowledged"
SKIPPED = "skipping acknowledges the next entries that are left, so many and no more"
FLUSHED = "at the end of the flush interval a dirty state is persisted"
WAS_PERSISTED = "after a kill the state is the one persisted last, or one that was being persisted"
NOTHING_LOST = "an unload loses no ack and adds none"
STORED = "an unload writes few ranges to the metadata store, and many to the cursor's ledger"
ONLY_NACKED = "a nacked message is redelivered, and no other with it"
BACKED_OFF = "with each redelivery of a message the delay doubles"
REACHES = "a message that is sent reaches the application"


class TestCursors(ExplorationContract):
    """Document 003."""

    document = cursors.EXPLORED.of_document()
    variants = VARIANTS
    rules = {f"ACK-{number:02}" for number in range(1, 15)}
    found = {
        "ack-orders": (64, 768),
        "ack-batches": (4084, 51024),
        "ack-subscriptions": (68, 820),
        "ack-published": (2270, 10665),
        "ack-persisted": (653, 3802),
        "ack-unloaded": (1254, 6935),
        "ack-administered": (4863, 59019),
        "ack-shared": (5358, 31943),
        "ack-failover": (597, 2188),
        "ack-held-back": (1243, 4342),
        "ack-nacked": (1045, 2170),
    }
    breaks = {
        "ack-hole-jumped": (INDIVIDUAL, 1),
        "ack-lost-at-boundary": (INDIVIDUAL, 1),
        "ack-bit-off-by-one": (INDIVIDUAL, 1),
        "ack-repeated-ack-takes-back": (INDIVIDUAL, 2),
        "ack-cumulative-one-too-many": (UP_TO, 1),
        "ack-cumulative-one-too-few": (UP_TO, 1),
        "ack-acks-another-subscription": ("an ack leaves the other subscriptions as they are", 1),
        "ack-part-takes-whole-batch": (INDIVIDUAL, 1),
        "ack-part-ignored": (INDIVIDUAL, 1),
        "ack-batch-index-acks-overwritten": (UP_TO, 2),
        "ack-mark-delete-stays": (CONTIGUOUS, 2),
        "ack-backlog-of-messages": (BACKLOG, 0),
        "ack-reset-miscounts-backlog": (BACKLOG, 2),
        "ack-set-one-late": ("a reset makes its position the next one, and that is persisted", 1),
        "ack-skips-one-too-many": (SKIPPED, 1),
        "ack-skip-all-leaves-one": (SKIPPED, 1),
        "ack-expires-one-too-many": ("expiry acknowledges everything up to its position", 1),
        "ack-terminated-last-ledger-not-skipped": (SKIPPED, 3),
        "ack-never-flushed": (FLUSHED, 3),
        "ack-flush-rate-limited": (FLUSHED, 3),
        "ack-unlimited": ("in one interval one ack at most is persisted", 2),
        "ack-limited-tenfold": ("an ack that changes the state is persisted, unless one was in the same interval", 3),
        "ack-kill-loses-all": (WAS_PERSISTED, 2),
        "ack-kill-acknowledges": (WAS_PERSISTED, 1),
        "ack-unload-loses-ranges": (NOTHING_LOST, 2),
        "ack-unload-goes-one-further": (NOTHING_LOST, 1),
        "ack-unload-bypasses-store": (STORED, 2),
        "ack-range-start-included": ("converted to position info and back, a state is the same", 1),
        "ack-range-limit-ignored-on-unload": (STORED, 4),
        "ack-batch-index-acks-not-recovered": (NOTHING_LOST, 2),
        "ack-unload-while-cursor-ledger-opens": (NOTHING_LOST, 2),
        "ack-delivered-to-two": ("a message is pending at one consumer at most", 2),
        "ack-left-forgotten": ("while a message is neither acknowledged nor pending, there is one to send", 3),
        "ack-nack-redelivers-all": (ONLY_NACKED, 6),
        "ack-nack-ignored": (ONLY_NACKED, 5),
        "ack-nack-uncounted": ("a message says how often it was redelivered", 6),
        "ack-acknowledged-delivered": ("no message is sent of an entry that is acknowledged", 5),
        "ack-nack-backoff-missing": (BACKED_OFF, 10),
        "ack-back-off-too-short": (BACKED_OFF, 4),
        "ack-close-loses-acks": ("a client that closes sends the acks that it holds back", 3),
        "ack-crash-acknowledges": ("the acks that a client holds back are lost when it crashes", 2),
        "ack-lost-ack-filters-redelivery": (REACHES, 4),
        "ack-trims-unacknowledged": (
            "a ledger is deleted once it is closed and every subscription acknowledged it",
            1,
        ),
        "ack-entries-go-on": ("an entry is after all others, and entries of a ledger are numbered from 0", 1),
        "ack-ledger-reopened": ("a broker that loads the topic writes to a new ledger", 1),
    }
    stuck = {"ack-part-ignored", "ack-never-flushed", "ack-limited-tenfold"}
    """The variants in which a message is never acknowledged, or an ack never persisted."""


def test_every_switch_is_a_variant_that_is_explored() -> None:
    switched = {switch for named in VARIANTS for switch, is_on in _switches(named.variant) if is_on}
    assert switched == set(CursorVariant.__struct_fields__)


def _switches(variant: CursorVariant) -> list[tuple[str, bool]]:
    return [(switch, getattr(variant, switch)) for switch in CursorVariant.__struct_fields__]


def test_an_unload_before_the_cursor_ledger_is_open_loses_the_first_ack() -> None:
    assert words("ack-unload-while-cursor-ledger-opens", NOTHING_LOST) == [
        "an ack of 0:0",
        "the topic is unloaded, its state goes to the metadata store",
    ]


def test_a_flush_that_shares_the_rate_limiter_leaves_an_ack_in_memory() -> None:
    assert words("ack-flush-rate-limited", FLUSHED) == ["an ack of 0:0", "an ack of 0:1", "the flush interval ends"]


def test_too_many_ranges_for_the_metadata_store_are_stored_there_by_the_second_unload() -> None:
    assert words("ack-range-limit-ignored-on-unload", STORED) == [
        "an ack of 0:1",
        "an ack of 1:0",
        "the topic is unloaded, its state goes to the cursor's ledger",
        "the topic is unloaded, its state goes to the metadata store",
    ]


def test_a_client_that_lost_an_ack_filters_the_redelivered_message() -> None:
    assert words("ack-lost-ack-filters-redelivery", REACHES) == [
        "A is sent 0:0",
        "A acks 0:0, and its client holds that back",
        "the topic is unloaded, its state goes to the metadata store",
        "A is sent 0:0",
    ]


def test_a_constant_redelivery_delay_is_too_short_the_second_time() -> None:
    assert words("ack-nack-backoff-missing", BACKED_OFF)[-1] == "A asks for 0:0 again, after 2"


def test_without_a_flush_the_last_ack_may_never_be_persisted() -> None:
    assert dead_end("ack-never-flushed")[-1].startswith("an ack of")
