"""Where an example's messages are: by the answers to their sends, and by the log."""

from __future__ import annotations

from conformance.lockstep.positions import Positions
from model.events import Duplicate, LoggedEntry, Stored
from model.key_shared.hashes import AUTO_SPLIT_HASHES
from model.log import Position
from model.vocabulary import ChunkNumber, Entry, Message

TOPIC = "persistent://t/n/t0"


def chunk(number: int) -> Entry:
    return Entry((Message(2, f"w.{number}", chunk=ChunkNumber(number, 3, "u")),))


def test_the_log_corrects_which_chunks_of_a_message_were_stored() -> None:
    """All chunks have one sequence id. The answers say that the first and the last one were stored."""
    for stored in ([0, 1], [1, 2], [0, 2]):
        positions = Positions()
        positions.sending("s", TOPIC, "p", [chunk(number) for number in range(3)])
        positions.answered("s", (Stored(Position(1, 0)), Duplicate(), Stored(Position(1, 1))))
        log = [LoggedEntry(Position(1, at), "p", chunk(number)) for at, number in enumerate(stored)]
        positions.read_back(TOPIC, log)
        found = {number: positions.find(f"w.{number}", topic=TOPIC) for number in range(3)}
        where = {number: one.position.entry for number, one in found.items() if one is not None}
        assert where == {number: at for at, number in enumerate(stored)}


def test_the_log_of_another_topic_corrects_nothing() -> None:
    positions = Positions()
    positions.sending("s", TOPIC, "p", [chunk(0)])
    positions.answered("s", (Stored(Position(1, 0)),))
    positions.read_back("persistent://t/n/t1", [LoggedEntry(Position(1, 0), "p", chunk(1))])
    assert positions.find("w.0", topic=TOPIC) is not None
    assert positions.find("w.1", topic=TOPIC) is None


def test_the_log_shows_the_keys_of_messages_that_others_sent() -> None:
    """Of a producer at another cluster there are no answers. The message is due all the same."""
    positions, sent = Positions(), Entry((Message(1, "r1", "k"),))
    positions.read_back(TOPIC, [LoggedEntry(Position(1, 0), "p", sent)])
    assert positions.has_key(TOPIC, Position(1, 0))
    assert positions.hash_of(TOPIC, Position(1, 0), AUTO_SPLIT_HASHES) is not None
    assert positions.hash_of(TOPIC, Position(1, 1), AUTO_SPLIT_HASHES) is None
