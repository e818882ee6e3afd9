"""An administrator's requests for the subscriptions of one cluster, with its cursor before and after."""

from __future__ import annotations

from typing import assert_never

from conformance.clients.admin.client import Admin
from conformance.lockstep.cursors.admin import CursorAdmin
from conformance.lockstep.replication.cluster_reader import Reading
from conformance.lockstep.replication.sessions import TopicInClusters
from model.cluster_events import CursorAdministered
from model.cluster_operations import AdministerAt, AdministratorsRequest
from model.events import AnyOutcome, Refused, Skipped
from model.log import Position
from model.subscription_operations import (
    CreateSubscription,
    DeleteSubscription,
    Expire,
    ResetCursor,
    Skip,
    SkipAll,
)


def administered(operation: AdministerAt, topic: TopicInClusters, admin: Admin) -> AnyOutcome:
    """Carry out one request."""
    reading, asked = topic.reading, operation.asked
    before = reading.cursor(operation.cluster, operation.subscription)
    if before is None and not isinstance(asked, CreateSubscription):
        return Skipped("the cluster has no such subscription")
    to = _target(reading, operation.cluster, asked)
    if isinstance(to, Skipped):
        return to
    answer = _requested(asked, topic.name, CursorAdmin(admin), to)
    if isinstance(answer, Refused):
        return answer
    return CursorAdministered(before, reading.cursor(operation.cluster, operation.subscription), to)


def _target(reading: Reading, cluster: str, asked: AdministratorsRequest) -> Position | Skipped | None:
    """The position of the message that a request names, in its cluster."""
    match asked:
        case Expire(up_to=message) | ResetCursor(to=message) if message is not None:
            return reading.messages(cluster).get(str(message)) or Skipped("the cluster has no such message")
        case _:
            return None


def _requested(asked: AdministratorsRequest, topic: str, admin: CursorAdmin, to: Position | None) -> AnyOutcome:
    match asked:
        case Skip():
            return admin.skip(asked, topic)
        case SkipAll(subscription=subscription):
            return admin.skip_all(topic, subscription)
        case Expire(subscription=subscription) if to is not None:
            return admin.expire(topic, subscription, to)
        case Expire():
            return Skipped("an expiry needs a message")
        case ResetCursor(subscription=subscription, after=after):
            return admin.reset(topic, subscription, to, after=after)
        case CreateSubscription():
            return admin.create(asked, topic)
        case DeleteSubscription():
            return admin.delete(asked, topic)
        case _:
            assert_never(asked)
