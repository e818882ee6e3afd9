"""Every seeded defect of clusters, in three real ones: its effect is visible only while all of them have it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from threading import Event
from typing import Literal

import pytest

from conformance.brokers.interface import Broker
from conformance.brokers.select import parse_broker
from conformance.clients.wire.client import WireClient
from conformance.clusters import QUICK
from conformance.engine.deployment import SUITE_SETTINGS
from conformance.faults.catalogue import BrokerDefect, find
from conformance.faults.defects import switched, was_reached
from conformance.lockstep.answers import OutOfTime
from conformance.lockstep.clusters import CONNECT_TIMEOUT_S, PERIOD_MS, ReplicationWorld
from conformance.lockstep.replication import cluster_reader as replication_reading
from conformance.lockstep.replication.cluster_reader import QUIET_TIMEOUT_S, Reading
from conformance.lockstep.replication.performer import ReplicationPerformer
from conformance.lockstep.replication.sessions import ANSWER_TIMEOUT_S
from model.cluster_events import CaughtUp, ClustersRead, CursorAdministered, LinkCut, LinkHealed, ReplicatorsClosed
from model.cluster_operations import (
    AdministerAt,
    AwaitIdle,
    AwaitTimedOut,
    CatchUp,
    CutLink,
    HealLink,
    LoseCluster,
    ReadClusters,
    RecoverCluster,
    SetLink,
)
from model.events import Done, Refused, Skipped
from model.operations import CreateTopic, OpenProducer, Send
from model.replication.logs import Log, is_passed
from model.subscription_operations import (
    CreateSubscription,
    DeleteSubscription,
    Expire,
    ResetCursor,
    Skip,
    Subscribe,
)
from model.vocabulary import Entry, Message
from tests.faults.experiments import Observation, seen
from tests.faults.replication_effects import REPLICATION_EFFECTS, ReplicationEffect
from tests.faults.replication_fixtures import CONSUMER, SUBSCRIPTION, TOPIC, Fixture
from tests.waits import eventually


@pytest.fixture(scope="module")
def started() -> list[Broker]:
    """The brokers of the clusters, one entry for each start."""
    return []


@pytest.fixture(scope="module")
def world(request: pytest.FixtureRequest, started: list[Broker]) -> Iterator[ReplicationWorld]:
    """Three clusters, shared by the tests of this module."""
    text: str = request.config.getoption("--broker")
    if text.startswith("pulsar:"):
        pytest.skip("--broker names a cluster that is not ours to wire")
    settings = {**QUICK, **SUITE_SETTINGS}
    made = ReplicationWorld(lambda: parse_broker(text, settings=settings), tenant="replicated", on_start=started.append)
    yield made
    made.close()


def observe(world: ReplicationWorld, effect: ReplicationEffect) -> Observation:
    """Run an experiment on a separate topic."""
    fixture = Fixture(
        world, clusters=effect.clusters, is_replicated=effect.is_replicated, replicated_by=effect.replicated_by
    )
    try:
        return effect.experiment(fixture)
    finally:
        fixture.close()


def test_every_effect_can_be_observed() -> None:
    assert [name for name, effect in REPLICATION_EFFECTS.items() if effect.sound == effect.defective] == []


@pytest.mark.parametrize("name", REPLICATION_EFFECTS)
def test_a_defect_of_clusters_has_its_effect_only_while_it_is_on(world: ReplicationWorld, name: str) -> None:
    effect, defect = REPLICATION_EFFECTS[name], find(name)
    assert isinstance(defect, BrokerDefect)
    brokers = [world.clusters.cluster(label).broker for label in world.clusters.labels]
    agents = [broker.load_agents()[0] for broker in brokers]
    with ExitStack() as on:
        for agent in agents:
            on.enter_context(switched(agent, defect))
        assert seen(effect.defective, lambda: observe(world, effect)) == effect.defective
        assert any(was_reached(agent, defect) for agent in agents)
    assert seen(effect.sound, lambda: observe(world, effect)) == effect.sound


def test_a_link_heals_although_a_topic_is_not_replicated_over_it(world: ReplicationWorld) -> None:
    performer = ReplicationPerformer(world, example=0)
    performer.perform(CreateTopic("t", deduplication="namespace-off", clusters=2, is_replicated=False))
    assert isinstance(performer.perform(CutLink("A", "B")), LinkCut)
    assert isinstance(performer.perform(HealLink("A", "B")), LinkHealed)
    performer.close()


def test_a_read_back_is_quiet_only_once_the_backlog_of_a_healed_link_is_replicated(world: ReplicationWorld) -> None:
    fixture = Fixture(world)
    fixture.do(CutLink("A", "B"))
    fixture.publish("m0")
    fixture.do(AwaitTimedOut("A"))  # no snapshot is pending, but the replicator's retries become rarer meanwhile
    fixture.do(HealLink("A", "B"))
    read = fixture.do(ReadClusters(TOPIC))
    fixture.close()
    assert isinstance(read, ClustersRead)
    assert (read.is_quiet, read.closed, Log("B", read.clusters["B"]).messages()) == (True, (), ("m0",))


def test_messages_stored_later_do_not_count_in_the_backlog_of_a_read_back(world: ReplicationWorld) -> None:
    fixture = Fixture(world)
    reading = fixture.reading
    fixture.publish("m0")
    ends = reading.ends()
    eventually(lambda: not reading.left(ends))
    fixture.do(CutLink("A", "B"))
    fixture.publish("m1")
    assert not reading.left(ends)
    ends = reading.ends()
    assert list(reading.left(ends)) == [("A", "B")]
    assert reading.not_replicated(("A", "B")) == ("m1",)
    fixture.do(HealLink("A", "B"))
    eventually(lambda: not reading.left(ends), deadline_s=CONNECT_TIMEOUT_S)
    assert reading.not_replicated(("A", "B")) == ()
    fixture.close()


def test_a_read_back_does_not_wait_for_replicators_closed_with_an_idle_topic(
    world: ReplicationWorld,
) -> None:
    fixture = Fixture(world)
    idle = fixture.do(AwaitIdle("B", TOPIC))
    begun_ms = time.time() * 1000
    read = fixture.do(ReadClusters(TOPIC))
    fixture.close()
    assert isinstance(idle, ReplicatorsClosed)
    assert isinstance(read, ClustersRead)
    assert (read.is_quiet, read.closed) == (False, (("B", "A"),))
    assert read.at_ms - begun_ms < QUIET_TIMEOUT_S * 1000


def test_a_read_back_of_an_unreplicated_topic_waits_only_briefly_for_quiet(
    world: ReplicationWorld,
) -> None:
    name = f"persistent://{world.namespace(('A', 'B'), (), deduplication=False)}/never-still"
    for label in "AB":
        world.clusters.cluster(label).admin.ensure_topic(name)
    begun = time.monotonic()
    with publishing(world.clusters.cluster("A").broker, name):
        read = Reading(world, ("A", "B"), name, ()).quiet()
    assert not read.is_quiet
    assert len(read.clusters["A"].entries) > 1
    assert time.monotonic() - begun < QUIET_TIMEOUT_S


def test_a_read_back_that_takes_too_long_is_skipped_and_the_next_one_continues(
    world: ReplicationWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixture = Fixture(world)
    fixture.publish("m0", "m1")
    fixture.await_at_b("m1")
    with monkeypatch.context() as hurried:
        hurried.setattr(replication_reading, "READ_TIMEOUT_S", 0.0)
        assert isinstance(fixture.do(ReadClusters(TOPIC)), Skipped)
    assert isinstance(fixture.do(ReadClusters(TOPIC)), ClustersRead)
    fixture.close()


def test_catching_up_ends_with_the_run(world: ReplicationWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    fixture = Fixture(world)
    fixture.publish("m0")
    monkeypatch.setattr(world, "is_time_up", lambda: True)
    with pytest.raises(OutOfTime):
        fixture.do(CatchUp(CONSUMER, prefix="c", lag=1))
    monkeypatch.undo()
    assert isinstance(fixture.do(CatchUp(CONSUMER, prefix="d")), CaughtUp)
    fixture.close()


@pytest.mark.parametrize("how", ["kill", "freeze"])
def test_the_clusters_that_are_left_go_on_without_a_lost_one(
    world: ReplicationWorld, how: Literal["kill", "freeze"]
) -> None:
    fixture = Fixture(world, clusters=3)
    lost = fixture.do(LoseCluster("C", how))
    assert isinstance(lost, LinkCut if how == "kill" else Done)
    fixture.publish("m0")
    assert isinstance(fixture.do(OpenProducer("there", TOPIC, "there", cluster="C")), Skipped)
    without = fixture.logs()
    assert {label: log.messages() for label, log in without.items()} == {"A": ("m0",), "B": ("m0",), "C": ()}
    assert isinstance(fixture.do(RecoverCluster("C")), LinkHealed)
    eventually(lambda: fixture.logs()["C"].messages() == ("m0",), deadline_s=60)
    if how == "kill":
        fixture.do(LoseCluster("C"))
        read = fixture.do(ReadClusters(TOPIC))
        assert isinstance(read, ClustersRead)
        assert ("A", "C") in read.reconnected, "its messages may have been sent twice, whether or not it is there"
    fixture.close()


def test_a_cluster_that_comes_back_empty_has_what_is_published_from_then_on(world: ReplicationWorld) -> None:
    fixture = Fixture(world, clusters=3)
    fixture.publish("m0")
    eventually(lambda: "m0" in fixture.reading.messages("C"), deadline_s=60)
    fixture.do(LoseCluster("C"))
    assert isinstance(fixture.do(RecoverCluster("C", is_empty=True)), LinkHealed)
    fixture.publish("m1")
    eventually(lambda: fixture.logs()["C"].messages() == ("m1",), deadline_s=60)
    assert isinstance(fixture.do(RecoverCluster("C", is_empty=True)), Skipped)
    assert fixture.logs()["A"].messages() == ("m0", "m1")
    fixture.do(Subscribe("there", TOPIC, SUBSCRIPTION, kind="Exclusive", cluster="C", is_replicated=True))
    assert isinstance(fixture.do(CatchUp("there", prefix="c")), Skipped), "it has not all that the others are to follow"
    assert isinstance(fixture.do(CatchUp(CONSUMER, prefix="d")), CaughtUp)
    fixture.do(LoseCluster("B"))
    assert isinstance(fixture.do(RecoverCluster("B", is_empty=True)), Skipped), "other machines have topics there"
    assert isinstance(fixture.do(RecoverCluster("B")), LinkHealed)
    fixture.close()


def test_replicators_that_reach_an_emptied_cluster_before_its_namespaces_connect_at_the_latest_after_a_reload(
    world: ReplicationWorld,
) -> None:
    fixture = Fixture(world, clusters=3)
    fixture.do(LoseCluster("C"))
    back = fixture.do(RecoverCluster("C", is_empty=True, is_reached_early=True))
    assert isinstance(back, LinkHealed)
    assert back.unconnected == ("A", "B"), "as namespace-not-found-ends-replication says of 4.0.8"
    fixture.do(OpenProducer("again", TOPIC, "again", cluster="A"))
    fixture.do(Send("again", (Entry((Message(1, "m1"),)),)))
    eventually(lambda: fixture.logs()["C"].messages() == ("m1",), deadline_s=60)
    fixture.close()


def test_an_emptied_cluster_replicates_to_where_its_namespace_said_last(world: ReplicationWorld) -> None:
    fixture = Fixture(world, clusters=3, links=(("A", "B"), ("A", "C"), ("C", "A"), ("C", "B")))
    assert isinstance(fixture.do(SetLink("C", "B", TOPIC, on=False)), Done)
    assert isinstance(fixture.do(SetLink("B", "C", TOPIC, on=True)), Done)
    fixture.do(LoseCluster("C"))
    assert isinstance(fixture.do(RecoverCluster("C", is_empty=True)), LinkHealed)
    connected = {link for link, stats in world.replicators("ABC", fixture.reading.topic).items() if stats.connected}
    assert connected == {("A", "B"), ("A", "C"), ("B", "C"), ("C", "A")}
    fixture.close()


def test_messages_go_only_where_their_cluster_replicates_to(world: ReplicationWorld) -> None:
    fixture = Fixture(world, clusters=3, links=(("A", "B"), ("C", "A")))
    fixture.publish("m0")
    fixture.await_at_b("m0")
    fixture.do(OpenProducer("there", TOPIC, "there", cluster="C"))
    fixture.do(Send("there", (Entry((Message(1, "c0"),)),)))
    eventually(lambda: "c0" in fixture.reading.messages("A"), deadline_s=60)
    found = {label: sorted(log.messages()) for label, log in fixture.logs().items()}
    assert found == {"A": ["c0", "m0"], "B": ["m0"], "C": ["c0"]}
    fixture.close()


def test_a_cluster_replicates_from_when_its_namespace_says_so(world: ReplicationWorld) -> None:
    fixture = Fixture(world, links=(("A", "B"),))
    fixture.publish("m0")
    fixture.await_at_b("m0")
    assert isinstance(fixture.do(SetLink("A", "B", TOPIC, on=False)), Done)
    fixture.publish("m1")
    assert fixture.logs()["B"].messages() == ("m0",)
    assert isinstance(fixture.do(SetLink("A", "B", TOPIC, on=True)), Done)
    fixture.publish("m2")
    fixture.await_at_b("m2")
    assert isinstance(fixture.do(SetLink("A", "B", TOPIC, on=True)), Skipped)
    fixture.close()


def test_a_topic_is_replicated_while_its_own_policy_says_so(world: ReplicationWorld) -> None:
    fixture = Fixture(world, replicated_by="topic")
    fixture.publish("m0")
    fixture.await_at_b("m0")
    assert isinstance(fixture.do(SetLink("A", "B", TOPIC, on=False)), Done)
    fixture.publish("m1")
    assert fixture.logs()["B"].messages() == ("m0",)
    assert isinstance(fixture.do(SetLink("A", "B", TOPIC, on=True)), Done)
    fixture.publish("m2")
    fixture.await_at_b("m2")
    fixture.close()


def test_an_administrator_is_answered_with_the_subscription_before_and_after(world: ReplicationWorld) -> None:
    fixture = Fixture(world)
    fixture.publish("m0", "m1")
    create = CreateSubscription(TOPIC, "other", "latest", is_replicated=True)
    created = fixture.do(AdministerAt("A", create))
    assert isinstance(created, CursorAdministered)
    assert (created.before, created.to) == (None, None)
    assert created.after is not None
    assert created.after.is_replicated
    assert isinstance(fixture.do(AdministerAt("A", create)), Refused)
    reset = fixture.do(AdministerAt("A", ResetCursor(TOPIC, "other", "m1")))
    assert isinstance(reset, CursorAdministered)
    assert (reset.before, reset.to) == (created.after, fixture.reading.messages("A")["m1"])
    assert reset.after is not None
    assert reset.after.backlog > 0
    deleted = fixture.do(AdministerAt("A", DeleteSubscription(TOPIC, "other")))
    assert deleted == CursorAdministered(reset.after, None)
    for asked in (Skip(TOPIC, "other", 1), Expire(TOPIC, SUBSCRIPTION, "m9")):
        assert isinstance(fixture.do(AdministerAt("A", asked)), Skipped)
    fixture.close()


def test_both_copies_of_a_message_that_a_cluster_has_twice_are_acknowledged(world: ReplicationWorld) -> None:
    fixture = Fixture(world)
    fixture.publish("m0", "m0")
    given: list[str] = []

    def are_given() -> bool:
        given.extend(fixture.take())
        return given == ["m0", "m0"]

    eventually(are_given, deadline_s=60)
    fixture.acknowledge("m0")
    log = fixture.logs()["A"]
    fixture.close()
    cursor = log.cursor(SUBSCRIPTION)
    assert cursor is not None
    assert [is_passed(cursor, entry.position) for entry in log.entries if entry.message == "m0"] == [True, True]


@contextmanager
def publishing(broker: Broker, topic: str) -> Iterator[None]:
    """Publish all the time."""
    is_over = Event()

    def publish() -> None:
        with closing(WireClient.connect(broker.addresses.service_url, timeout_s=ANSWER_TIMEOUT_S)) as client:
            producer = client.open_producer(topic, name="p", timeout_s=ANSWER_TIMEOUT_S)
            for number in itertools.count(1):
                producer.answer(producer.send(number, b"m"), timeout_s=ANSWER_TIMEOUT_S)
                if is_over.wait(PERIOD_MS / 1000):
                    return

    with ThreadPoolExecutor(1) as threads:
        done = threads.submit(publish)
        try:
            yield
        finally:
            is_over.set()
        done.result()


def test_every_start_of_a_cluster_is_reported_so_that_its_defect_can_be_switched_on_again(
    world: ReplicationWorld, started: list[Broker]
) -> None:
    brokers = [world.clusters.cluster(label).broker for label in world.clusters.labels]
    before = list(started)
    assert before[:3] == brokers
    world.bounce("B", is_kill=False)
    assert started == [*before, brokers[1]]
