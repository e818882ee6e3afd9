"""Rules that a deployment cannot show: because of its capabilities, or of its settings."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from conformance.brokers.interface import OF_ONE_BROKER, Capability
from conformance.brokers.settings import MACHINES, NEAR
from conformance.clients.driver.connect import ClientInfo
from conformance.engine.example import RunningExample
from conformance.engine.machines import Machine
from conformance.engine.undecidable import undecidable
from conformance.lockstep import capabilities
from conformance.lockstep.capabilities import Capabilities
from conformance.lockstep.lockstep import Lockstep
from conformance.lockstep.world import World
from conformance.tenancy.cluster_settings import CLASSIC
from model.example import Example
from model.operations import AnyOperation, CreateTopic, SetDeduplication
from model.subscription_operations import Expire, ResetCursor, SkipAll, Subscribe
from stateful.test_service import MACHINES as MACHINES_OF_SERVICE
from tests.lockstep.simulated.world import SimulatedPerformer

SELDOM = {"brokerDeduplicationEntriesInterval": "1000", "brokerDeduplicationSnapshotIntervalSeconds": "120"}


@dataclass(frozen=True)
class Answers:
    """What a broker answers that has everything, but for what is given."""

    runtime: Mapping[str, str] | None = field(default_factory=dict)
    can_drain: bool = True
    can_be_classic: bool = True
    is_switchable: bool = True
    are_alike: bool = True
    are_known: bool = True
    lacks: frozenset[str] = frozenset()

    @property
    def key_shared(self) -> Answers:
        return self

    @property
    def dispatchers(self) -> Answers:
        return self

    @property
    def can_fail_power(self) -> bool:
        return "power failure" not in self.lacks

    @property
    def can_change_release(self) -> bool:
        return "another release" not in self.lacks

    def has_admin_request(self, path: str) -> bool:
        return path not in self.lacks

    def has_stats_field(self, part: str, name: str) -> bool:
        return f"{part}.{name}" not in self.lacks

    def has_entry_header(self, name: str) -> bool:
        return f"entries.{name}" not in self.lacks


QUICK = {name: one.value for name, one in {**NEAR, **MACHINES}.items()}


def world(*capabilities: Capability, settings: Mapping[str, str] | None = None, **answers: Any) -> World:
    broker = SimpleNamespace(capabilities=frozenset(capabilities))
    asked = Answers(runtime={**QUICK, **(settings or {})}, **answers)
    return cast(World, SimpleNamespace(broker=broker, capabilities=Capabilities(asked)))


def machine(name: str, *decides: str, needs: frozenset[Capability] = frozenset()) -> Machine:
    return Machine(name=name, decides=decides, needs=needs, factory=cast(Any, None))


KILLING = machine("killing", "ACK-09", "ACK-10", needs=frozenset({Capability.KILL, Capability.RESTART}))
PLAIN = machine("plain", "ACK-10", "ACK-14")


def test_a_rule_whose_machines_need_more_capabilities_is_undecidable() -> None:
    assert undecidable([KILLING, PLAIN], world()) == {
        "ACK-09": "it needs a broker that the suite starts, to restart it and kill it"
    }
    assert undecidable([KILLING, PLAIN], world(Capability.RESTART)) == {
        "ACK-09": "it needs a broker that the suite starts, to kill it"
    }


def test_with_all_capabilities_and_the_suites_settings_every_rule_is_decidable() -> None:
    assert undecidable([KILLING, PLAIN], world(*Capability)) == {}


@pytest.mark.parametrize(
    ("settings", "rule", "told"),
    [
        ({"managedLedgerMaxEntriesPerLedger": "50000"}, "ACK-14", "managedLedgerMaxEntriesPerLedger=50000"),
        ({"managedLedgerCursorPositionFlushSeconds": "60"}, "ACK-08", "managedLedgerCursorPositionFlushSeconds=60"),
        ({"statsUpdateFrequencyInSecs": "60"}, "CHUNK-10", "statsUpdateFrequencyInSecs=60"),
        (SELDOM, "DEDUP-10", "IntervalSeconds=120"),
        (SELDOM, "DEDUP-11", "IntervalSeconds=120"),
    ],
)
def test_a_setting_that_makes_a_rule_undecidable_is_named(settings: dict[str, str], rule: str, told: str) -> None:
    assert told in undecidable([PLAIN], world(*Capability, settings=settings))[rule]


@pytest.mark.parametrize(
    ("answers", "rule", "told"),
    [
        ({"can_be_classic": False}, "KEY-14", f"{CLASSIC}=false"),
        ({"can_drain": False}, "KEY-03", f"{CLASSIC}=true"),
        ({"can_drain": False, "is_switchable": False}, "KEY-03", "this release has no draining hashes"),
        (
            {"can_be_classic": False, "is_switchable": False},
            "KEY-14",
            "this release has no classic implementation of Key_Shared",
        ),
        ({"are_known": False}, "KEY-01", "different implementations of Key_Shared"),
        ({"lacks": {"publishers.chunkedMessageRate"}}, "CHUNK-10", "have no chunkedMessageRate in publishers"),
        ({"lacks": {"ledger/0/entry/0"}}, "REPL-07", "no admin request TOPIC/ledger/0/entry/0"),
        ({"lacks": {"entries.producer-name"}}, "REPL-07", "does not show the producer-name of an entry"),
    ],
)
def test_a_feature_that_a_release_lacks_is_named(answers: dict[str, Any], rule: str, told: str) -> None:
    assert told in undecidable([PLAIN], world(*Capability, **answers))[rule]


def test_no_consumer_is_key_shared_where_the_brokers_differ_in_that() -> None:
    differing, alike = Capabilities(Answers(are_known=False)), Capabilities(Answers(runtime=QUICK))
    key_shared, shared = (Subscribe("c", "t0", "s0", kind=kind) for kind in ("Key_Shared", "Shared"))
    assert "different implementations" in str(differing.why_not(key_shared))
    assert differing.why_not(shared) is None
    assert alike.why_not(key_shared) is None


def test_a_setting_that_a_release_lacks_does_not_count_as_its_default() -> None:
    settings = {name: value for name, value in QUICK.items() if name != "managedLedgerCursorPositionFlushSeconds"}
    missing = Capabilities(Answers(runtime=settings)).undecidable()
    assert missing == {"ACK-08": "this release has no setting managedLedgerCursorPositionFlushSeconds"}


def test_a_broker_without_readable_settings_counts_as_having_the_defaults() -> None:
    missing = Capabilities(Answers(runtime=None)).undecidable()
    assert missing["ACK-08"].startswith("with managedLedgerCursorPositionFlushSeconds=60 ")


SWITCHED: AnyOperation = SetDeduplication(topic="t", scope="topic", on=True)
TO_A_TIME: AnyOperation = ResetCursor(topic="t", subscription="s", to="b1", by_time=True)


@pytest.mark.parametrize(
    ("lacks", "operation", "others"),
    [
        (
            "deduplicationEnabled",
            SWITCHED,
            [SetDeduplication(topic="t", scope="namespace", on=True), CreateTopic(topic="t")],
        ),
        ("deduplicationEnabled", CreateTopic(topic="t", deduplication="topic-on"), [TO_A_TIME]),
        (
            "subscription/s/expireMessages",
            Expire(topic="t", subscription="s", up_to="b1"),
            [SkipAll(topic="t", subscription="s")],
        ),
        ("ledger/0/entry/0", TO_A_TIME, [ResetCursor(topic="t", subscription="s", to="b1"), SWITCHED]),
    ],
)
def test_only_operations_that_need_a_missing_feature_are_not_performed(
    lacks: str, operation: AnyOperation, others: list[AnyOperation]
) -> None:
    missing = Capabilities(Answers(lacks=frozenset({lacks})))
    assert missing.why_not(operation) == f"this release has no admin request TOPIC/{lacks}"
    assert [one for one in others if missing.why_not(one) is not None] == []
    assert Capabilities(Answers()).why_not(operation) is None


@pytest.mark.parametrize("name", ["topicLevelPoliciesEnabled", "systemTopicEnabled"])
def test_topics_have_policies_only_with_both_settings(name: str) -> None:
    assert Capabilities(Answers(runtime={name: "false"})).why_not(SWITCHED) == f"the broker has {name}=false"


def test_an_operation_that_cannot_be_performed_is_left_out_of_the_example() -> None:
    missing = Capabilities(Answers(lacks=frozenset({"deduplicationEnabled"})))
    lockstep = Lockstep(SimulatedPerformer(random.Random(1)), Example())
    example = RunningExample(
        lockstep,
        is_time_up=lambda: False,
        on_end=lambda _: None,
        can_be_done=lambda operation: missing.why_not(operation) is None,
    )
    example.do(CreateTopic(topic="t"))
    example.do(SetDeduplication(topic="t", scope="topic", on=False))
    assert [type(step.operation) for step in lockstep.steps] == [CreateTopic]


def test_snapshots_are_reachable_by_entries_or_by_time() -> None:
    for name in SELDOM:
        assert undecidable([PLAIN], world(*Capability, settings={name: SELDOM[name]})) == {}


def test_rules_of_several_brokers_and_bookies_are_undecidable_on_one_of_each_which_says_the_options() -> None:
    of_one = undecidable(MACHINES_OF_SERVICE, world(*OF_ONE_BROKER, lacks=frozenset({"another release"})))
    assert of_one == {
        "SERVE-06": "it needs a broker that the suite starts, to have another one take over its topics (--brokers 2)",
        "SERVE-07": "it needs a broker that the suite starts, to lose one of three bookies (--bookies 3)",
        "SERVE-14": "it needs a broker that the suite starts, to lose one of three bookies (--bookies 3)",
        "SERVE-15": "it needs brokers of two releases that the suite starts (--broker 4.0.8,4.2.4)",
    }
    assert undecidable(MACHINES_OF_SERVICE, world(*Capability)) == {}


def test_a_consumer_of_a_chunked_topic_has_a_client_that_assembles_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    features = {"java": {"chunking", "max-pending-chunked"}, "other": {"chunking"}, "rust": {"nack"}}
    clients = {
        f"{name}:1": ClientInfo(name=name, version="1", features=frozenset(these)) for name, these in features.items()
    }
    monkeypatch.setattr(capabilities, "libraries", lambda: tuple(clients))
    monkeypatch.setattr(capabilities, "client_info", clients.__getitem__)
    chosen_for = world().capabilities.libraries_for
    one = Subscribe("c", "t0", "s0", client="official")
    assert chosen_for(one) == ("java:1", "other:1", "rust:1")
    assert chosen_for(replace(one, max_pending_chunked=0)) == ("java:1", "other:1")
    assert chosen_for(replace(one, max_pending_chunked=2)) == ("java:1",)
