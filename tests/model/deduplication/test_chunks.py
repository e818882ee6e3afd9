"""Chunks on a topic with deduplication: the whole message counts, and a repeated chunk is a duplicate (CHUNK-13).

In the histories, a chunk alone (``5a1@2``) is a step in which producer p sends it.
"""

from __future__ import annotations

import re

import pytest

from model.deviations import DEVIATIONS
from model.events import Opened, Sent, Stored
from model.judgement import Allowed
from model.log import Position
from model.operations import OpenProducer, Send
from model.vocabulary import ChunkNumber, Entry, Message
from tests import notation, verdicts
from tests.verdicts import Happened

WHOLE = "t on; p opens -1; 5a0@0; 5a1@1; 5a2@2"


def steps(history: str) -> list[Happened]:
    return notation.steps(re.sub(r"(?<=; )(?=\d+[a-z]\d)", "p sends ", history))


def exercised(history: str) -> list[str]:
    return [rule for rule in verdicts.exercised(*steps(history)) if rule in ("CHUNK-13", "DEDUP-02", "DEDUP-03")]


def deviates(deviation: str, history: str) -> bool:
    return verdicts.deviates(deviation, *steps(history))


def broken(history: str) -> str:
    """The rule that the last step breaks although all deviations are known."""
    found = verdicts.broken_by(*steps(history), known=DEVIATIONS)
    assert found.deviation is None
    return found.rule


def is_sound(history: str) -> bool:
    allowed = verdicts.judged(*steps(history), known=DEVIATIONS)
    return isinstance(allowed, Allowed) and not allowed.deviations


def test_a_message_counts_once_its_last_chunk_is_stored() -> None:
    assert exercised(WHOLE) == ["CHUNK-13", "CHUNK-13", "DEDUP-02"]
    assert is_sound(f"{WHOLE}; p closes; p opens 5")
    assert is_sound("t on; p opens -1; 5a0@0; 5a1@1; p closes; p opens -1; 5a2@2; p closes; p opens 5")


@pytest.mark.parametrize("again", ["5a0=dup", "5a1=dup", "5a2=dup"])
def test_every_chunk_of_a_whole_message_is_a_duplicate(again: str) -> None:
    assert exercised(f"{WHOLE}; {again}").count("CHUNK-13") == exercised(WHOLE).count("CHUNK-13") + 1


def test_a_chunk_of_an_unfinished_message_is_a_duplicate_and_the_next_one_is_not() -> None:
    assert is_sound("t on; p opens -1; 5a0@0; 5a1@1; p closes; p opens -1; 5a0=dup; 5a1=dup; 5a2@2")
    assert is_sound("t on; p opens -1; 5a0@0; 5a1@1; t unloads; p opens -1; 5a0=dup; 5a1=dup; 5a2@2")
    assert is_sound("t on; p opens -1; 5a0@0; 5a1=?; p crashes; p opens -1; 5a0=dup; 5a1@1; 5a2@2")
    assert is_sound("t on; p opens -1; 5a0@0; 5a1=?; p crashes; p opens -1; 5a0=dup; 5a1=dup; 5a2@2")


def test_an_unfinished_message_with_another_uuid_begins_again() -> None:
    assert is_sound("t on; p opens -1; 5a0@0; 5a1@1; 5b0@2; 5b1@3; 5b2@4")


def test_a_chunk_whose_predecessor_is_missing_may_only_be_refused() -> None:
    assert is_sound("t on; p opens -1; 5a0@0; 5a2=UnknownStatus")
    assert deviates("chunk-only-last-deduplicated", "t on; p opens -1; 5a0@0; 5a2@1")


def test_releases_store_all_chunks_but_the_last_one_again() -> None:
    assert deviates("chunk-only-last-deduplicated", f"{WHOLE}; 5a1@3")
    assert deviates("chunk-only-last-deduplicated", "t on; p opens -1; 5a0@0; 5a0@1")


def test_the_log_shows_which_chunks_without_an_answer_were_stored_again() -> None:
    again = f"{WHOLE}; 5a0=?; 5a1=?; 5a0=?; log p:5a0 p:5a1 p:5a2"
    assert is_sound(again)
    assert deviates("chunk-only-last-deduplicated", f"{again} p:5a0 p:5a1 p:5a0")
    assert deviates("chunk-only-last-deduplicated", f"{again} p:5a1")
    assert broken(f"{WHOLE}; 5a0=dup; log p:5a0 p:5a1 p:5a2 p:5a0") == "DEDUP-03", "it was confirmed as a duplicate"
    assert broken(f"{WHOLE}; 5a2=?; log p:5a0 p:5a1 p:5a2 p:5a2") == "DEDUP-03", "a last chunk is stored once"


