"""The explorations of document 002: what they find, to the number, and that nothing in them is idle."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from model.chunks.variants import VARIANTS
from model.explorations import chunks, chunks_shared, explorations
from model.explore import Exploration, NamedExploration
from model.variants import Origin

RULES = {f"CHUNK-{number:02}" for number in (*range(1, 10), 11, 12, 13)}
"""What the exploration can show; CHUNK-10 is a number in the topic's stats."""

FOUND = {
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
"""States and transitions: whoever changes them changes what is explored, and should know."""

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

BREAKS: dict[str, tuple[str, int]] = {
    "chunk-metadata-not-counted": (AS_SPLIT, 1),
    "chunk-two-at-once": ("there are no more buffers than producers, those counted anew that died half-way", 4),
    "chunk-acknowledged-delivered": ("a message is delivered once, and else only again", 8),
    "chunk-skipped": (CONFIRMED, 3),
    "chunk-uuid-of-each-connection": (CONFIRMED, 3),
    "chunk-each-judged": (CONFIRMED, 2),
    "chunk-last-judged": ("with deduplication no chunk is stored twice", 3),
    "chunk-recovery-counts-unfinished": (CONFIRMED, 3),
    "chunk-never-judged": (STORED_ONCE, 5),
    "chunk-repetition-destroys": (HELD_UP, 7),
    "chunk-one-buffer": (WHOLE, 6),
    "chunk-last-delivers": (WHOLE, 6),
    "chunk-waits-for-unfinished": (HELD_UP, 6),
    "chunk-limit-ignored": ("there are no more buffers than the limit allows", 4),
    "chunk-newest-discarded": ("past the limit the oldest buffer goes first", 6),
    "chunk-discarded-forgotten": (HELD_UP, 6),
    "chunk-buffers-survive": (ALL_OR_NOTHING, 15),
    "chunk-last-acknowledged": (ALL_OR_NOTHING, 5),
    "chunk-repeated-unacknowledged": (ALL_OR_NOTHING, 8),
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
"""For each variant what it breaks first of what matters most, and in how many steps."""

STUCK = {
    "chunk-repetition-destroys",
    "chunk-discarded-forgotten",
    "chunk-chunks-not-skipped",
    "chunk-marker-too-early",
    "chunk-chunks-acknowledged-first",
    "chunk-marker-acknowledged-first",
}
"""The variants in which some message may never be acknowledged whole, whatever happens."""

OF_DOCUMENT: tuple[NamedExploration[Any, Any], ...] = (
    *chunks.EXPLORED.of_document(),
    *chunks_shared.EXPLORED.of_document(),
)
DOCUMENT = {named.name: named for named in OF_DOCUMENT}
HOLDING = [name for name, named in DOCUMENT.items() if named.must_hold]


@cache
def explored(name: str) -> Exploration[Any, Any]:
    named = DOCUMENT[name] if name in DOCUMENT else explorations(name)[0]
    return named.run()


def broken(found: Exploration[Any, Any]) -> dict[str, int]:
    """What does not hold, and the length of the shortest way there."""
    return {c.broken.says: len(c.path.labels) for c in found.counterexamples}


def words(name: str, says: str) -> list[str]:
    """The shortest counterexample, in words."""
    (path,) = [c.path for c in explored(name).counterexamples if c.broken.says == says]
    return [str(label) for label in path.labels]


@pytest.mark.parametrize("name", HOLDING)
def test_every_rule_holds_in_every_state_and_a_good_ending_stays_within_reach(name: str) -> None:
    found = explored(name)
    assert broken(found) == {}
    assert found.unexercised == ()
    assert found.dead_end is None
    assert found.knows_endings
    assert found.holds


def test_the_numbers_of_states_and_transitions_are_these() -> None:
    assert {name: (explored(name).states, explored(name).transitions) for name in DOCUMENT} == FOUND


def test_every_kind_of_step_that_there_is_room_for_happens() -> None:
    assert {name: explored(name).untaken for name in DOCUMENT if explored(name).untaken} == {}


def test_every_variant_breaks_something_and_this_is_the_shortest_way() -> None:
    lengths = {name: broken(explored(name)) for name in BREAKS}
    assert {name: lengths[name].get(says) for name, (says, _) in BREAKS.items()} == {
        name: steps for name, (_, steps) in BREAKS.items()
    }
    assert set(BREAKS) == {named.name for named in VARIANTS}


def test_these_variants_leave_messages_that_can_never_be_acknowledged_whole() -> None:
    assert {name for name in BREAKS if explored(name).dead_end is not None} == STUCK


def test_every_statement_can_be_broken_and_together_they_stand_for_every_rule() -> None:
    stated = {s.says: s.rules for name in DOCUMENT for s in explored(name).statements}
    refuted = {says for name in (*BREAKS, *DOCUMENT) for says in broken(explored(name))}
    assert set(stated) - refuted == set()
    assert {rule for rules in stated.values() for rule in rules} == RULES


def test_what_releases_do_comes_with_the_place_in_their_code() -> None:
    assert all((named.origin is Origin.RELEASE) == bool(named.code) for named in VARIANTS)


def test_option_1_sends_a_chunk_to_somebody_who_has_not_what_comes_before_it() -> None:
    assert words("chunk-option-1", BEHIND) == [
        "chunk 1 of 3 of M1 is stored as entry 0",
        "chunk 2 of 3 of M1 is stored as entry 1",
        "A is sent chunk 1 of M1",
        "A is sent chunk 2 of M1",
        "A crashes",
        "B is sent chunk 2 of M1 for replay",
    ]


def test_option_1_with_a_consumer_that_forgets_what_it_cannot_use_loses_the_message() -> None:
    dead_end = explored("chunk-option-1-forgetful").dead_end
    assert dead_end is not None
    assert [str(label) for label in dead_end.labels] == words("chunk-option-1-forgetful", BEHIND)


def test_the_limit_breaks_the_order_that_ordered_consumers_are_promised() -> None:
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


def test_2_11_0_confirms_a_message_of_which_only_the_first_chunk_is_stored() -> None:
    assert words("chunk-each-judged", CONFIRMED) == [
        "A sends chunk 1 of 2 of A1: entry 0",
        "A sends chunk 2 of 2 of A1: confirmed as a duplicate",
    ]


def test_4_0_8_confirms_what_is_not_whole_once_the_topic_is_loaded_again_in_between() -> None:
    assert words("chunk-recovery-counts-unfinished", CONFIRMED) == [
        "A sends chunk 1 of 2 of A1: entry 0",
        "the topic is loaded again",
        "A sends chunk 2 of 2 of A1: confirmed as a duplicate",
    ]


def test_a_cumulative_acknowledgment_takes_the_first_chunk_of_another_message() -> None:
    found = words("chunk-cumulative", ALL_OR_NOTHING)
    assert "B sends chunk 1 of 2 of B1: entry 1" in found
    assert found[-1] == "message A1 is acknowledged, with entries 0, 1 and 2"
