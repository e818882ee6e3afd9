"""Defects that need several brokers or bookies: each breaks its rule in a short history, and only while it is on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product

import pytest

from conformance.brokers.deployment import Deployment
from conformance.brokers.select import parse_broker
from conformance.brokers.settings import MACHINES
from conformance.brokers.size import Size
from conformance.clients.admin.client import Admin
from conformance.engine.execution import perform
from conformance.faults.catalogue import BrokerDefect, find
from conformance.faults.defects import switched, was_reached
from conformance.faults.seeded_defect import agents_for
from conformance.known import shipped
from conformance.lockstep import owners
from conformance.lockstep.lockstep import Lockstep
from conformance.lockstep.real import RealPerformer
from conformance.lockstep.world import World
from conformance.tenancy.place import RunPlace
from conformance.wait import wait_until
from model.events import Abandoned
from model.example import Example
from model.operations import (
    AcknowledgeAtFrozen,
    AnyOperation,
    CreateTopic,
    FreezeOwner,
    LoseBookie,
    OpenProducer,
    ReadLog,
    RestoreBookies,
    Send,
    SendToFrozen,
    SetDeduplication,
    TakeOver,
    ThawOwners,
)
from model.service.unexpected import ErrorAnswer, Overdue
from model.subscription_operations import CreateSubscription, ReadCursor, Receive, Subscribe
from model.vocabulary import Entry, Message


def entries(*numbers: int) -> tuple[Entry, ...]:
    return tuple(Entry((Message(number, f"b{number}"),)) for number in numbers)


BEFORE = (CreateTopic("t0", persistence="every-ack", quorum="2/2/2"), OpenProducer("s", "t0", "p"))
TAKEN_OVER = (*BEFORE, Send("s", entries(1, 2, 3)), TakeOver("t0", "unload"))
THAWED = (
    *BEFORE,
    Send("s", entries(1, 2)),
    FreezeOwner("t0"),
    SendToFrozen("s", entries(3, 4)),
    ThawOwners(),
    OpenProducer("s", "t0", "p"),
    Send("s", entries(5)),
)
WITHOUT_BOOKIE = (
    *BEFORE,
    *(one for number in range(3) for one in (LoseBookie(number), Send("s", entries(1 + number)), RestoreBookies())),
)
READ_WITHOUT_EACH_BOOKIE = tuple(
    one for number in range(3) for one in (LoseBookie(number), ReadLog("t0"), RestoreBookies())
)
PART_OF_BATCH = Entry((Message(1, "b1"), Message(2, "b2")))
ACKNOWLEDGED_AT_FROZEN = (
    *BEFORE,
    CreateSubscription("t0", "s0", start="earliest"),
    Send("s", (PART_OF_BATCH,)),
    Subscribe("c1", "t0", "s0", kind="Shared"),
    Receive("c1", 2),
    FreezeOwner("t0"),
    AcknowledgeAtFrozen("c1", (0,)),
    ThawOwners(),
    ReadCursor("t0", "s0"),
    TakeOver("t0", "kill"),
    ReadCursor("t0", "s0"),
)

PLAYS = 3
OF_A_SLOW_BROKER = (None, "SERVE-01", "SERVE-02")
"""The rules that a broker which does not return in time may break."""

HISTORIES: dict[str, Sequence[AnyOperation]] = {
    "former-owner-confirms": THAWED,
    "takeover-skips-last-entry": TAKEN_OVER,
    "recovery-without-fencing": THAWED,
    "ensemble-change-lost": WITHOUT_BOOKIE,
    "entry-on-one-bookie": (*BEFORE, Send("s", entries(1, 2, 3)), *READ_WITHOUT_EACH_BOOKIE),
    "replacement-left-empty": (*WITHOUT_BOOKIE, *READ_WITHOUT_EACH_BOOKIE),
}


@contextmanager
def started(text: str, size: Size) -> Iterator[World]:
    """A deployment of brokers, as ``--broker`` names them, that the suite starts and stops."""
    settings = {name: setting.value for name, setting in MACHINES.items()}
    deployment = parse_broker(text, settings=settings, size=size)
    assert isinstance(deployment, Deployment)
    deployment.start()
    made = World(deployment, place=RunPlace(deployment))
    yield made
    made.close()
    deployment.stop()


@pytest.fixture(scope="module")
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    text: str = request.config.getoption("--broker")
    if text.startswith(("container:", "pulsar:", "standalone:")):
        pytest.skip("--broker names no release")
    with started(text, Size(brokers=2, bookies=3)) as world:
        yield world


def played(world: World, operations: Sequence[AnyOperation], *defects: BrokerDefect) -> str | None:
    """The rule that a history breaks, beside what the release is known to break.

    A broker that does not return in time cuts an example short, which shows nothing: it is played again.
    """
    version, settings = world.broker.version, world.broker.configuration
    known = frozenset(one.name for one in shipped() if one.concerns(version, settings=settings))
    why = ""
    for _ in range(PLAYS):
        with ExitStack() as on:
            agents = [agent for defect in defects for agent in agents_for(defect, world.broker)]
            for agent, defect in product(agents, defects):
                on.enter_context(switched(agent, defect))
            attempt = perform(operations, Lockstep(RealPerformer(world), Example(known=known)))
            rule = None if attempt.violation is None else attempt.violation.rule
            match attempt.steps[-1].outcome:
                case Abandoned(why) if rule in OF_A_SLOW_BROKER:
                    continue
                case _:
                    assert all(any(was_reached(agent, defect) for agent in agents) for defect in defects)
                    return rule
    pytest.fail(f"each of {PLAYS} plays was cut short: {why}")


@pytest.mark.parametrize("name", HISTORIES)
def test_a_defect_of_a_larger_deployment_breaks_its_rule_only_while_it_is_on(world: World, name: str) -> None:
    defect = find(name)
    assert isinstance(defect, BrokerDefect)
    assert played(world, HISTORIES[name], defect) == defect.breaks
    assert played(world, HISTORIES[name]) is None


def test_a_zombie_that_persists_the_ack_of_a_part_of_a_batch_breaks_no_other_rule(world: World) -> None:
    assert played(world, ACKNOWLEDGED_AT_FROZEN) is None


def test_what_the_suite_closes_where_no_broker_takes_over_is_not_the_broker_s_doing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The brokers start again only once the example has ended."""

    def never(condition: Callable[[], object], timeout_s: float, **how: float) -> object:
        return None if condition.__name__ == "are_elsewhere" else wait_until(condition, timeout_s, **how)

    with monkeypatch.context() as patched:
        patched.setattr(owners, "wait_until", never)
        operations = (*BEFORE, Send("s", entries(1)), FreezeOwner("t0", "cut-off"))
        attempt = perform(operations, Lockstep(RealPerformer(world), Example()))
    assert isinstance(attempt.steps[-1].outcome, Abandoned)
    (late,) = attempt.steps[-1].unexpected
    assert isinstance(late, Overdue)
    assert late.what.startswith("no other broker takes over")
    assert played(world, TAKEN_OVER) is None


def test_an_error_says_whether_the_broker_that_answers_is_one_of_several(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_another_topic(admin: Admin, topic: str, enabled: bool) -> None:
        set_policy(admin, f"{topic}-missing", enabled)

    set_policy = Admin.set_topic_deduplication
    monkeypatch.setattr(Admin, "set_topic_deduplication", of_another_topic)
    attempt = perform((*BEFORE, SetDeduplication("t0", "topic", on=True)), Lockstep(RealPerformer(world), Example()))
    (answer,) = attempt.steps[-1].unexpected
    assert isinstance(answer, ErrorAnswer)
    assert (answer.code, answer.is_of_several) == ("404", True)
