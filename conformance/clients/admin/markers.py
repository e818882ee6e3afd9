"""Reads the markers that clusters write into a log for one another, to replicate subscriptions (document 001).

Which marker an entry is, its metadata says; its payload is one of the messages of ``protocol.proto``. Clusters are
named there as brokers know them. What a marker means is none of this module's business.
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
    """The types of these markers, as an entry's metadata has them."""

    REQUEST = 10
    RESPONSE = 11
    SNAPSHOT = 12
    UPDATE = 13


def read_marker(entry: RestEntry, labels: Mapping[str, str]) -> Marker | None:
    """Give the marker of replicated subscriptions that an entry is; None if it is none, or one of another kind.

    ``labels``: what to call the clusters, by their names. Raises :class:`HarnessError` for a payload that is no such
    marker, or names a cluster that is none of these.
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
