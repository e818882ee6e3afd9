"""Reading markers: their contents, and which entries are none."""

from __future__ import annotations

import pytest

from conformance.clients import protocol_pb2 as pb
from conformance.clients.admin.markers import read_marker
from conformance.clients.admin.types import RestEntry
from conformance.harness_error import HarnessError
from model.cluster_events import SnapshotRequest, SnapshotResponse, SnapshotTaken, SubscriptionUpdated
from model.log import Position

LABELS = {"east": "A", "west": "B"}


def entry(kind: int | None, payload: bytes) -> RestEntry:
    headers = {} if kind is None else {"marker-type": str(kind)}
    return RestEntry(position=Position(1, 0), payload=payload, headers=headers, properties={})


def at(cluster: str, ledger: int, number: int) -> pb.ClusterMessageId:
    message_id = pb.MarkersMessageIdData(ledger_id=ledger, entry_id=number)
    return pb.ClusterMessageId(cluster=cluster, message_id=message_id)


def test_the_four_markers_are_read_with_clusters_by_their_labels() -> None:
    request = pb.ReplicatedSubscriptionsSnapshotRequest(snapshot_id="s", source_cluster="east")
    response = pb.ReplicatedSubscriptionsSnapshotResponse(snapshot_id="s", cluster=at("west", 7, 3))
    local = pb.MarkersMessageIdData(ledger_id=2, entry_id=9)
    taken = pb.ReplicatedSubscriptionsSnapshot(snapshot_id="s", local_message_id=local, clusters=[at("west", 7, 3)])
    update = pb.ReplicatedSubscriptionsUpdate(subscription_name="sub", clusters=[at("west", 7, 3)])
    told = [
        read_marker(entry(kind, marker.SerializeToString()), LABELS)
        for kind, marker in ((10, request), (11, response), (12, taken), (13, update))
    ]
    west = Position(7, 3)
    assert told == [
        SnapshotRequest("s", "A"),
        SnapshotResponse("s", "B", west),
        SnapshotTaken("s", Position(2, 9), {"B": west}),
        SubscriptionUpdated("sub", {"B": west}),
    ]


def test_the_last_position_of_an_empty_log_is_before_the_first_entry() -> None:
    response = pb.ReplicatedSubscriptionsSnapshotResponse(snapshot_id="s", cluster=at("west", 7, 2**64 - 1))
    assert read_marker(entry(11, response.SerializeToString()), LABELS) == SnapshotResponse("s", "B", Position(7, -1))


def test_messages_and_other_markers_are_not_read_as_these() -> None:
    assert read_marker(entry(None, b"hello"), LABELS) is None
    assert read_marker(entry(20, b""), LABELS) is None


@pytest.mark.parametrize(
    "payload",
    [
        b"\xff\xff",
        b"",
        pb.ReplicatedSubscriptionsSnapshotRequest(snapshot_id="s", source_cluster="n").SerializeToString(),
    ],
    ids=["garbage", "nothing", "of a cluster that is none of these"],
)
def test_a_malformed_marker_is_a_harness_error_that_names_the_entry(payload: bytes) -> None:
    with pytest.raises(HarnessError, match="the entry at 1:0 is no marker of type 10 among these clusters"):
        read_marker(entry(10, payload), LABELS)
