"""Performs requests of administrators for a namespace or a bundle, and two requests at once, on a real broker.

The namespace is of the topic alone. A request for it asks nothing else of the topic, which nobody may have loaded. Each
of two requests at once is sent a single time, over a connection of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Final, assert_never

from conformance.clients.admin.client import Admin
from conformance.clients.admin.http import namespace_of
from conformance.lockstep.cursors.admin import CursorAdmin, surely
from conformance.lockstep.cursors.key_shared import KeyShares
from conformance.lockstep.cursors.members import Members
from conformance.lockstep.cursors.persistence import PersistedStates
from conformance.lockstep.cursors.targets import NO_MESSAGE, Target, following, target_of
from conformance.lockstep.positions import Positions
from conformance.lockstep.world import World
from model.administrator_operations import AtOnce, ClearBacklog, Concurrent
from model.events import AnyOutcome, BothAnswered, CursorReset, Done, Refused, RequestAnswer, Skipped
from model.log import Position
from model.read_operations import AnalyzeBacklog
from model.subscription_operations import (
    CreateSubscription,
    DeleteSubscription,
    PeekMessage,
    ResetCursor,
    Skip,
    SkipAll,
)
from model.vocabulary import RequestScope

SHARED_NAMESPACE: Final = Skipped("the topic shares its namespace")
ANSWER_TIMEOUT_S: Final = 10.0
"""How long each of two requests at once may take."""
ForNamespace = ClearBacklog | SkipAll | DeleteSubscription
Request = Callable[[CursorAdmin], RequestAnswer]


def place_of(admin: Admin, topic: str, scope: RequestScope) -> str:
    """Where a request for a topic's namespace, or for its bundle, goes."""
    namespace = namespace_of(topic)
    return namespace if scope == "namespace" else f"{namespace}/{admin.bundle(topic)}"


def unload_widely(admin: Admin, topic: str, scope: RequestScope) -> None:
    """Unload a topic, or its namespace, or its bundle."""
    if scope == "topic":
        admin.unload(topic)
    else:
        admin.unload_whole(place_of(admin, topic, scope))


