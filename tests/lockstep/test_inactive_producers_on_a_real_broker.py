"""Time passes at once for deduplication on a real broker, which forgets producers that were inactive for too long."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conformance.lockstep.lockstep import Lockstep
from conformance.lockstep.real import RealPerformer
from conformance.lockstep.world import World
from model.events import Answer, Duplicate, Opened, Sent, Stored
from model.example.state import Example
from model.operations import AnyOperation, CloseProducer, CreateTopic, OpenProducer, Send, Unload
from model.producer_operations import ProducersPurged, PurgeProducers
from model.vocabulary import Entry, Message

TIMEOUT_MIN = 360


class Producers:
    """Producers of one topic; what they do is judged."""

    def __init__(self, world: World) -> None:
        self.performer = RealPerformer(world)
        self._lockstep = Lockstep(self.performer, Example())
        self._do(CreateTopic("t", "namespace-on"))

    def _do(self, operation: AnyOperation) -> object:
        return self._lockstep.do(operation)

    def open(self, name: str) -> int | None:
        opened = self._do(OpenProducer(name, "t", name))
        assert isinstance(opened, Opened)
        return opened.last_sequence_id

    def close(self, name: str) -> None:
        self._do(CloseProducer(name))

    def send(self, name: str, sequence_id: int) -> Answer:
        sent = self._do(Send(name, (Entry((Message(sequence_id, f"{name}{sequence_id}"),)),)))
        assert isinstance(sent, Sent)
        return sent.answers[0]

    def purge(self, minutes: int) -> None:
        assert self._do(PurgeProducers("t", minutes)) == ProducersPurged(TIMEOUT_MIN)

    def unload(self) -> None:
        self._do(Unload("t"))


@pytest.fixture
def producers(world: World) -> Iterator[Producers]:
    producers = Producers(world)
    yield producers
    producers.performer.close()


def test_a_producer_is_forgotten_after_the_time_of_inactivity_only(producers: Producers) -> None:
    for name in ("p", "q", "r"):
        producers.open(name)
        assert isinstance(producers.send(name, 5), Stored)
    producers.close("p")
    producers.purge(200)
    producers.close("q")
    producers.purge(200)
    assert producers.open("p") == -1
    assert isinstance(producers.send("p", 5), Stored)
    assert producers.open("q") == 5
    assert isinstance(producers.send("q", 5), Duplicate)
    assert isinstance(producers.send("r", 5), Duplicate)


def test_a_producer_that_is_not_inactive_for_long_is_known_after_an_unload(producers: Producers) -> None:
    producers.open("p")
    producers.send("p", 5)
    producers.close("p")
    producers.purge(300)
    producers.unload()
    assert producers.open("p") == 5
    assert isinstance(producers.send("p", 5), Duplicate)
