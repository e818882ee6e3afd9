"""The plan of a soak follows from its seed and is complete."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import get_args

import pytest

from conformance.clients.security.service import Service
from conformance.history.about import About
from conformance.soak.plan import LATER, FaultName, ScheduledFault, TopicPlan, clients, faults, later, topics
from conformance.soak.worker.payloads import is_whole, payload_of
from conformance.workers.client_plan import ClientPlan, TopicKind

NAMESPACES = {True: "public/on", False: "public/off"}
LENGTH_S = 100.0
ALL: frozenset[FaultName] = frozenset(get_args(FaultName))


def planned(count: int, *, seed: int = 1) -> tuple[ClientPlan, ...]:
    return planned_for(topics(NAMESPACES, 8), count, seed=seed)


def planned_for(these: tuple[TopicPlan, ...], count: int = 1, *, seed: int = 1) -> tuple[ClientPlan, ...]:
    made_later = later(these, seed=seed, length_s=LENGTH_S)
    options = {
        "run": "r",
        "history": "h",
        "services": {label: Service(f"pulsar://h{label}:1") for label in these[0].clusters},
    }
    about = About(release="4.0.8", settings={"maxMessageSize": "10240"})
    return clients(these, made_later, count, about=about, rate=160.0, seed=seed, **options)  # type: ignore[arg-type]


def first_faults(seed: int, possible: frozenset[FaultName] = ALL) -> list[ScheduledFault]:
    return list(itertools.islice(faults(seed, every_s=10.0, possible=possible), 200))


def test_a_topic_of_each_kind_has_every_type_of_subscription() -> None:
    kinds = {type_ for topic in topics(NAMESPACES, len(TopicKind)) for _, type_ in topic.subscriptions}
    assert kinds == {"Exclusive", "Failover", "Shared", "Key_Shared"}


def test_topics_are_in_the_namespace_with_or_without_deduplication() -> None:
    for topic in topics(NAMESPACES, 8):
        assert NAMESPACES[topic.is_deduplicated] in topic.name


@pytest.mark.parametrize("count", [1, 3, 8, 64])
def test_any_number_of_clients_does_the_same_work_together(count: int) -> None:
    alone = planned(1)[0]
    together = planned(count)
    assert len(together) == count
    for what in ("produces", "consumes"):
        spread = Counter(one for plan in together for one in getattr(plan, what))
        assert spread == Counter(getattr(alone, what))
        assert set(spread.values()) == {1}


def test_all_producers_together_send_at_the_requested_rate() -> None:
    assert sum(one.messages_per_s for plan in planned(3) for one in plan.produces) == pytest.approx(160.0)


def test_no_two_consumers_of_a_topic_have_one_name() -> None:
    names = [(one.topic, one.name) for plan in planned(3) for one in plan.consumes]
    assert len(set(names)) == len(names)


def test_the_seed_decides_everything() -> None:
    assert planned(3) == planned(3)
    assert planned(3) != planned(3, seed=2)
    assert first_faults(1) == first_faults(1)
    assert first_faults(1) != first_faults(2)


def test_only_possible_faults_are_injected_and_one_after_the_other() -> None:
    assert {fault.name for fault in first_faults(1)} == ALL
    assert {fault.name for fault in first_faults(1, frozenset({"cut", "unload"}))} == {"cut", "unload"}
    assert first_faults(1, frozenset()) == []
    times = [fault.at_s for fault in first_faults(1)]
    assert all(5.0 <= later - earlier <= 15.0 for earlier, later in itertools.pairwise([0.0, *times]))


def test_each_cluster_has_its_own_producers_and_replicated_consumers_are_in_one_at_a_time() -> None:
    two = topics(NAMESPACES, 6, ("A", "B"))
    (plan,) = planned_for(two)
    assert Counter(one.cluster for one in plan.produces) == {"A": 12, "B": 12}
    assert sum(one.messages_per_s for one in plan.produces) == pytest.approx(160.0)
    assert len({one.name for one in plan.produces}) == len(plan.produces)
    for topic in two:
        own = [one for one in plan.consumes if one.topic == topic.name and not one.is_later]
        replicated, local = (
            {one.cluster for one in own if one.is_replicated is is_replicated} for is_replicated in (True, False)
        )
        assert (replicated, local) == ({topic.home}, {"A", "B"})
    assert {topic.home for topic in two} == {"A", "B"}


def test_topics_of_clusters_get_replicated_subscriptions_during_traffic() -> None:
    two = topics(NAMESPACES, 6, ("A", "B"))
    made = later(two, seed=1, length_s=LENGTH_S)
    assert Counter(one.topic for one in made) == {topic.name: LATER for topic in two}
    assert {one.cluster for one in made} == {"A", "B"}
    times = [one.at_s for one in made]
    assert 0.2 * LENGTH_S <= min(times) <= max(times) <= 0.8 * LENGTH_S
    assert times == sorted(times)
    created = [(one.topic, one.name, one.cluster) for one in made]
    (plan,) = planned_for(two)
    come = [(one.topic, one.subscription, one.cluster) for one in plan.consumes if one.is_later]
    assert come == created
    assert len({(one.topic, one.name) for one in plan.consumes}) == len(plan.consumes)
    assert later(two, seed=2, length_s=LENGTH_S) != made
    assert later(topics(NAMESPACES, 8), seed=1, length_s=LENGTH_S) == ()


def test_some_unbatched_messages_between_clusters_are_close_to_the_size_limit() -> None:
    (plan,) = planned_for(topics(NAMESPACES, 6, ("A", "B")))
    assert {(one.topic_kind.has_keys, one.largest_bytes) for one in plan.produces} == {(True, 10_240), (False, 0)}
    assert {one.largest_bytes for one in planned(1)[0].produces} == {0}


def test_no_topic_with_chunks_is_replicated() -> None:
    assert not any(topic.kind.is_chunked for topic in topics(NAMESPACES, 8, ("A", "B")))


@pytest.mark.parametrize("size_bytes", [0, 30, 300, 40_000])
def test_a_damaged_payload_is_detected(size_bytes: int) -> None:
    payload = payload_of("p/1", 7, size_bytes)
    assert len(payload) >= size_bytes
    assert is_whole(payload)
    for damaged in (payload[:-1], payload + b"0", b"", b"\xff|"):
        assert not is_whole(damaged)


def test_the_payload_of_another_message_is_detected() -> None:
    payload = payload_of("p", 7, 300)
    assert not is_whole(payload.replace(b"/7/", b"/8/", 1))
    assert not is_whole(payload.replace(b"p/", b"q/", 1))
