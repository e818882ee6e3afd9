"""The pytest plugin of a run, in which machines are ordinary tests; :mod:`conformance.pytest_plugin` has its options.

The replay of a saved history (``--pulsar-replay``) is a test, too, and runs instead of the machines. Plain ``pytest
--broker …`` needs no other option and runs one round of each machine. ``check`` passes all options.
"""

from __future__ import annotations

import os
import secrets
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec
import pytest

from conformance import events, known
from conformance.brokers.interface import Broker
from conformance.brokers.name import is_running_cluster
from conformance.brokers.select import demand_size, substitutes_of
from conformance.brokers.settings import CHOICES, Choice
from conformance.brokers.size import Size
from conformance.clients.driver.connect import DriverCommand, use
from conformance.clients.security.options import security_in
from conformance.clients.security.service import Security
from conformance.clients.versions import libraries_in
from conformance.engine.deployment import BrokerOfRun, settings_of
from conformance.engine.execution import spare_the_collector
from conformance.engine.lanes.starters import LaneStarters
from conformance.engine.machines import Machine
from conformance.engine.plan import Plan
from conformance.engine.run import Run
from conformance.harness_error import HarnessError
from conformance.lockstep.world import World
from conformance.pytest_plugin import MARK, REPLAY_MARK
from conformance.tenancy.footprint import Footprint
from conformance.tenancy.run_name import UNLIMITED_S, RunName
from model.rules.catalogue import select

ASSUMED = (
    "your role may not read the broker's settings (GET brokers/configuration/runtime): "
    "taken as topics show them, or as shipped"
)
"""The phase to emit if the role may not read the settings."""

_plan = pytest.StashKey[Plan]()
_emitter = pytest.StashKey[events.Emitter]()
_began = pytest.StashKey[float]()


def pytest_configure(config: pytest.Config) -> None:
    """Make the plan of the run; invalid options end pytest with one sentence."""
    try:
        settings = dict(_setting(text) for text in config.getoption("--pulsar-setting"))
        chosen = config.getoption("--pulsar-rules")
        rules = frozenset(rule.id for rule in select(chosen)) if chosen else frozenset[str]()
        security = _security(config.getoption("--pulsar-connection"))
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error
    drivers = config.getoption("--pulsar-drivers")
    if drivers is not None:
        use(*msgspec.json.decode(drivers, type=tuple[DriverCommand | None, ...]))
    seed = config.getoption("--pulsar-seed")
    config.stash[_began] = time.monotonic()
    config.stash[_emitter] = events.Emitter(config.getoption("--pulsar-events"), began=config.stash[_began])
    config.stash[_plan] = Plan(
        broker=config.getoption("--pulsar-broker"),
        seed=secrets.randbits(32) if seed is None else seed,
        rules=rules,
        report=config.getoption("--pulsar-report"),
        budget_s=config.getoption("--pulsar-budget-s"),
        shortening_s=config.getoption("--pulsar-shortening-s"),
        known=_names(config.getoption("--pulsar-known")),
        defect=config.getoption("--pulsar-defect"),
        settings=settings,
        choice=_choice(config.getoption("--pulsar-settings")),
        size=_size(config),
        lanes=_lanes(config.getoption("--pulsar-lanes")),
        coverage=config.getoption("--pulsar-coverage"),
        security=security,
        footprint=_footprint(config),
    )


def _lanes(number: int) -> int:
    if number < 1:
        raise pytest.UsageError(f"--pulsar-lanes is the number of examples that run at once, not {number}")
    return number


def _choice(text: str) -> Choice:
    for choice in CHOICES:
        if choice == text:
            return choice
    raise pytest.UsageError(f"there are no settings {text!r}; there are: {', '.join(CHOICES)}")


def _size(config: pytest.Config) -> Size:
    size = Size(brokers=config.getoption("--pulsar-brokers"), bookies=config.getoption("--pulsar-bookies"))
    try:
        demand_size(config.getoption("--pulsar-broker"), size)
    except HarnessError as error:
        raise pytest.UsageError(str(error)) from error
    return size


def _footprint(config: pytest.Config) -> Footprint:
    text, budget_s = config.getoption("--pulsar-run-name"), config.getoption("--pulsar-budget-s")
    name = RunName.new(at_most_s=budget_s or UNLIMITED_S) if text is None else RunName.parse(text)
    if name is None:
        raise pytest.UsageError(f"{text!r} is no name of a run")
    return Footprint(
        name=name,
        within=config.getoption("--pulsar-tenant"),
        may_change_settings=config.getoption("--pulsar-allow-cluster-settings"),
    )


def _security(pipe: int | None) -> Security:
    """How to connect: from the pipe, or from environment variables."""
    if pipe is None:
        return security_in(os.environ)
    with os.fdopen(pipe, "rb") as readable:
        return msgspec.json.decode(readable.read(), type=Security)


