"""Readers on the simulated broker: each has a position of its own in a topic's log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from model.cursors.log import Place
from model.events import AnyOutcome, Done, Skipped
from model.log import EARLIEST, Position
from model.reader_operations import (
    AvailabilityRead,
    CloseReader,
    CutReader,
    HasMessageAvailable,
    MessagesRead,
    OpenReader,
    ReaderOpened,
    ReaderOperation,
    ReadNext,
    SeekReader,
)
from model.readers import Reader
from model.traffic import Delivery
from tests.lockstep.simulated.subscription import Log
from tests.lockstep.simulated.variants import SimulatedVariant

NO_READER = Skipped("there is no such reader")
NO_MESSAGE = Skipped("no such message is known to be in the topic")


class SimulatedReaders:
    """The readers of one example."""

    def __init__(self, logs: Mapping[str, Log], variant: SimulatedVariant) -> None:
        self._logs = logs
        self._variant = variant
        self._readers: dict[str, Reader] = {}
        self._moved: dict[str, Position] = {}
        """How far an expiry moved connected readers, where the broker deviates."""
        self._cut: set[str] = set()
        """The readers without a connection."""

    def reconnect(self, topics: Iterable[str]) -> None:
        """Readers of these topics reconnect, which takes them back to their own positions."""
        for name in [name for name, reader in self._readers.items() if reader.topic in topics]:
            self._disconnect(name)

    def _disconnect(self, name: str) -> None:
        self._moved.pop(name, None)
        self._cut.add(name)

    def expired(self, topic: str, limit_ms: float) -> None:
        """Messages of a topic that were published before then expired, for its readers, too."""
        older = [at for at, ms in self._logs[topic].published_ms.items() if ms < limit_ms]
        if older:
            connected = {name for name, one in self._readers.items() if one.topic == topic} - self._cut
            self._moved.update(dict.fromkeys(connected, max(older)))

    def perform(self, operation: ReaderOperation) -> AnyOutcome:
        """Perform one operation, and return its outcome."""
        if isinstance(operation, OpenReader):
            return self._open(operation)
        reader = self._readers.get(operation.reader)
        if reader is None:
            return NO_READER
        match operation:
            case SeekReader(to=to):
                place = self._place(reader.topic, to, is_inclusive=operation.is_inclusive)
                self._moved.pop(operation.reader, None)
                return NO_MESSAGE if place is None else self._begin(operation.reader, Reader(reader.topic, place))
            case CutReader():
                self._disconnect(operation.reader)
                return Done()
            case CloseReader():
                del self._readers[operation.reader]
                return Done()
            case HasMessageAvailable():
                self._cut.discard(operation.reader)
                log = self._logs[reader.topic].of_model
                return AvailabilityRead(any(reader.following(log)), log.last if log.ledgers else None)
            case ReadNext(count=count):
                return self._read(operation.reader, reader, count)

    def _open(self, operation: OpenReader) -> AnyOutcome:
        if operation.topic not in self._logs:
            return Skipped("there is no such topic")
        if operation.reader in self._readers:
            return Skipped("a reader of this name is open")
        place = self._place(operation.topic, operation.at, is_inclusive=operation.is_inclusive)
        if place is None:
            return NO_MESSAGE
        if operation.at is None and operation.start == "latest":
            place = Place(self._logs[operation.topic].of_model.last)
        return self._begin(operation.reader, Reader(operation.topic, place))

    def _begin(self, name: str, reader: Reader) -> ReaderOpened:
        self._readers[name] = reader
        self._cut.discard(name)
        return ReaderOpened(reader.after.position, reader.after.batch_index)

    def _place(self, topic: str, name: str | None, *, is_inclusive: bool) -> Place | None:
        if name is None:
            return Place(EARLIEST)
        if (spot := self._logs[topic].find(name)) is None:
            return None
        place = self._logs[topic].place(spot)
        if not is_inclusive:
            return place
        if place.batch_index > 0:
            return Place(place.position, place.batch_index - 1)
        return Place(Position(place.position.ledger, place.position.entry - 1))

    def _read(self, name: str, reader: Reader, count: int) -> MessagesRead:
        """A reader without a queue receives whole batches."""
        self._cut.discard(name)
        log, read = self._logs[reader.topic], list[Delivery]()
        for place in reader.following(log.of_model):
            is_begun = bool(read) and place.position == read[-1].position
            if (len(read) >= count and not is_begun) or place.position <= self._moved.get(name, EARLIEST):
                continue
            ids = log.entries[place.position]
            size = len(ids) if place.batch_index >= 0 else 0
            read.append(Delivery(place.position, place.batch_index, size, ids[max(0, place.batch_index)], 0))
        if self._variant.reader_skips_one and len(read) > 1:
            del read[-2]
        if self._variant.reader_repeats_one and read:
            read.append(read[-1])
        if read:
            self._readers[name] = Reader(reader.topic, Place(read[-1].position, read[-1].batch_index))
        return MessagesRead(tuple(read))
