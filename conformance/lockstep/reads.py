"""Performs the requests that only read, each by a function that is found by the type of the operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import singledispatch
from http import HTTPStatus
from typing import Final, TypeVar

from conformance.clients.admin.client import Admin, AdminError
from conformance.clients.outcomes import ServerRefused
from conformance.clients.security.service import Service
from conformance.clients.wire.client import WireClient
from conformance.harness_error import HarnessError
from conformance.lockstep.cursors.admin import WORK_TIMEOUT_S, CursorAdmin, analyzed
from conformance.lockstep.cursors.targets import Published, first_published
from conformance.lockstep.positions import Positions
from conformance.wait import retry
from model.events import AnyOutcome, Refused, Skipped
from model.log import EARLIEST, Position
from model.read_operations import (
    AnalyzeBacklog,
    Answered,
    EntryRead,
    ExamineMessage,
    FindByTime,
    Inquire,
    InternalsRead,
    MessageIdRead,
    ReadInternals,
    ReadMessage,
    ReadRequest,
)

T = TypeVar("T")

LATER_MS: Final = 2**42
"""A time after all publish times."""
_NO_MESSAGE: Final = Skipped("no such message is known to be in the topic")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Who reads, and of which topic, by its real name."""

    admin: Admin
    service: Service
    topic: str
    positions: Positions


class Reads:
    """Reads of one example's topics; ``topics`` maps a history's names to real ones and grows during the example."""

    def __init__(
        self, admin: Admin, service: Callable[[], Service], topics: Mapping[str, str], positions: Positions
    ) -> None:
        self._admin = admin
        self._service = service
        self._topics = topics
        self._positions = positions

    def perform(self, operation: ReadRequest) -> AnyOutcome:
        """Carry out one read and return the outcome."""
        topic = self._topics.get(operation.topic)
        if topic is None:
            return Skipped("there is no such topic")
        reader = Reader(admin=self._admin, service=self._service(), topic=topic, positions=self._positions)
        try:
            return retry(lambda: _read(operation, reader), WORK_TIMEOUT_S, may_pass=_is_loading)
        except AdminError as error:
            return Refused(str(error.status), error.sentence)
        except ServerRefused as error:
            return Refused(error.code, error.message)


def _is_loading(error: HarnessError) -> bool:
    """Whether the topic is being loaded. Repeating another failure would only hide it."""
    return error.may_pass and not (isinstance(error, AdminError) and error.status == HTTPStatus.INTERNAL_SERVER_ERROR)


@singledispatch
def _read(operation: ReadRequest, reader: Reader) -> AnyOutcome:
    raise NotImplementedError(type(operation).__name__)


@_read.register
def _(operation: AnalyzeBacklog, reader: Reader) -> AnyOutcome:
    return analyzed(reader.admin, reader.topic, operation.subscription)


@_read.register
def _(operation: ReadMessage, reader: Reader) -> AnyOutcome:
    if operation.message is None:
        last = reader.admin.internal_stats(reader.topic).last_position
        return EntryRead(reader.admin.read_entry(reader.topic, Position(last.ledger, last.entry + 1)).position)
    found = reader.positions.find(operation.message, topic=reader.topic)
    return _NO_MESSAGE if found is None else EntryRead(reader.admin.read_entry(reader.topic, found.position).position)


@_read.register
def _(operation: ExamineMessage, reader: Reader) -> AnyOutcome:
    return EntryRead(reader.admin.examine(reader.topic, operation.nth, from_end=operation.from_end).position)


@_read.register
def _(operation: FindByTime, reader: Reader) -> AnyOutcome:
    if operation.message is None:
        return MessageIdRead(reader.admin.find_by_time(reader.topic, LATER_MS), None)
    named = reader.positions.find(operation.message, topic=reader.topic)
    if named is None:
        return _NO_MESSAGE
    first = first_published(CursorAdmin(reader.admin), reader.positions, reader.topic, named.position)
    if not isinstance(first, Published):
        return first
    return MessageIdRead(reader.admin.find_by_time(reader.topic, first.time_ms), first.position)


@_read.register
def _(operation: ReadInternals, reader: Reader) -> AnyOutcome:  # noqa: ARG001 - it has no more to say
    found = reader.admin.internal_stats(reader.topic, with_metadata=True)
    return InternalsRead(found.number_of_entries, found.last_position, tuple(sorted(found.cursors)))


@_read.register
def _(operation: Inquire, reader: Reader) -> AnyOutcome:
    admin, topic = reader.admin, reader.topic
    match operation.about:
        case "look-up by wire" | "partitions by wire":
            client = WireClient.connect(reader.service, timeout_s=WORK_TIMEOUT_S)
            try:
                asked = client.lookup if operation.about == "look-up by wire" else client.partitions
                asked(topic, timeout_s=WORK_TIMEOUT_S)
            finally:
                client.close()
            return Answered()
        case "subscriptions":
            return Answered(names=tuple(sorted(admin.subscriptions(topic))))
        case "last message id":
            last = admin.last_message_id(topic)
            return Answered(position=last if last.entry >= 0 else EARLIEST)
        case about:
            admin.inquire(topic, about)
            return Answered()
