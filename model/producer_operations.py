"""Operations on the producers of a topic, which contend for it or are inactive, with their outcomes; as in
:mod:`model.operations`."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from model.vocabulary import Operation, Outcome


class AwaitProducers(Operation, frozen=True):
    """Wait until the producers of a topic are as their access modes demand. ProducersRead.

    A producer that waits for exclusive access has it as soon as no other one is open; one that was fenced, or whose
    topic was reloaded while it waited, is closed.
    """

    is_look: ClassVar = True

    topic: str


class PurgeProducers(Operation, frozen=True):
    """So many minutes pass for deduplication of a topic; then its broker looks for inactive producers. ProducersPurged.

    Producers that are connected are active meanwhile.
    """

    request: ClassVar = "purge"
    may_be_cause: ClassVar = True

    topic: str
    minutes: int


class Queued(Outcome, frozen=True):
    """A producer waits for exclusive access."""


class Activated(Struct, frozen=True):
    """A session that waited was given exclusive access: its last sequence id, and the topic's epoch, as of Opened."""

    session: str
    last_sequence_id: int
    epoch: int | None = None


class ProducersRead(Outcome, frozen=True, omit_defaults=True):
    """The sessions of the wire client on a topic: those that wait, those that are open, and those ``activated`` since
    the last time, in this order. ``waited_ms``: how long it was waited for that."""

    waiting: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    activated: tuple[Activated, ...] = ()
    waited_ms: float = 0.0


class ProducersPurged(Outcome, frozen=True):
    """The broker has forgotten the producers that were inactive for longer than ``timeout_min``, by its setting."""

    timeout_min: int


ProducerAnswer = Queued | ProducersRead | ProducersPurged
"""Every outcome that only these have."""
