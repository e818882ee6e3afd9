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
from typing import ClassVar
from urllib.parse import quote_plus

from conformance.brokers.interface import AgentAddress
from conformance.faults.byteman import Agent
from conformance.faults.catalogue import find_failpoint

MAX_COUNT = 999_999
MAX_DELAY_MS = 999_999


@dataclass(frozen=True, slots=True, kw_only=True)
class _OnTopic:
    """What all failpoints have: the topic (``name`` or ``persistent://tenant/namespace/name``), and how many times."""

    topic: str
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFails(_OnTopic):
    """The writes of the next ``count`` entries behind ``spared`` ones fail, and nothing of them is stored.

    So do the writes behind them until the broker has recovered: it refuses every send while writes are in flight, then
    disconnects the topic's producers.
    """

    name: ClassVar[str] = "write-fails"
    spared: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFailsLate(_OnTopic):
    """As :class:`WriteFails` (and it replaces one on the same topic), after ``delay_ms`` in flight."""

    name: ClassVar[str] = "write-fails"
    spared: int = 0
    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSlow(_OnTopic):
    """The next ``count`` entries are stored, but their writes stay in flight for ``delay_ms`` (from when stored).

    Order is kept: entries stored after a slow one wait for it.
    """

    name: ClassVar[str] = "write-slow"
    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotWriteFails(_OnTopic):
    """The next ``count`` attempts to persist a deduplication snapshot fail.

    Not every snapshot is persisted: a cursor's first one is, later ones as often as the broker's setting
    ``managedLedgerDefaultMarkDeleteRateLimit`` lets it (0.1 a second as shipped, 0 for every time).
    """

    name: ClassVar[str] = "snapshot-write-fails"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSlow(_OnTopic):
    """The next ``count`` deduplication snapshots are taken in time, and written ``delay_ms`` late."""

    name: ClassVar[str] = "snapshot-slow"
    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashBeforeConfirmation(_OnTopic):
    """The broker's process ends, as by SIGKILL, between storing the ``count``-th entry from now and confirming it.

    It takes the marks of this firing with it: that the process is gone is the sign.
    """

    name: ClassVar[str] = "crash-before-confirmation"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmationLost(_OnTopic):
    """The next ``count`` entries are stored and recorded, but their producers' connections close before the receipt."""

    name: ClassVar[str] = "confirmation-lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerCloseSlow(_OnTopic):
    """The next ``count`` ledgers that become full take ``delay_ms`` to close.

    Their last entry is stored and readable, and the broker counts it among the confirmed entries; its producer and
    the deduplication state learn of it after the closing.
    """

    name: ClassVar[str] = "ledger-close-slow"
    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySlow(_OnTopic):
    """What the next ``count`` recoveries read of the log reaches deduplication ``delay_ms`` late.

    Where the broker begins a second recovery beside the first, that one begins a quarter of the delay later, when the
    first has read all. Neither changes anything but which thread is in time.
    """

    name: ClassVar[str] = "replay-slow"
    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSlow(_OnTopic):
    """What the next ``count`` reads for a Shared or Key_Shared subscription gave reaches the dispatcher late.

    By ``delay_ms``. Only then are consumers chosen for it; they may come and go meanwhile.
    """

    name: ClassVar[str] = "read-slow"
    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchSlow(_OnTopic):
    """The next ``count`` times, ``delay_ms`` pass between choosing a consumer and adding to its pending messages.

    For Key_Shared. Brokers hold the dispatcher's lock between the two: a consumer that joins or leaves waits for it,
    and one that crashes is gone when it is sent to.
    """

    name: ClassVar[str] = "dispatch-slow"
    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSlow(_OnTopic):
    """The next ``count`` joins or leaves take ``delay_ms`` between new ranges and the registering of what drains.

    For Key_Shared from 4.0 on. Acks and negative acks are taken meanwhile, messages are not sent. Connections that the
    broker serves by the same thread wait, too.
    """

    name: ClassVar[str] = "join-slow"
    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveSlow(_OnTopic):
    """The next ``count`` consumers that close or crash are taken out of their subscription ``delay_ms`` late.

    Connections that the broker serves by the same thread wait, too.
    """

    name: ClassVar[str] = "leave-slow"
    delay_ms: int


Fault = (
    WriteFails
    | WriteFailsLate
    | WriteSlow
    | SnapshotWriteFails
    | SnapshotSlow
    | CrashBeforeConfirmation
    | ConfirmationLost
    | LedgerCloseSlow
    | ReplaySlow
    | ReadSlow
    | DispatchSlow
    | JoinSlow
    | LeaveSlow
)
"""Every fault that can be armed."""

_DELAYING = (
    WriteFailsLate,
    WriteSlow,
    SnapshotSlow,
    LedgerCloseSlow,
    ReplaySlow,
    ReadSlow,
    DispatchSlow,
    JoinSlow,
    LeaveSlow,
)


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
    delay_ms = fault.delay_ms if isinstance(fault, _DELAYING) else 0
    spared = fault.spared if isinstance(fault, WriteFails | WriteFailsLate) else 0
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
