"""Consumers on a real broker: what they receive, what they acknowledge, and how it is known that nothing more is left.

Nobody waits for silence here. A consumer waits for messages as long as the broker itself holds entries that are neither
acknowledged nor with a consumer that is there; if they do not come in good time, it is stuck.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import cycle
from typing import Final

from conformance.clients.admin.backlog import unacknowledged
from conformance.clients.admin.client import Admin
from conformance.clients.outcomes import CLIENT_ERRORS, ServerRefused
from conformance.clients.security.service import Service
from conformance.harness_error import HarnessError
from conformance.lockstep.seats import PREFETCH, Seat, take_seat
from conformance.wait import Deadline, retry
from model.events import AnyOutcome, Consumed, Delivery, Drained, Refused, Skipped, Stuck
from model.log import Position
from model.operations import Consume, Drain
from model.vocabulary import Client, SubscriptionType

DELIVERY_TIMEOUT_S: Final[dict[Client, float]] = {"wire": 10.0, "official": 40.0}
"""How long messages that must come may take; far beyond what was seen. pulsar-client may still be on its way back."""
_DRAIN: Final = "drain"


@dataclass(slots=True)
class _Place:
    """Where a consumer is subscribed, and by which client; ``seat``: the one that it took last."""

    topic: str
    subscription: str
    kind: SubscriptionType
    client: Client
    seat: Seat | None = None

    @property
    def is_seated(self) -> bool:
        """Whether its seat was not closed."""
        return self.seat is not None and self.seat.is_open

    def take_seat(self, service: Service, deadline: Deadline) -> None:
        """Subscribe once; errors as for :func:`take_seat`."""
        self.seat = take_seat(self.client, service, self.topic, self.subscription, self.kind, deadline.left_s)

    def take(self, at_most: int) -> list[Delivery]:
        """Receive what has arrived."""
        arrived = self.seat.arrived if self.seat is not None else deque[Delivery]()
        return [arrived.popleft() for _ in range(min(at_most, len(arrived)))]

    def leave(self, *, in_good_order: bool) -> None:
        """Give the seat up."""
        if self.seat is not None:
            (self.seat.close if in_good_order else self.seat.abort)()


class Consumers:
    """The consumers of one example."""

    def __init__(self, admin: Admin, service: Service) -> None:
        self._admin = admin
        self._service = service
        self._places: dict[str, _Place] = {}

    def consume(self, operation: Consume, topic: str) -> AnyOutcome:
        """Receive, acknowledge, and stay or leave; subscribe first where it has to."""
        deadline = Deadline.after(DELIVERY_TIMEOUT_S[operation.client])
        place = self._place_of(operation, topic, deadline)
        if not isinstance(place, _Place):
            return place
        received = self._receive(place, operation.count, deadline)
        if isinstance(received, Refused | Stuck):
            return received
        chosen = [message for message, is_wanted in zip(received, cycle(operation.acks), strict=False) if is_wanted]
        acknowledged = place.seat.acknowledge(chosen) if place.seat is not None else []
        if operation.then != "stays":
            self._places.pop(operation.consumer).leave(in_good_order=operation.then == "closes")
        return Consumed(tuple(received), tuple(acknowledged))

    def _place_of(self, operation: Consume, topic: str, deadline: Deadline) -> _Place | AnyOutcome:
        """The consumer's place, a new one if it has none; what came instead, if it could not have one."""
        place = self._places.get(operation.consumer)
        if place is not None:
            is_same = (place.topic, place.subscription, place.kind) == (topic, operation.subscription, operation.kind)
            return place if is_same else Skipped("the consumer is subscribed elsewhere")
        place = _Place(topic, operation.subscription, operation.kind, operation.client)
        failed = self._sit_down(place, deadline)
        if failed is None:
            self._places[operation.consumer] = place
        return failed or place

    def _sit_down(self, place: _Place, deadline: Deadline) -> Refused | Stuck | None:
        """Subscribe, again and again until the deadline, unless others of ours are why it cannot; what came instead."""
        is_taken = bool(self._seats(place.topic, place.subscription))

        def may_pass(error: HarnessError) -> bool:
            if isinstance(error, ServerRefused):
                return error.may_pass or (error.code == "ConsumerBusy" and not is_taken)
            return isinstance(error, CLIENT_ERRORS)

        try:
            retry(lambda: place.take_seat(self._service, deadline), deadline, may_pass=may_pass)
        except ServerRefused as refused:
            if is_taken and refused.code == "ConsumerBusy":
                return Refused(refused.code, refused.message)
            return Stuck(f"it is not let in: {refused}")
        except CLIENT_ERRORS as error:
            return Stuck(f"it is not let in: {error}")
        return None

    def _seats(self, topic: str, subscription: str) -> list[Seat]:
        """The seats of a subscription that nobody closed."""
        here = (place for place in self._places.values() if (place.topic, place.subscription) == (topic, subscription))
        return [place.seat for place in here if place.seat is not None and place.seat.is_open]

    def _receive(self, place: _Place, count: int, deadline: Deadline) -> list[Delivery] | Refused | Stuck:
        """Up to ``count`` messages; fewer if the broker holds none that is not with one of the consumers already."""
        received: list[Delivery] = []
        while True:
            if not place.is_seated and (failed := self._sit_down(place, deadline)) is not None:
                return failed
            seats = self._seats(place.topic, place.subscription)
            for seat in seats:
                seat.pump()
            received += place.take(count - len(received))
            left = self._left(place.topic, place.subscription) - set().union(*(seat.held for seat in seats))
            if len(received) == count or not left:
                return received
            if deadline.passed:
                return Stuck(f"{len(left)} entries that nobody has are not delivered, from {min(left)} on")

    def _left(self, topic: str, subscription: str) -> frozenset[Position]:
        return unacknowledged(self._admin.internal_stats(topic), subscription)

    def drain(self, operation: Drain, topic: str) -> AnyOutcome:
        """Cut off whoever is there; then receive and acknowledge until the broker holds nothing unacknowledged."""
        self._cut_off(topic, operation.subscription)
        everything = Consume(_DRAIN, topic, operation.subscription, count=PREFETCH, kind=operation.kind)
        deadline = Deadline.after(DELIVERY_TIMEOUT_S["wire"])
        drained: list[Delivery] = []
        while True:
            received = self.consume(everything, topic)
            if not isinstance(received, Consumed):
                return received
            drained += received.messages
            left = self._left(topic, operation.subscription)
            if not left:
                break
            if deadline.passed:
                return Stuck(f"{len(left)} entries, from {min(left)} on, are acknowledged and yet not gone")
        self._cut_off(topic, operation.subscription)
        return Drained(tuple(drained))

    def _cut_off(self, topic: str, subscription: str) -> None:
        for name, place in list(self._places.items()):
            if (place.topic, place.subscription) == (topic, subscription):
                self._places.pop(name).leave(in_good_order=False)

    def close(self) -> None:
        """Cut all of them off."""
        for place in self._places.values():
            place.leave(in_good_order=False)
        self._places.clear()
