"""Consumers on a real broker: what they receive, what they acknowledge, and how it is known that nothing more is left.

Nobody waits for silence here. A consumer waits for messages as long as the broker itself holds entries that are neither
acknowledged nor with a consumer that is there; if they do not come in good time, it is stuck.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from typing import Final

from conformance.lockstep.seats import Seat, take_seat
from conformance.systems.admin import Admin
from conformance.systems.backlog import unacknowledged
from conformance.systems.deadline import Deadline
from conformance.systems.outcomes import ConnectionLost, NoAnswer, ServerRefused
from model.applications import Consume, Delivered, Drain, Drained, Received, Stuck, SubscriptionKind
from model.log import Position
from model.operations import AnyOutcome, Refused, Skipped
from model.vocabulary import Client

DELIVERY_TIMEOUT_S: Final[dict[Client, float]] = {"wire": 10.0, "official": 40.0}
"""How long messages that must come may take; far beyond what was seen. pulsar-client may still be on its way back."""
PAUSE_S: Final = 0.005
"""How long to leave a broker alone that did not let a consumer in."""


@dataclass(slots=True)
class _Place:
    topic: str
    subscription: str
    kind: SubscriptionKind
    seat: Seat


class Consumers:
    """The consumers of one example."""

    def __init__(self, admin: Admin, service_url: str) -> None:
        self._admin = admin
        self._service_url = service_url
        self._places: dict[str, _Place] = {}

    def consume(self, operation: Consume, topic: str) -> AnyOutcome:
        """Receive, acknowledge, and stay or leave; subscribe first where it has to."""
        deadline = Deadline.after(DELIVERY_TIMEOUT_S[operation.client])
        place = self._place_of(operation, topic, deadline)
        if not isinstance(place, _Place):
            return place
        received = self._receive(place, operation.count, deadline)
        if isinstance(received, Stuck):
            return received
        chosen = [message for message, is_wanted in zip(received, cycle(operation.acks), strict=False) if is_wanted]
        acknowledged = place.seat.acknowledge(chosen)
        if operation.then != "stays":
            del self._places[operation.consumer]
            if operation.then == "closes":
                place.seat.close()
            else:
                place.seat.abort()
        return Received(tuple(received), tuple(acknowledged))

    def _place_of(self, operation: Consume, topic: str, deadline: Deadline) -> _Place | AnyOutcome:
        """The consumer's place, a new one if it has none (any more); what came instead, if it could not have one."""
        place = self._places.get(operation.consumer)
        if place is not None and not place.seat.is_open:
            del self._places[operation.consumer]
            place = None
        if place is not None:
            is_same = (place.topic, place.subscription, place.kind) == (topic, operation.subscription, operation.kind)
            return place if is_same else Skipped("the consumer is subscribed elsewhere")
        is_taken = any(True for _ in self._seats(topic, operation.subscription))
        try:
            seat = self._subscribe(operation.client, topic, operation.subscription, operation.kind, deadline, is_taken)
        except ServerRefused as refused:
            return Refused(refused.code, refused.message) if is_taken else Stuck(str(refused))
        except (ConnectionLost, NoAnswer) as error:
            return Stuck(str(error))
        place = _Place(topic, operation.subscription, operation.kind, seat)
        self._places[operation.consumer] = place
        return place

    def _subscribe(
        self,
        client: Client,
        topic: str,
        subscription: str,
        kind: SubscriptionKind,
        deadline: Deadline,
        is_taken: bool,
    ) -> Seat:
        """Subscribe, again and again until the deadline, unless others of ours are the reason that it cannot."""
        while True:
            try:
                return take_seat(client, self._service_url, topic, subscription, kind, deadline.left_s)
            except ServerRefused as refused:
                may_pass = refused.may_pass or (refused.code == "ConsumerBusy" and not is_taken)
                if deadline.passed or not may_pass:
                    raise
            except (ConnectionLost, NoAnswer):
                if deadline.passed:
                    raise
            time.sleep(PAUSE_S)

    def _seats(self, topic: str, subscription: str) -> Iterator[Seat]:
        for place in self._places.values():
            if (place.topic, place.subscription) == (topic, subscription) and place.seat.is_open:
                yield place.seat

    def _receive(self, place: _Place, count: int, deadline: Deadline) -> list[Delivered] | Stuck:
        """Up to ``count`` messages; fewer if the broker holds none that is not with one of the consumers already."""
        received: list[Delivered] = []
        while True:
            seats = list(self._seats(place.topic, place.subscription))
            for seat in seats:
                seat.pump()
            while place.seat.arrived and len(received) < count:
                received.append(place.seat.arrived.popleft())
            left = self._left(place.topic, place.subscription) - set().union(*(seat.held for seat in seats))
            if len(received) == count or not left:
                return received
            if deadline.passed:
                return Stuck(f"{len(left)} entries that nobody has are not delivered, from {min(left)} on")

    def _left(self, topic: str, subscription: str) -> frozenset[Position]:
        return unacknowledged(self._admin.internal_stats(topic), subscription)

    def drain(self, operation: Drain, topic: str) -> AnyOutcome:
        """Cut off whoever is there; then receive and acknowledge until the broker holds nothing unacknowledged."""
        for name, place in list(self._places.items()):
            if (place.topic, place.subscription) == (topic, operation.subscription):
                place.seat.abort()
                del self._places[name]
        deadline = Deadline.after(DELIVERY_TIMEOUT_S["wire"])
        try:
            seat = self._subscribe("wire", topic, operation.subscription, operation.kind, deadline, is_taken=False)
        except (ServerRefused, ConnectionLost, NoAnswer) as error:
            return Stuck(str(error))
        drained: list[Delivered] = []
        try:
            while left := self._left(topic, operation.subscription):
                seat.pump()
                arrived = list(seat.arrived)
                seat.arrived.clear()
                seat.acknowledge(arrived)
                drained += arrived
                if deadline.passed and not arrived:
                    return Stuck(f"{len(left)} entries are not delivered, from {min(left)} on")
        finally:
            seat.abort()
        return Drained(tuple(drained))

    def close(self) -> None:
        """Cut all of them off."""
        for place in self._places.values():
            place.seat.abort()
        self._places.clear()