@pytest.mark.parametrize(
    "history",
    [
        f"{WHOLE}; 5a2@3",
        f"{WHOLE}; t unloads; p opens 5; 5a2@3",
        f"{WHOLE}; 5b2@3",
        f"{WHOLE}; p sends 4=dup; 5a2@3",
        "t on; p opens -1; p sends 7@0; 5a2@1",
    ],
)
def test_a_last_chunk_is_stored_once_and_confirmed_only_if_it_is_stored(history: str) -> None:
    assert broken(history) == "CHUNK-13"


@pytest.mark.parametrize("answer", ["=dup", "=UnknownStatus", "=PersistenceError"])
def test_the_first_chunk_of_a_new_message_is_stored(answer: str) -> None:
    assert broken(f"{WHOLE}; 6b0{answer}") == "CHUNK-13"


def test_the_releases_that_take_each_chunk_for_a_message_store_the_first_one_only() -> None:
    first = "t on; p opens -1; 5a0@0"
    assert deviates("chunk-each-deduplicated", f"{first}; 5a1=dup")
    assert deviates("chunk-each-deduplicated", f"{first}; p closes; p opens 5")
    assert is_sound(f"{first}; p sends 6@1; p closes; p opens 6"), "what happened to 5 does not matter any more"
    assert broken(f"{first}; p sends 6@1; 6b1=dup; p closes; p opens 5") == "DEDUP-09"


def test_a_recovery_counts_a_message_whose_first_chunks_it_replays() -> None:
    history = "t on; p opens -1; 5a0@0; 5a1@1; t unloads"
    assert deviates("chunk-recovery-counts-unfinished", f"{history}; p opens 5")
    counted = verdicts.allowed_by(*steps(f"{history}; p opens 5; 5a2=dup"), known=DEVIATIONS)
    assert counted.deviations == ("chunk-recovery-counts-unfinished",), "it is reported once"
    assert broken(f"{history}; p opens -1; 5a2=dup") == "CHUNK-13"
    assert broken(f"{history}; p opens 5; 5a2@2") == "CHUNK-13"


def test_a_recovery_falls_back_to_the_message_whose_chunk_was_stored_again_last() -> None:
    history = f"{WHOLE}; p sends 6@3; 5a0@4; t unloads"
    known = {"chunk-only-last-deduplicated"}
    fallen = verdicts.broken_by(*steps(f"{history}; p opens 5"), known=known)
    assert (fallen.rule, fallen.deviation) == ("CHUNK-13", "chunk-recovery-counts-unfinished")
    allowed = verdicts.allowed_by(*steps(f"{history}; p opens 5; p sends 6@2:0; snapshot @4 p=5"), known=DEVIATIONS)
    assert set(allowed.deviations) == {*known, "chunk-recovery-counts-unfinished"}
    assert broken(f"{history}; p opens 6; p sends 6@2:0") == "DEDUP-03"


@pytest.mark.parametrize(
    ("highest", "rule"), [("4", None), ("5", "DEDUP-10"), ("3", "DEDUP-10")], ids=["whole", "unfinished", "too low"]
)
def test_a_snapshot_has_the_ids_of_whole_messages(highest: str, rule: str | None) -> None:
    history = f"t on; p opens -1; p sends 4@0; 5a0@1; 5a1@2; snapshot @2 p={highest}"
    if rule is None:
        assert is_sound(history)
    else:
        assert broken(history) == rule


def test_without_deduplication_all_chunks_are_stored() -> None:
    assert is_sound("t off; p opens -1; 5a0@0; 5a0@1; 5a2@2")
    assert broken("t off; p opens -1; 5a0@0; 5a0=dup") == "DEDUP-01"


def test_what_pulsar_client_sent_once_was_not_tried_before() -> None:
    """Otherwise each chunk doubles the possible states, and a long example takes minutes to judge."""
    topic = notation.steps("t on")
    opened = OpenProducer("w", "t", "w", client="official", is_chunking=True), Opened(-1)

    def sent(number: int) -> Happened:
        chunks = tuple(
            Entry((Message(number, f"w{number}.{n}", chunk=ChunkNumber(n, 4, f"w-{number}")),)) for n in range(4)
        )
        return Send("w", chunks), Sent(tuple(Stored(Position(number, n)) for n in range(4)))

    allowed = verdicts.allowed_by(*topic, opened, *(sent(number) for number in range(1, 4)))
    assert allowed.state.topics["t"].size == 1