def _names(text: str | None) -> frozenset[str]:
    """The names in a comma-separated list; by default the shipped deviations."""
    if text is None:
        return frozenset(deviation.name for deviation in known.shipped())
    return frozenset(name for name in text.split(",") if name)


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ValueError(f"a setting is written NAME=VALUE, not {text!r}")
    return name, value


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """Print the seed before the first test, and what the run creates on a running cluster."""
    plan = config.stash[_plan]
    assert plan.footprint is not None
    footprint = plan.footprint.sentences() if is_running_cluster(plan.broker) else ()
    return [f"pulsar-conformance: {line}" for line in (f"seed {plan.seed}", *footprint)]


def machine_of(item: pytest.Item) -> Machine | None:
    """The machine of a test, if it has one."""
    mark = item.get_closest_marker(MARK)
    return mark.args[0] if mark else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out machines that decide none of the wanted rules; to replay a history, leave out everything else.

    Machines run a second time on the shipped settings, unless the broker has these or those of a running cluster, or a
    defect is hunted.
    """
    is_replay = config.getoption("--pulsar-replay") is not None
    plan = config.stash[_plan]
    rules = plan.rules
    has_one_base = plan.choice == "shipped" or plan.defect is not None or is_running_cluster(plan.broker)

    def is_wanted(item: pytest.Item) -> bool:
        replays = item.get_closest_marker(REPLAY_MARK) is not None
        if is_replay or replays:
            return is_replay and replays
        machine = machine_of(item)
        if machine is None:
            return True
        if machine.on_shipped and has_one_base:
            return False
        is_named = bool(config.option.keyword and rules & set(machine.decides))
        return not rules or is_named or machine.is_for(rules)

    left_out = [item for item in items if not is_wanted(item)]
    if left_out:
        items[:] = [item for item in items if is_wanted(item)]
        config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(tryfirst=True)
def pytest_keyboard_interrupt(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """Keep only where the interrupt arrived.

    pytest prints no more of it, but formats all, for which it parses the source of every function that was running.
    That takes seconds of the grace in which an interrupted engine has to stop.
    """
    excinfo.traceback = excinfo.traceback[-1:]


@pytest.fixture(scope="session")
def conformance_run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """The run on the started broker; a harness error ends the session with status 2."""
    config = request.config
    plan, emit = config.stash[_plan], config.stash[_emitter]
    plan.report.mkdir(parents=True, exist_ok=True)
    deployment = BrokerOfRun(plan, emit)
    machines = [machine for item in request.session.items if (machine := machine_of(item))]
    lane_starters = LaneStarters(sorted({machine.factory.__module__ for machine in machines}))
    try:
        if plan.lanes > 1:
            lane_starters.prepare()  # it takes about as long as the broker
        doing = "connecting to" if is_running_cluster(plan.broker) else "starting the broker"
        emit(events.Phase(at_s=emit.now_s, what=f"{doing} {plan.broker}"))
        base, settings = settings_of(plan, emit)
        world = deployment.start(base, settings)
        if world.assumes_settings:
            emit(events.Phase(at_s=emit.now_s, what=ASSUMED))
        run = Run(
            replace(plan, known=known.by_library(plan.known, libraries_in(world.clients))),
            world,
            emit,
            base=base,
            began=config.stash[_began],
            seeded=deployment.seeded,
            on_shipped=lambda: deployment.start("shipped", plan.settings),
            on_new_broker=lambda on: deployment.start(on, settings if on == base else plan.settings),
            lane_starters=lane_starters,
        )
        emit(_started(plan, world.broker, world, run.expect(machines), emit))
        spare_the_collector()
        # Hypothesis and the clients would swallow a KeyboardInterrupt.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda _number, _frame: run.interrupt())
        yield run
        run.settle_doubts()
        drawn = None if plan.coverage is None else run.drawn
        emit(events.RunFinished(at_s=emit.now_s, operations=run.operations, drawn=drawn))
        deployment.close()
    except HarnessError as harness_error:
        emit(_ended_by(harness_error, at_s=emit.now_s, log_tail=deployment.log_tail()))
        pytest.exit(str(harness_error), returncode=2)
    finally:
        lane_starters.close()
        deployment.close()


def _ended_by(error: HarnessError, *, at_s: float, log_tail: str) -> events.AnyEvent:
    if error.is_forbidden:
        return events.RunStopped(at_s=at_s, why="forbidden", sentence=str(error))
    return events.HarnessErrorHappened(at_s=at_s, sentence=str(error), log_tail=log_tail)


def _started(
    plan: Plan, broker: Broker, world: World, machines: Sequence[Machine], emit: events.Emitter
) -> events.RunStarted:
    return events.RunStarted(
        at_s=emit.now_s,
        release=broker.version,
        broker=plan.broker,
        clients=world.clients,
        seed=plan.seed,
        budget_s=plan.budget_s or 0.0,
        rules=tuple(sorted(plan.rules)),
        machines=tuple(machine.title for machine in machines),
        settings=world.settings,
        known=tuple(sorted(plan.known)),
        defect=plan.defect,
        substitutes=substitutes_of(plan.broker),
    )
