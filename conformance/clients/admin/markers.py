"""Reads the markers of replicated subscriptions in a log (document 001).

An entry's metadata has the type of the marker. Its payload is a message of ``protocol.proto`` with the clusters' names
in Pulsar. The meaning of markers is elsewhere.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping

from google.protobuf.message import DecodeError

from conformance.clients import protocol_pb2 as pb
from conformance.clients.admin.types import RestEntry
from conformance.clients.outcomes import signed
from conformance.harness_error import HarnessError
from model.cluster_events import Marker, SnapshotRequest, SnapshotResponse, SnapshotTaken, SubscriptionUpdated
from model.log import Position


class MarkerType(enum.IntEnum):
    """The types of these markers in an entry's metadata."""

    REQUEST = 10
    RESPONSE = 11
    SNAPSHOT = 12
    UPDATE = 13


def read_marker(entry: RestEntry, labels: Mapping[str, str]) -> Marker | None:
    """The marker of replicated subscriptions in an entry; None if it is no marker or another one.

    ``labels``: the labels of clusters by name. Raises :class:`HarnessError` for an invalid payload or an unknown
    cluster.
    """
    if entry.marker_type is None:
        return None
    try:
        return _parsed(entry.marker_type, entry.payload, labels)
    except (DecodeError, KeyError) as error:
        kind = entry.marker_type
        raise HarnessError(
            f"the entry at {entry.position} is no marker of type {kind} among these clusters: {error}"
        ) from None


def _parsed(kind: int, payload: bytes, labels: Mapping[str, str]) -> Marker | None:
    match kind:
        case MarkerType.REQUEST:
            request = pb.ReplicatedSubscriptionsSnapshotRequest.FromString(payload)
            return SnapshotRequest(request.snapshot_id, labels[request.source_cluster])
        case MarkerType.RESPONSE:
            response = pb.ReplicatedSubscriptionsSnapshotResponse.FromString(payload)
            position = _position(response.cluster.message_id)
            return SnapshotResponse(response.snapshot_id, labels[response.cluster.cluster], position)
        case MarkerType.SNAPSHOT:
            taken = pb.ReplicatedSubscriptionsSnapshot.FromString(payload)
            local = _position(taken.local_message_id)
            return SnapshotTaken(taken.snapshot_id, local, _positions(taken.clusters, labels))
        case MarkerType.UPDATE:
            update = pb.ReplicatedSubscriptionsUpdate.FromString(payload)
            return SubscriptionUpdated(update.subscription_name, _positions(update.clusters, labels))
        case _:
            return None


def _positions(clusters: Iterable[pb.ClusterMessageId], labels: Mapping[str, str]) -> dict[str, Position]:
    return {labels[one.cluster]: _position(one.message_id) for one in clusters}


def _position(message_id: pb.MarkersMessageIdData) -> Position:
    return Position(message_id.ledger_id, signed(message_id.entry_id))
