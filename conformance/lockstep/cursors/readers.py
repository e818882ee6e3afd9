"""Performs the operations of readers, each by a function that is found by the type of the operation.

A reader is a consumer of the wire client on a non-durable subscription of its own. As every client does, it keeps the
last message that it handed out, begins there when it reconnects, and drops what it handed out of that entry. It
acknowledges cumulatively what it reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial, singledispatchmethod
from typing import Final

from conformance.clients.outcomes import ConnectionLost, NoAnswer, ServerRefused
from conformance.harness_error import HarnessError
from conformance.lockstep.cursors.consumers import WireMember
from conformance.lockstep.cursors.members import GONE_TIMEOUT_S, LET_IN_TIMEOUT_S, Members, receive
from conformance.lockstep.cursors.poller import Poller
from conformance.lockstep.positions import Positions
from conformance.lockstep.world import World
from conformance.wait import wait_until
from model.cursors.log import Place
from model.events import AnyOutcome, Done, Refused, Skipped, Starved
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
from model.subscription_operations import Subscribe
from model.traffic import Delivery
from model.vocabulary import Start

_NO_READER: Final = Skipped("there is no such reader")
_NO_MESSAGE: Final = Skipped("no such message is known to be in the topic")


class ReaderMember:
    """An open reader; ``state``: its topic by its real name, and its position."""

    def __init__(self, name: str, state: Reader, queue: int) -> None:
        self.name = name
        self.state = state
        self.queue = queue
        self.member: WireMember | None = None

    def asked(self, start: Start) -> Subscribe:
        """The consumer that it subscribes."""
        return Subscribe(
            self.name,
            self.state.topic,
            f"reader-{self.name}",
            kind="Exclusive",
            start=start,
            durable=False,
            queue=self.queue,
        )

    @property
    def start_after(self) -> Position | None:
        """The entry before the one that it asks for: the last one that it read, which it may have read in part."""
        last = self.state.after.position
        return None if last == EARLIEST else Position(last.ledger, max(-1, last.entry - 1))

    def new_of(self, messages: tuple[Delivery, ...]) -> Iterator[Delivery]:
        """The messages but for those of the last entry that it handed out before; from now on these are handed out."""
        first = self.state
        for message in messages:
            place = Place(message.position, message.batch_index)
            if message.position != first.after.position or not first.has_passed(place):
                self.state = Reader(first.topic, place)
                yield message

    def cut(self) -> None:
        """Cut its connection."""
        if self.member is not None:
            self.member.crash()
            self.member = None


class Readers:
    """The readers of one example; ``topics`` maps a history's names to real ones and grows during the example."""

    def __init__(self, world: World, topics: Mapping[str, str], members: Members, positions: Positions) -> None:
        self._world = world
        self._topics = topics
        self._members = members
        self._positions = positions
        self._there: dict[str, ReaderMember] = {}

    def topic_of(self, reader: str) -> str | None:
        """The real name of a reader's topic."""
        found = self._there.get(reader)
        return None if found is None else found.state.topic

    def reloaded(self, topic: str | None = None) -> None:
        """A topic, or, with None, every topic was reloaded, which disconnects readers."""
        for reader in self._there.values():
            if topic in (None, reader.state.topic):
                reader.cut()

    def cut_all(self) -> None:
        """Cut all readers off."""
        self.reloaded()
        self._there.clear()

    def perform(self, operation: ReaderOperation) -> AnyOutcome:
        """Carry out one operation and return the outcome."""
        try:
            return self._perform(operation)
        except ServerRefused as refused:
            return Refused(refused.code, refused.message)

    @singledispatchmethod
    def _perform(self, operation: ReaderOperation) -> AnyOutcome:
        raise NotImplementedError(type(operation).__name__)

    @_perform.register
    def _(self, operation: OpenReader) -> AnyOutcome:
        topic = self._topics.get(operation.topic)
        if topic is None:
            return Skipped("there is no such topic")
        if operation.reader in self._there:
            return Skipped("a reader of this name is open")
        place = self._place(topic, operation.at, is_inclusive=operation.is_inclusive)
        if place is None:
            return _NO_MESSAGE
        reader = ReaderMember(operation.reader, Reader(topic, place), operation.queue)
        start: Start = "latest" if operation.at is None and operation.start == "latest" else "earliest"
        member = self._connected(reader, start)
        if start == "latest":
            end = member.last_message_id()
            reader.state = Reader(topic, Place(EARLIEST if end is None else end))
        self._there[operation.reader] = reader
        return _opened(reader)

    def _place(self, topic: str, name: str | None, *, is_inclusive: bool) -> Place | None:
        """Where a reader begins that starts at a message; None if it is not known to be in the topic."""
        if name is None:
            return Place(EARLIEST)
        found = self._positions.find(name, topic=topic)
        if found is None:
            return None
        if not is_inclusive:
            return Place(found.position, found.batch_index)
        if found.batch_index > 0:
            return Place(found.position, found.batch_index - 1)
        return Place(Position(found.position.ledger, found.position.entry - 1))

    def _connected(self, reader: ReaderMember, start: Start = "earliest") -> WireMember:
        """The reader's consumer; it subscribes if it has to. Raises what clients raise."""
        if reader.member is not None:
            reader.member.pump()
            if reader.member.is_open:
                return reader.member
            reader.cut()
        topic = reader.state.topic

        def subscribe() -> WireMember:
            return WireMember(
                self._world.service,
                reader.asked(start),
                topic,
                reader.name,
                self._positions,
                self._world.traits,
                start_after=reader.start_after,
            )

        def may_pass(error: HarnessError) -> bool:  # the broker notices a lost connection a little later
            return error.may_pass or (isinstance(error, ServerRefused) and error.code == "ConsumerBusy")

        what = f"subscribing reader {reader.name}"
        reader.member = self._world.answers.retry(
            subscribe, LET_IN_TIMEOUT_S, what=what, topic=topic, may_pass=may_pass
        )
        return reader.member

    @_perform.register
    def _(self, operation: ReadNext) -> AnyOutcome:
        reader = self._there.get(operation.reader)
        if reader is None:
            return _NO_READER
        messages: list[Delivery] = []
        while len(messages) < operation.count:
            member = self._connected(reader)
            poller = Poller(self._world.admin, member.topic, member.subscription, [member])
            missing = operation.count - len(messages)
            came, why = receive(member, missing, [poller], timeout_s=self._members.delivery_timeout_s())
            messages += reader.new_of(came)
            if came:
                with suppress(ConnectionLost):
                    member.acknowledge(came[-1:], cumulative=True)
            if why is not None:
                return Starved(why, tuple(messages))
            if len(came) < missing and member.is_open:
                break
        return MessagesRead(tuple(messages))

    @_perform.register
    def _(self, operation: HasMessageAvailable) -> AnyOutcome:
        reader = self._there.get(operation.reader)
        if reader is None:
            return _NO_READER
        last = self._connected(reader).last_message_id()
        after = reader.state.after
        size = 0 if last is None else self._positions.batch_size(reader.state.topic, last) or 0
        is_inside = last == after.position and 0 <= after.batch_index < size - 1
        return AvailabilityRead(last is not None and (last > after.position or is_inside), last)

    @_perform.register
    def _(self, operation: SeekReader) -> AnyOutcome:
        reader = self._there.get(operation.reader)
        if reader is None:
            return _NO_READER
        place = self._place(reader.state.topic, operation.to, is_inclusive=operation.is_inclusive)
        if place is None:
            return _NO_MESSAGE
        found = None if operation.to is None else self._positions.find(operation.to, topic=reader.state.topic)
        member = self._connected(reader)
        member.seek(EARLIEST if found is None else found.position, None)
        if not wait_until(partial(_is_closed, member), GONE_TIMEOUT_S):
            raise NoAnswer(f"a seek did not disconnect reader {operation.reader}")
        reader.cut()
        reader.state = Reader(reader.state.topic, place)
        self._connected(reader)
        return _opened(reader)

    @_perform.register
    def _(self, operation: CutReader) -> AnyOutcome:
        reader = self._there.get(operation.reader)
        if reader is None:
            return _NO_READER
        reader.cut()
        return Done()

    @_perform.register
    def _(self, operation: CloseReader) -> AnyOutcome:
        reader = self._there.pop(operation.reader, None)
        if reader is None:
            return _NO_READER
        if reader.member is not None:
            reader.member.close()
        return Done()


def _is_closed(member: WireMember) -> bool:
    member.pump()
    return not member.is_open


def _opened(reader: ReaderMember) -> ReaderOpened:
    after = reader.state.after
    return ReaderOpened(after.position, after.batch_index)
