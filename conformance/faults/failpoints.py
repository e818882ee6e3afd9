"""Failpoints: a fault at one place inside a running broker, on one topic, the next so many times.

A failpoint's rules are put into the broker once and then sleep: arming one sets a system property that they look up by
the topic's name, which takes a millisecond where loading rules takes a hundred. Each time one fires it leaves a mark in
the broker's properties, so that a fault that was armed and did not happen can be told from one that did. What the
broker then ought to do is for the model to say; faults of whole topics, connections and processes are elsewhere.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from urllib.parse import quote_plus

from conformance.brokers.interface import AgentAddress
from conformance.faults.byteman import Agent
from conformance.faults.catalogue import find_failpoint
from model.failpoints import FAILPOINTS, AnyFailpoint

MAX_COUNT = 999_999
MAX_DELAY_MS = 999_999


@dataclass(frozen=True, slots=True)
class Fault:
    """A failpoint on a topic (``name`` or ``persistent://tenant/namespace/name``), for the next ``count`` times.

    ``spared``: so many entries pass first. ``delay_ms`` and ``spared`` count only for failpoints that have them.
    """

    kind: AnyFailpoint
    topic: str
    count: int = 1
    spared: int = 0
    delay_ms: int = 0

    @property
    def name(self) -> str:
        """The name of its rules in the broker."""
        return FAILPOINTS[self.kind].rules or self.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Armed:
    """A fault that was armed in a broker."""

    address: AgentAddress
    fault: Fault
    token: str

    def fired(self) -> int:
        """How many times it has happened so far; a harness error when the broker's process is gone."""
        return len(_marks(Agent(self.address), self.token))

    def disarm(self) -> int:
        """Take it back, and return how many times it happened; a delay that has begun still runs to its end.

        HarnessError when it never happened because its rules do not fit the broker's code.
        """
        agent = Agent(self.address)
        agent.set_properties({_key(self.fault): ""})
        marks = _marks(agent, self.token)
        agent.set_properties(dict.fromkeys(marks, ""))
        if not marks:
            agent.check({self.fault.name: find_failpoint(self.fault.name).text})
        return len(marks)


def arm(address: AgentAddress, fault: Fault) -> Armed:
    """Arm a fault; it replaces one of the same kind on the same topic. Nothing is left of it after a restart.

    Raises ``ValueError`` for a count or delay out of range or a topic that is not named in full,
    :class:`~conformance.harness_error.HarnessError` where the agent does not do it.
    """
    failpoint = FAILPOINTS[fault.kind]
    delay_ms = fault.delay_ms if failpoint.has_delay else 0
    spared = fault.spared if failpoint.can_spare else 0
    if not (1 <= fault.count <= MAX_COUNT and 0 <= spared <= MAX_COUNT and 0 <= delay_ms <= MAX_DELAY_MS):
        raise ValueError(f"a failpoint's count is 1 to {MAX_COUNT}, its delay 0 to {MAX_DELAY_MS} ms: {fault}")
    key = _key(fault)
    agent = Agent(address)
    _install(agent, fault.name)
    token = uuid.uuid4().hex
    agent.set_properties({key: f"{fault.count:06} {delay_ms:06} {spared:06} {token}"})
    return Armed(address=address, fault=fault, token=token)


@contextmanager
def armed(address: AgentAddress, fault: Fault) -> Iterator[Armed]:
    """Arm a fault for the length of a block, at whose end the broker must still be there."""
    with_fault = arm(address, fault)
    try:
        yield with_fault
    finally:
        with_fault.disarm()


def install_all(address: AgentAddress) -> None:
    """See to it that the rules of all failpoints are in the broker's process, so that several processes can arm some at
    once."""
    agent = Agent(address)
    for name in sorted({FAILPOINTS[kind].rules or kind for kind in FAILPOINTS}):
        _install(agent, name)


def _install(agent: Agent, name: str) -> None:
    """See to it that a failpoint's rules, in this version, are in the broker's process."""
    failpoint = find_failpoint(name)
    key, digest = f"conformance.installed:{name}", sha256(failpoint.text.encode()).hexdigest()
    if agent.properties().get(key) != digest:
        agent.load({name: failpoint.text})
        agent.set_properties({key: digest})


def _marks(agent: Agent, token: str) -> list[str]:
    return [name for name in agent.properties() if name.startswith(f"conformance.hit:{token}:")]


def _key(fault: Fault) -> str:
    """The property that the rules of a failpoint look up: its name, and the topic's as managed ledgers are named."""
    place = fault.topic.removeprefix("persistent://")
    if place.count("/") != 2:
        raise ValueError(f"not a full topic name (persistent://tenant/namespace/topic): {fault.topic}")
    tenant, namespace, local = place.split("/")
    return f"conformance.{fault.name}:{tenant}/{namespace}/persistent/{_encoded(local)}"


def _encoded(local_name: str) -> str:
    """A topic's own name as Pulsar encodes it in a managed ledger's name: Java's URL encoding."""
    return quote_plus(local_name, safe="*").replace("~", "%7E")
