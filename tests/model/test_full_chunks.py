"""Chunks of pulsar-client that leave no room for what a replicator adds, at the home of their topic."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from model.cluster_events import LinkCut, LinkHealed, ReplicatorStalled
from model.cluster_operations import AWAY, HOME, CutLink, HealLink
from model.deviations.replication import REPLICATOR_STUCK_ON_TOO_LARGE_MESSAGE, TOO_LARGE_TO_REPLICATE
from model.events import Created, Done, LoggedEntry, LogRead, Opened, Sent, Stored
from model.log import Position
from model.operations import OpenProducer, ReadLog, Send, Unload
from model.payloads import LIMIT_BYTES
from model.vocabulary import ChunkNumber, Entry, Message
from tests.notation import steps
from tests.verdicts import Happened, broken_by

CHUNKS = tuple(Entry((Message(1, f"w.{n}", chunk=ChunkNumber(n, 3, "w-1")),)) for n in range(3))


def _splits(limit_bytes: int) -> tuple[Happened, ...]:
    """At home, pulsar-client splits a message, of a topic with this maximum size of an entry."""
    create, created, *_ = steps("t off at-home")[0]
    assert isinstance(created, Created)
    return (
        (create, replace(created, limit_bytes=limit_bytes)),
        (OpenProducer("w", "t", "w", client="official", is_chunking=True), Opened(-1)),
        (Send("w", CHUNKS), Sent(tuple(Stored(Position(1, n)) for n in range(3)))),
    )


CUT: Happened = (CutLink(HOME, AWAY), LinkCut(0))
STUCK = ReadLog("t", cluster=AWAY), ReplicatorStalled(HOME, AWAY, 30.0, ("w.0", "w.1", "w.2"))


@pytest.mark.parametrize(
    ("between", "stalled", "is_known"),
    [
        ([CUT], STUCK, True),
        ([CUT, (HealLink(HOME, AWAY), LinkHealed(0))], STUCK, True),
        ([CUT, (Unload("t"), Done())], STUCK, True),
        ([], STUCK, False),
        ([CUT, (HealLink(HOME, AWAY), LinkHealed(0)), (Unload("t"), Done())], STUCK, False),
        ([(CutLink(AWAY, HOME), LinkCut(0))], STUCK, False),
        ([CUT], (STUCK[0], ReplicatorStalled(HOME, AWAY, 30.0, ("w.2",))), False),
        ([CUT], (STUCK[0], ReplicatorStalled(AWAY, HOME, 30.0, ("w.0",))), False),
    ],
    ids=["cut", "healed", "reloaded while cut", "not cut", "reloaded", "the other link", "last chunk", "to home"],
)
def test_a_replicator_is_stuck_by_a_deviation_on_a_full_chunk_and_after_a_cut_only(
    between: list[Happened], stalled: Happened, *, is_known: bool
) -> None:
    broken = broken_by(*_splits(LIMIT_BYTES), *between, stalled)
    assert (broken.rule, broken.deviation) == ("REPL-01", REPLICATOR_STUCK_ON_TOO_LARGE_MESSAGE if is_known else None)


@pytest.mark.parametrize(("limit_bytes", "is_lost"), [(LIMIT_BYTES, True), (5 * LIMIT_BYTES, False)])
def test_chunks_that_leave_no_room_for_what_a_replicator_adds_are_lost_by_a_deviation(
    limit_bytes: int, is_lost: bool
) -> None:
    history = _splits(limit_bytes)

    def there(*numbers: int) -> Happened:
        entries = (LoggedEntry(Position(9, place), "w", CHUNKS[number]) for place, number in enumerate(numbers))
        return ReadLog("t", cluster=AWAY), LogRead(tuple(entries))

    for numbers in [(2,), (1, 2)]:
        broken = broken_by(*history, there(*numbers))
        assert (broken.rule, broken.deviation) == ("REPL-01", TOO_LARGE_TO_REPLICATE if is_lost else None)
    for others in ((0, 1), (2, 1), tuple[int, ...]()):
        assert broken_by(*history, there(*others), known=TOO_LARGE_TO_REPLICATE).deviation is None
