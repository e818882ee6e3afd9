"""Failpoints: a fault at one place of a running broker, on one topic, for the next so many times.

A failpoint's rules are loaded into the broker once. To arm one, a system property is set that they look up by the
topic's name; this takes a millisecond, while loading rules takes a hundred. Each time one fires, it increments another
property, which shows whether an armed fault has happened.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Final
from urllib.parse import quote_plus

from conformance.brokers.interface import AgentAddress
from conformance.faults.byteman import Agent
from conformance.faults.catalogue import find_failpoint
from conformance.harness_error import HarnessError
from conformance.wait import wait_until
from model.failpoints import FAILPOINTS, AnyFailpoint

MAX_COUNT = 999_999
MAX_DELAY_MS = 999_999
BEGUN: Final = "begun"
"""The mark of rules that have begun to act. What fails in them hides the call that they were to change."""
RULE_S: Final = 1.0
"""How long rules may take to act."""


@dataclass(frozen=True, slots=True)
class FailpointOnTopic:
    """A failpoint on a topic (``name`` or ``persistent://tenant/namespace/name``), for the next ``count`` times.

    ``spared``: so many entries pass first. Only some failpoints have ``delay_ms`` and ``spared``.
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
class ArmedFailpoint:
    """An armed fault of a broker."""

    address: AgentAddress
    fault: FailpointOnTopic
    token: str

    def fired(self) -> int:
        """How many times it has fired so far. Raises a harness error if the broker's process is gone."""
        return len(_marks(Agent(self.address), self.token))

    def disarm(self) -> int:
        """Disarm it, and return how many times it fired; a running delay ends first.

        Raises HarnessError if it never fired because its rules have an error, or if they failed in the broker.
        """
        agent = Agent(self.address)
        agent.set_properties({_key(self.fault): ""})
        is_complete = wait_until(lambda: BEGUN not in _marks(agent, self.token).values(), RULE_S)
        marks = _marks(agent, self.token)
        agent.set_properties(dict.fromkeys(marks, ""))
        if not is_complete:
            raise HarnessError(f"the rules of the failpoint {self.fault.name} failed: the broker's log says why")
        if not marks:
            agent.check({self.fault.name: find_failpoint(self.fault.name).text})
        return len(marks)


def arm(address: AgentAddress, fault: FailpointOnTopic) -> ArmedFailpoint:
    """Arm a fault; it replaces one of the same kind on the same topic, and ends with the broker's process.

    Raises ``ValueError`` for a count or delay out of range or an incomplete topic name, and
    :class:`~conformance.harness_error.HarnessError` if the agent fails.
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
    return ArmedFailpoint(address=address, fault=fault, token=token)


@contextmanager
def armed(address: AgentAddress, fault: FailpointOnTopic) -> Iterator[ArmedFailpoint]:
    """Arm a fault for a ``with`` block, at the end of which the broker must still run."""
    with_fault = arm(address, fault)
    try:
        yield with_fault
    finally:
        with_fault.disarm()


def pass_minutes(address: AgentAddress, topic: str, minutes: int) -> None:
    """From now on it is so many minutes later for deduplication of a topic, until :func:`forget_minutes` or the end of
    the broker's process."""
    agent = Agent(address)
    _install(agent, "producers-purged")
    key = _minutes(topic)
    agent.set_properties({key: str(int(agent.properties().get(key, "0")) + minutes)})


def forget_minutes(address: AgentAddress, topic: str) -> None:
    """Undo :func:`pass_minutes`, where the broker has no use for the topic any more."""
    Agent(address).set_properties({_minutes(topic): ""})


def install_all(address: AgentAddress) -> None:
    """Load the rules of all failpoints into the broker's process, so that several processes can arm them at once."""
    agent = Agent(address)
    for name in sorted({FAILPOINTS[kind].rules or kind for kind in FAILPOINTS}):
        _install(agent, name)


def _install(agent: Agent, name: str) -> None:
    """Load a failpoint's rules, in this version, into the broker's process."""
    failpoint = find_failpoint(name)
    key, digest = f"conformance.installed:{name}", sha256(failpoint.text.encode()).hexdigest()
    if agent.properties().get(key) != digest:
        agent.load({name: failpoint.text})
        agent.set_properties({key: digest})


def _marks(agent: Agent, token: str) -> dict[str, str]:
    return {name: mark for name, mark in agent.properties().items() if name.startswith(f"conformance.hit:{token}:")}


def _key(fault: FailpointOnTopic) -> str:
    """The property that a failpoint's rules look up: its name, and that of the topic's managed ledger."""
    return f"conformance.{fault.name}:{_ledger(fault.topic)}"


def _minutes(topic: str) -> str:
    return f"conformance.minutes-passed:{_ledger(topic)}"


def _ledger(topic: str) -> str:
    """The name of a topic's managed ledger."""
    place = topic.removeprefix("persistent://")
    if place.count("/") != 2:
        raise ValueError(f"not a full topic name (persistent://tenant/namespace/topic): {topic}")
    tenant, namespace, local = place.split("/")
    return f"{tenant}/{namespace}/persistent/{_encoded(local)}"


def _encoded(local_name: str) -> str:
    """A topic's own name as Pulsar encodes it in a managed ledger's name: Java's URL encoding."""
    return quote_plus(local_name, safe="*").replace("~", "%7E")