class Administrators:
    """The administrators of one example."""

    def __init__(
        self, world: World, members: Members, persisted: PersistedStates, keys: KeyShares, positions: Positions
    ) -> None:
        self._world = world
        self._members = members
        self._persisted = persisted
        self._keys = keys
        self._positions = positions
        self._admin = CursorAdmin(world.admin)

    def perform(self, operation: ForNamespace | AtOnce, topic: str) -> AnyOutcome:
        """Carry out one operation and return the outcome."""
        if isinstance(operation, AtOnce):
            return self._at_once(operation, topic)
        if not self._world.namespaces.is_of_one_topic(namespace_of(topic)):
            return SHARED_NAMESPACE
        admin = self._world.admin
        match operation:
            case ClearBacklog(scope=scope):
                self._persisted.all_changing(topic)
                cleared = _done(lambda: admin.clear_backlog(place_of(admin, topic, scope)))
                for subscription in self._members.subscriptions(topic):
                    self._keys.administered(topic, subscription)
                    self._uncounted(topic, subscription, cleared)
                return cleared
            case SkipAll(subscription=subscription, scope=scope):
                self._persisted.changing(topic, subscription)
                self._keys.administered(topic, subscription)
                cleared = _done(lambda: admin.clear_backlog(place_of(admin, topic, scope), subscription))
                self._uncounted(topic, subscription, cleared)
                return cleared
            case DeleteSubscription(subscription=subscription, scope=scope):
                removed = _done(lambda: admin.unsubscribe(place_of(admin, topic, scope), subscription))
                self._deleted(topic, operation, removed)
                return removed
            case _:
                assert_never(operation)

    def _uncounted(self, topic: str, subscription: str, outcome: AnyOutcome) -> None:
        if isinstance(outcome, Done):
            self._members.poller(topic, subscription).await_uncounted()

    def _deleted(self, topic: str, request: ForNamespace | Concurrent, answer: AnyOutcome) -> None:
        if isinstance(request, DeleteSubscription) and isinstance(answer, Done):
            self._persisted.deleted(self._members.parts(topic), request.subscription)

    # ------------------------------------------------------------------------------------------ two requests at once

    def _at_once(self, operation: AtOnce, topic: str) -> AnyOutcome:
        subscription = operation.subscription
        targets = [self._target(one, topic) for one in (operation.first, operation.second)]
        for target in targets:
            if isinstance(target, Refused | Skipped):
                return target
        self._persisted.changing(topic, subscription)
        self._keys.administered(topic, subscription)
        self._world.admin.internal_stats(topic)  # it is loaded
        both = [
            _request(one, topic, target)
            for one, target in zip((operation.first, operation.second), targets, strict=True)
            if isinstance(target, Target | None)
        ]
        first, second = self._together(both)
        self._deleted(topic, operation.first, first)
        self._deleted(topic, operation.second, second)
        if any(_disconnects(one, answer) for one, answer in ((operation.first, first), (operation.second, second))):
            for member in self._members.lost(topic, subscription):
                self._members.await_gone(member)
        else:
            self._uncounted(topic, subscription, first)
            self._uncounted(topic, subscription, second)
        return BothAnswered(first, second)

    def _together(self, both: list[Request]) -> tuple[RequestAnswer, RequestAnswer]:
        start = Barrier(len(both))

        def ask(request: Request) -> RequestAnswer:
            with Admin(self._world.broker.addresses.admin, timeout_s=ANSWER_TIMEOUT_S) as own:
                own.clusters()  # it is connected
                start.wait()
                return request(CursorAdmin(own, is_repeated=False))

        with ThreadPoolExecutor(len(both)) as administrators:
            first, second = administrators.map(ask, both)
        return first, second

    def _target(self, request: Concurrent, topic: str) -> Target | Refused | Skipped | None:
        """Where a request places the cursor."""
        match request:
            case ResetCursor(to=to, by_time=by_time, later_ms=later_ms):
                name = None if to is None else str(to)
                return target_of(self._admin, self._positions, topic, name, later_ms if by_time else None)
            case CreateSubscription(at=str(message)):
                found = self._positions.find(message, topic=topic)
                return NO_MESSAGE if found is None else Target(found.position)
            case _:
                return None


def _done(request: Callable[[], None]) -> Done | Refused:
    return surely(request) or Done()


def _disconnects(request: Concurrent, answer: RequestAnswer) -> bool:
    """Whether a request has disconnected all consumers."""
    is_deleted = isinstance(request, DeleteSubscription) and request.by_force and isinstance(answer, Done)
    return (isinstance(request, ResetCursor) and isinstance(answer, CursorReset)) or is_deleted


def _request(request: Concurrent, topic: str, target: Target | None) -> Request:
    def ask(admin: CursorAdmin) -> RequestAnswer:
        match request:
            case Skip():
                return admin.skip(request, topic)
            case SkipAll(subscription=subscription):
                return admin.skip_all(topic, subscription)
            case DeleteSubscription():
                return admin.delete(request, topic)
            case CreateSubscription():
                to = None if target is None else target.to
                return _placed(admin.create(request, topic, to), to)
            case ResetCursor(subscription=subscription, after=after):
                to, time_ms = (target.to, target.time_ms) if target is not None else (None, None)
                if time_ms is not None:
                    return _placed(admin.reset_to_time(topic, subscription, time_ms), to, is_reset=True)
                after = after and to is not None
                done = admin.reset(topic, subscription, to, after=after)
                return _placed(done, following(to) if after and to is not None else to, is_reset=True)
            case PeekMessage(subscription=subscription, nth=nth):
                return admin.peek(topic, subscription, nth)
            case AnalyzeBacklog(subscription=subscription):
                return admin.analyze(topic, subscription)
            case _:
                assert_never(request)

    return ask


def _placed(done: Done | Refused, to: Position | None, *, is_reset: bool = False) -> RequestAnswer:
    return CursorReset(to) if isinstance(done, Done) and (is_reset or to is not None) else done
