"""The topic of each operation of a history."""

from __future__ import annotations

from conformance.engine.slices import topics_of
from model.operations import (
    AnyOperation,
    ClearFailpoints,
    ClearNetworkFaults,
    CloseProducer,
    CrashSource,
    CreateTopic,
    Drain,
    FinishSource,
    InjectNetworkFault,
    Kill,
    OpenProducer,
    ReadDatabase,
    ReadLog,
    Restart,
    RunReader,
    Send,
    StartSource,
    Unload,
    UseProxy,
)
from model.subscription_operations import CutDuring, Receive, Subscribe
from model.vocabulary import CutAt, RefuseConnections
from tests.report.samples import entry


def test_an_operation_with_a_topic_belongs_to_it() -> None:
    operations: list[AnyOperation] = [
        CreateTopic("t0"),
        Unload("t1"),
        ReadLog("t0"),
        Drain("t1", "s"),
        InjectNetworkFault("t1", RefuseConnections(9)),
    ]
    assert topics_of(operations) == ["t0", "t1", "t0", "t1", "t1"]


def test_an_operation_of_a_client_belongs_to_the_topic_of_its_opening() -> None:
    operations: list[AnyOperation] = [
        OpenProducer("s1", "t0", "p0"),
        OpenProducer("s2", "t1", "p0"),
        Send("s1", (entry(1),)),
        CloseProducer("s2"),
        StartSource("a0", "t1", (entry(1),)),
        CrashSource("a0"),
        FinishSource("a0"),
        RunReader("r", "t0"),
        ReadDatabase("r"),
    ]
    assert topics_of(operations) == ["t0", "t1", "t0", "t1", "t1", "t1", "t1", "t0", "t0"]


def test_an_operation_on_the_broker_or_of_an_unknown_client_has_no_topic() -> None:
    assert (
        topics_of([Kill(), Restart(), ClearFailpoints(), UseProxy(), ClearNetworkFaults(), Send("s9", ())])
        == [None] * 6
    )


def test_a_disconnected_consumer_belongs_to_its_topic() -> None:
    subscribe = Subscribe("c", "t0", "s", proxied=True)
    assert topics_of([subscribe, CutDuring(Receive("c", 1), CutAt("FLOW"))]) == ["t0", "t0"]
    assert (subscribe.actor, subscribe.subscription, subscribe.cluster) == ("c", "s", None)
