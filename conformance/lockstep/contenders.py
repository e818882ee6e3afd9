"""Producers that contend for a topic: those that wait for exclusive access, and the epochs that sessions learned.

It waits until no access mode demands a change any more, and judges nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from conformance.clients.outcomes import ConnectionLost, ServerRefused
from conformance.clients.wire.pump import pump_of_this_thread
from conformance.lockstep.sessions import ProducerSession, WireSession
from conformance.wait import Deadline, wait_until
from model.operations import OpenProducer
from model.producer_operations import Activated, ProducersRead
from model.service.access import BUSY, FENCED

ACTIVATION_TIMEOUT_S: Final = 5.0
"""How long a broker may take to give or end access; a thousand times as long as ever measured."""
OF_EPOCH: Final = "epoch"
"""What the error says if a producer is refused for its epoch, which no retry changes."""


class Contenders:
    """The sessions of one example that wait for exclusive access. ``sessions``: those that are open."""

    def __init__(self, sessions: Mapping[str, ProducerSession]) -> None:
        self._sessions = sessions
        self._waiting: dict[str, WireSession] = {}
        self._reloaded: set[str] = set()
        self._fenced: set[str] = set()
        """Sessions that are open for their client only."""
        self._epochs: dict[str, int] = {}
        self._contended: set[str] = set()

    def epoch_of(self, operation: OpenProducer) -> int | None:
        """The epoch with which an operation reopens its session."""
        return self._epochs.get(operation.session) if operation.has_epoch else None

    def opened(self, session: str, live: ProducerSession) -> None:
        """A session is open, with a topic's epoch, and may have fenced others."""
        self._fenced.discard(session)
        if not isinstance(live, WireSession) or live.epoch is None:
            return
        self._contended.add(live.topic)
        if live.access != "Shared":  # a Shared producer is given the topic's epoch, too, but not the access that counts
            self._epochs[session] = live.epoch
        if live.access == "ExclusiveWithFencing":
            self._fenced |= {name for name, other in self._sessions.items() if other.topic == live.topic} - {session}

    def queued(self, session: str, live: WireSession) -> None:
        self._contended.add(live.topic)
        self._waiting[session] = live
        self._reloaded.discard(session)

    def pop(self, session: str) -> WireSession | None:
        """A session that waits, which does so no longer."""
        return self._waiting.pop(session, None)

    def reloaded(self, topic: str | None = None) -> None:
        """A topic was reloaded, or all of them were: the broker that queued its producers forgot them."""
        self._reloaded |= {name for name, live in self._waiting.items() if topic in (None, live.topic)}

    def may_be_gone(self, error: ServerRefused, operation: OpenProducer, topic: str, since: Deadline) -> bool:
        """Whether only connections that were cut may refuse a producer, of which the broker learns a little later.

        ``since``: until when it must have, if producers contend for the topic.
        """
        if error.code not in (BUSY, FENCED) or OF_EPOCH in error.message:
            return False
        if since.passed and (operation.access != "Shared" or topic in self._contended):
            return False
        if self._waiting_on(topic):
            return False
        there = [live for name, live in self._open_on(topic) if name != operation.session]
        return not (there if operation.access != "Shared" else [live for live in there if _is_exclusive(live)])

    def settle(self, topic: str, activate: Callable[[str, WireSession], None]) -> ProducersRead:
        """Wait until no access mode demands a change. ``activate`` is called with each session that has access now."""
        began_s = time.monotonic()
        activated: list[Activated] = []

        def is_settled() -> bool:
            pump_of_this_thread().turn(0.0)
            for name, live in list(self._waiting_on(topic)):
                if self._is_over(name, live):
                    del self._waiting[name]
                elif not live.is_queued:
                    del self._waiting[name]
                    self.opened(name, live)
                    activate(name, live)
                    activated.append(Activated(name, live.last_sequence_id or 0, live.epoch))
            return self._is_settled(topic)

        wait_until(is_settled, ACTIVATION_TIMEOUT_S)
        waiting = tuple(name for name, _ in self._waiting_on(topic))
        for name in self._reloaded.intersection(waiting):
            self._waiting.pop(name).crash()  # the broker has forgotten it
        return ProducersRead(
            waiting=waiting,
            open=tuple(name for name, _ in self._open_on(topic)),
            activated=tuple(activated),
            waited_ms=round(1000 * (time.monotonic() - began_s), 3),
        )

    def close(self) -> None:
        for live in self._waiting.values():
            live.crash()
        self._waiting.clear()

    def _waiting_on(self, topic: str) -> Iterable[tuple[str, WireSession]]:
        return [(name, live) for name, live in self._waiting.items() if live.topic == topic]

    def _open_on(self, topic: str) -> list[tuple[str, ProducerSession]]:
        live = [(name, one) for name, one in self._sessions.items() if one.topic == topic and one.is_open]
        return [(name, one) for name, one in live if name not in self._fenced]

    def _is_over(self, name: str, live: WireSession) -> bool:
        """Whether the broker has ended a session that waited."""
        try:
            live.is_activated()
        except (ServerRefused, ConnectionLost):
            return True
        return not live.is_open or name not in self._waiting

    def _is_settled(self, topic: str) -> bool:
        waiting = [name for name, _ in self._waiting_on(topic)]
        return self._reloaded.isdisjoint(waiting) and (not waiting or bool(self._open_on(topic)))


def _is_exclusive(live: ProducerSession) -> bool:
    return isinstance(live, WireSession) and live.access != "Shared"
