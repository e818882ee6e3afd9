"""The explorations of document 002: their exact results, and that each variant is detected."""

from __future__ import annotations

from model.chunking.variants import VARIANTS
from model.explorations import chunking
from model.explorations.chunking import shared as chunking_shared
from tests.model.explored import ExplorationContract, dead_end, words

WHOLE = "what is delivered has all chunks of one message, each once, in their order"
ALL_OR_NOTHING = "of a message that is whole all chunks are acknowledged or none, but of those that may be lost"
AS_SPLIT = (
    "an entry is within the limit; a message that fits is one, and one that does not is several, each with the uuid, "
    "its number and their count"
)
CONFIRMED = "what is confirmed is whole in the log"
STORED_ONCE = "with deduplication no message is whole twice in the log"
IN_ORDER = "a message is delivered when all that its producer stored before it, whole, are"
HELD_UP = "when all is read, every message that is whole is delivered, unless it was set aside to come again"
BEHIND = "a chunk is sent to a consumer that was sent all before it of the same message"


class TestChunking(ExplorationContract):
    """Document 002."""

    document = (*chunking.EXPLORED.of_document(), *chunking_shared.EXPLORED.of_document())
    variants = VARIANTS
    rules = {f"CHUNK-{number:02}" for number in (*range(1, 10), 11, 12, 13)}
    """What the exploration can show; CHUNK-10 is a number in the topic's stats."""
    found = {
        "chunk-interleaved": (3420, 6112),
        "chunk-given-back": (1213, 2272),
        "chunk-limit": (943, 1886),
        "chunk-limit-acknowledged": (5311, 10449),
        "chunk-expiry": (4577, 12088),
        "chunk-seek": (637, 1242),
        "chunk-sent-again": (11070, 30866),
        "chunk-new-uuids": (1710, 5015),
        "chunk-source-lost": (4878, 13195),
        "chunk-deduplication": (4418, 20015),
        "chunk-limit-order": (943, 1886),
        "chunk-option-1-calm": (535, 1012),
        "chunk-option-1-sorted": (4038, 11411),
        "chunk-option-2": (22653, 47472),
        "chunk-option-2-crashes": (3290, 8758),
        "chunk-option-1": (85, 173),
        "chunk-option-1-forgetful": (85, 147),
    }
    breaks = {
        "chunk-metadata-not-counted": (AS_SPLIT, 1),
        "chunk-two-at-once": ("there are no more buffers than producers, those counted anew that died half-way", 4),
        "chunk-acknowledged-delivered": ("a message is delivered once, and else only again", 8),
        "chunk-skipped": (CONFIRMED, 3),
        "chunk-uuid-of-each-connection": (CONFIRMED, 3),
        "chunk-each-deduplicated": (CONFIRMED, 2),
        "chunk-only-last-deduplicated": ("with deduplication no chunk is stored twice", 3),
        "chunk-recovery-counts-unfinished": (CONFIRMED, 3),
        "chunk-never-judged": (STORED_ONCE, 5),
        "chunk-repeated-discards-buffer": (HELD_UP, 7),
        "chunk-one-buffer": (WHOLE, 6),
        "chunk-last-delivers": (WHOLE, 6),
        "chunk-waits-for-unfinished": (HELD_UP, 6),
        "chunk-limit-ignored": ("there are no more buffers than the limit allows", 4),
        "chunk-newest-discarded": ("past the limit the oldest buffer goes first", 6),
        "chunk-discarded-not-redelivered": (HELD_UP, 6),
        "chunk-buffers-survive-resubscribe": (ALL_OR_NOTHING, 15),
        "chunk-last-acknowledged": (ALL_OR_NOTHING, 5),
        "chunk-duplicates-not-acked": (ALL_OR_NOTHING, 8),
        "chunk-cumulative": (ALL_OR_NOTHING, 8),
        "chunk-mapping-not-kept": (BEHIND, 4),
        "chunk-chunks-not-skipped": ("a chunk is sent with its marker only", 2),
        "chunk-marker-too-early": ("with its marker a message is whole at the consumer", 6),
        "chunk-chunks-acknowledged-first": ("with its marker a message is whole at the consumer", 13),
        "chunk-marker-acknowledged-first": (
            "the chunks of a message and its marker are acknowledged together",
            10,
        ),
    }
    stuck = {
        "chunk-repeated-discards-buffer",
        "chunk-discarded-not-redelivered",
        "chunk-chunks-not-skipped",
        "chunk-marker-too-early",
        "chunk-chunks-acknowledged-first",
        "chunk-marker-acknowledged-first",
    }
    """The variants in which a message may never be acknowledged as a whole."""


def test_option_1_dispatches_a_chunk_to_a_consumer_without_the_earlier_ones() -> None:
    assert words("chunk-option-1", BEHIND) == [
        "chunk 1 of 3 of M1 is stored as entry 0",
        "chunk 2 of 3 of M1 is stored as entry 1",
        "A is sent chunk 1 of M1",
        "A is sent chunk 2 of M1",
        "A crashes",
        "B is sent chunk 2 of M1 for replay",
    ]


def test_option_1_loses_the_message_if_a_consumer_forgets_unusable_chunks() -> None:
    assert dead_end("chunk-option-1-forgetful") == words("chunk-option-1-forgetful", BEHIND)


def test_the_pending_limit_breaks_the_order_of_ordered_consumers() -> None:
    assert words("chunk-limit-order", IN_ORDER) == [
        "A sends chunk 1 of 2 of A1: entry 0",
        "B sends chunk 1 of 2 of B1: entry 1",
        "A sends chunk 2 of 2 of A1: entry 2",
        "A sends A2: entry 3",
        "the consumer gets entry 0, chunk 1 of 2 of A1: a buffer is opened",
        "the consumer gets entry 1, chunk 1 of 2 of B1: a buffer is opened, and A1 is discarded",
        "the consumer gets entry 2, chunk 2 of 2 of A1: the entry is set aside, to come again",
        "the consumer gets entry 3, A2: the message is whole, and delivered",
    ]


def test_release_2_11_0_confirms_a_message_of_which_only_the_first_chunk_is_stored() -> None:
    assert words("chunk-each-deduplicated", CONFIRMED) == [
        "A sends chunk 1 of 2 of A1: entry 0",
        "A sends chunk 2 of 2 of A1: confirmed as a duplicate",
    ]


def test_release_4_0_8_confirms_an_incomplete_message_after_a_reload() -> None:
    assert words("chunk-recovery-counts-unfinished", CONFIRMED) == [
        "A sends chunk 1 of 2 of A1: entry 0",
        "the topic is loaded again",
        "A sends chunk 2 of 2 of A1: confirmed as a duplicate",
    ]


def test_a_cumulative_ack_acknowledges_the_first_chunk_of_another_message() -> None:
    found = words("chunk-cumulative", ALL_OR_NOTHING)
    assert "B sends chunk 1 of 2 of B1: entry 1" in found
    assert found[-1] == "message A1 is acknowledged, with entries 0, 1 and 2"
