"""``check --dry-run``: says what a check would run and what it can decide, and creates nothing that stays.

A broker of the suite is started and stopped again, because only a running broker shows all that its release lacks. On a
running cluster only requests are sent that read. What shows only on a topic of the run is assumed to be there.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.text import Text

from conformance.brokers.installation.java import find_java
from conformance.brokers.interface import Capability
from conformance.brokers.select import parse_broker
from conformance.clients.admin.client import Admin
from conformance.clients.admin.http import AdminError
from conformance.clients.security.credentials import role_of
from conformance.clients.security.service import Security
from conformance.commands.check import CheckOptions
from conformance.commands.supervision.engine import Engine
from conformance.engine.catalogue import DESCRIPTIONS, Description
from conformance.engine.undecidable import undecidable_here
from conformance.events import Emitter
from conformance.lockstep.capabilities import Capabilities
from conformance.lockstep.settings.in_force import settings_in_force
from conformance.report.console import say, show_table
from conformance.report.sentences.lists import count
from conformance.tenancy.cluster_settings import CLASSIC
from conformance.tenancy.footprint import Footprint
from model.rules.rule import Decided


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """The broker: ``sentences`` on it, what the suite is able to do to it, and why it cannot decide a rule."""

    sentences: tuple[str, ...]
    able: frozenset[Capability]
    missing: Mapping[str, str]
    refusal: str | None = None
    """Why the cluster would refuse the run."""


def dry_run(asked: CheckOptions, engine: Engine, *, out: Console) -> int:
    """Print it; returns 2 if the cluster would refuse the run, or a rule that was named by its id cannot be decided."""
    engine.demand(asked.broker, asked.settings, asked.choice, asked.size)
    engine.obtain(asked.broker, engine.security)
    seen = _of_own_broker(asked) if asked.footprint is None else _of_cluster(asked, asked.footprint, engine.security)
    for sentence in seen.sentences:
        say(out, sentence)
    if seen.refusal is not None:
        say(out, f"The cluster would refuse the run: {seen.refusal}.", style="yellow")
        return 2
    machines = _chosen(asked)
    running = [machine for machine in machines if machine.needs <= seen.able]
    say(
        out,
        f"Would run {len(running)} of {count(len(machines), 'machine', 'machines')} for these rules, with seed "
        f"{asked.seed}, for {asked.budget_s:g} s.",
    )
    return _say_decidable(asked, undecidable_here(machines, seen.missing, seen.able), out)


def _say_decidable(asked: CheckOptions, missing: Mapping[str, str], out: Console) -> int:
    rules = [rule for rule in asked.rules if rule.decided_by != (Decided.MODEL,)]
    lacking = [rule for rule in rules if rule.id in missing]
    say(out, f"Can decide {len(rules) - len(lacking)} of {count(len(rules), 'rule', 'rules')}.", style="bold")
    if lacking:
        rows = [(Text(rule.id), Text(missing[rule.id])) for rule in lacking]
        show_table(out, rows, justify=("left", "left"), headings=("Not decidable", ""))
    return 2 if asked.named & {rule.id for rule in lacking} else 0


def _chosen(asked: CheckOptions) -> Sequence[Description]:
    """The machines that the check would choose for these rules."""
    if asked.machines:
        return [machine for machine in DESCRIPTIONS if machine.name in asked.machines]
    rules = {rule.id for rule in asked.rules}
    return [machine for machine in DESCRIPTIONS if machine.is_for(rules)]


def _of_own_broker(asked: CheckOptions) -> _Seen:
    """Start the broker with the settings of the check, and stop it again."""
    from conformance.engine.deployment import BrokerOfRun, settings_of
    from conformance.engine.plan import Plan

    began = time.monotonic()
    with tempfile.TemporaryDirectory() as report:
        plan = Plan(
            broker=asked.broker,
            seed=asked.seed,
            rules=frozenset(rule.id for rule in asked.rules),
            report=Path(report),
            settings=dict(asked.settings),
            choice=asked.choice or "quick",
            size=asked.size,
        )
        emit = Emitter(None, began=began)
        deployment = BrokerOfRun(plan, emit)
        try:
            world = deployment.start(*settings_of(plan, emit))
            java = find_java()
            sentences = (
                f"Broker {asked.broker}: Pulsar {world.broker.version}, on Java {java.major} ({java.executable}); "
                f"started in {time.monotonic() - began:.0f} s, and stopped again.",
                "Creates nothing outside of the folders of the report and of the broker that it starts.",
            )
            return _Seen(sentences=sentences, able=world.broker.capabilities, missing=world.capabilities.undecidable())
        finally:
            deployment.close()


def _of_cluster(asked: CheckOptions, footprint: Footprint, security: Security) -> _Seen:
    broker = parse_broker(asked.broker, security=security)
    with Admin(broker.addresses.admin) as admin:
        version, runtime = admin.broker_version(), settings_in_force(admin)
        role = role_of(security)
        may_read = "may" if runtime is not None else "may not"
        whose = "The role of this connection" if role is None else f"Role {role!r}"
        sentences = (
            f"{asked.broker}: Pulsar {version}. {whose} {may_read} read the brokers' configuration"
            + ("." if runtime is not None else ", so settings are taken to be as shipped."),
            *footprint.sentences(),
            "Nothing was created now. What only a topic of the run would show is taken to be there.",
        )
        traits = _WithoutTopics(admin, runtime, footprint)
        return _Seen(
            sentences=sentences,
            able=broker.capabilities,
            missing=Capabilities(traits).undecidable(),
            refusal=_refusal(admin, footprint),
        )


def _refusal(admin: Admin, footprint: Footprint) -> str | None:
    """Why the role may not create what the run needs: a role that may, may also list it."""
    try:
        if footprint.within is None:
            admin.tenants()
        else:
            admin.namespaces(footprint.within)
    except AdminError as error:
        return str(error)
    return None


class _WithoutTopics:
    """What a cluster shows of itself before the run has a topic there."""

    def __init__(self, admin: Admin, runtime: Mapping[str, str] | None, footprint: Footprint) -> None:
        self.runtime = runtime
        self._admin = admin
        self._topic = f"persistent://{footprint.within or footprint.name}/{footprint.name}/none"
        classic = (runtime or {}).get(CLASSIC)
        may_change = footprint.may_change_settings
        self.is_switchable = classic is not None
        self.can_drain = classic != "true" or may_change
        self.can_be_classic = classic == "true" or (self.is_switchable and may_change)
        self.are_alike = self.are_known = True
        self.can_fail_power = self.can_change_release = False

    @property
    def key_shared(self) -> Self:
        return self

    @property
    def dispatchers(self) -> Self:
        return self

    def has_admin_request(self, path: str) -> bool:
        return self._admin.has_request(self._topic, path)

    def has_stats_field(self, _part: str, _name: str) -> bool:
        return True

    def has_entry_header(self, _name: str) -> bool:
        return True
