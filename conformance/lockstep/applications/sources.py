"""Sources on a real broker: applications that send all their entries again until they are confirmed.

The state that survives a crash is what an application would store elsewhere: its entries, and which are confirmed. A
life has one thread: it sends at its start, and continues while the performer waits for it. The wire client sends once,
so its source detects failures and opens another producer. pulsar-client reconnects and resends itself, as the document
recommends. It runs in a process of its own, which can be killed with sends in flight.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from conformance.applications.remote_producer import RemoteProducerHandle
from conformance.clients.handles import ProducerHandle, Ticket, WireProducerHandle, send_entry
from conformance.clients.outcomes import CLIENT_ERRORS, Receipt
from conformance.lockstep.network import Network
from conformance.wait import Deadline, retry
from conformance.workers.protocol import Report
from conformance.workers.starter import Starter
from model.events import AnyOutcome, Confirmed, Skipped, SourceEnded, SourceStarted, Stuck
from model.log import Position
from model.operations import CrashSource, FinishSource, StartSource
from model.vocabulary import Client, Entry

LIFE_TIMEOUT_S: Final[dict[Client, float]] = {"wire": 10.0, "official": 40.0}
"""How long a source may take to have everything confirmed after the last fault; far longer than ever measured.

pulsar-client backs off while a broker is down.
"""
STALL_S: Final = 8.0
"""How long without an answer a source waits for pulsar-client to reconnect, before it opens another producer."""


@dataclass(slots=True)
class _Application:
    """The state of a source across its lives."""

    topic: str
    entries: list[Entry] = field(default_factory=list)
    confirmed: set[int] = field(default_factory=set)
    life: SourceLife | None = None

    def to_send(self, operation: StartSource, last_sequence_id: int) -> Sequence[Entry]:
        """The entries that a new life sends, in the source's order."""
        match operation.goes_on:
            case "with-new-only":
                return operation.entries
            case "from-told-id":
                return [entry for entry in self.entries if entry.lowest > last_sequence_id]
            case "from-checkpoint":
                return self.entries[max(0, self._checkpoint() - operation.back) :]

    def _checkpoint(self) -> int:
        """How many entries were confirmed before the first one that was not."""
        confirmed = (entry.lowest in self.confirmed for entry in self.entries)
        return next((number for number, is_confirmed in enumerate(confirmed) if not is_confirmed), len(self.entries))


class Sources:
    """The sources of one example."""

    def __init__(self, starter: Starter[Report], network: Network) -> None:
        self._starter = starter
        self._network = network
        self._all: dict[str, _Application] = {}

    def start(self, operation: StartSource, topic: str) -> AnyOutcome:
        """Start a life on a topic, by its full name."""
        source = self._all.setdefault(operation.source, _Application(topic))
        if source.life is not None:
            return Skipped("the source lives")
        if source.topic != topic:
            return Skipped("the source belongs to another topic")
        try:
            patience_s = STALL_S if operation.client == "official" else LIFE_TIMEOUT_S["wire"]
            life = SourceLife(self._opener(operation, topic), LIFE_TIMEOUT_S[operation.client], patience_s)
        except NotLetIn as error:
            return Stuck(str(error))
        source.entries += operation.entries
        source.life = life
        life.send(source.to_send(operation, life.last_sequence_id))
        return SourceStarted(life.last_sequence_id)

    def _opener(self, operation: StartSource, topic: str) -> Callable[[float], ProducerHandle]:
        place = (self._network.service, topic, operation.source)
        if operation.client == "wire":
            return lambda timeout_s: WireProducerHandle(*place, timeout_s=timeout_s)
        return lambda timeout_s: RemoteProducerHandle(self._starter, *place, timeout_s=timeout_s)

    def end(self, operation: FinishSource | CrashSource) -> AnyOutcome:
        """Continue a life until all, or the given number of entries, are confirmed, and end it."""
        source = self._all.get(operation.source)
        if source is None or source.life is None:
            return Skipped("the source does not live")
        life, source.life = source.life, None
        error = life.go_on(operation.confirmed if isinstance(operation, CrashSource) else None)
        if error is None and isinstance(operation, FinishSource):
            life.close()
        else:
            life.crash()
        source.confirmed |= life.confirmed.keys()
        if error is not None:
            return Stuck(error)
        confirmed = tuple(Confirmed(sequence_id, position) for sequence_id, position in life.confirmed.items())
        return SourceEnded(confirmed, left=life.left, came_back=life.came_back, stalled=life.stalled)

    def close(self) -> None:
        """End all lives at once."""
        for source in self._all.values():
            if source.life is not None:
                source.life.crash()
                source.life = None


class NotLetIn(Exception):
    """A producer could not be opened in time."""


class SourceLife:
    """One life of a source: its unconfirmed entries, and a producer that is opened again after each failure."""

    def __init__(self, open_once: Callable[[float], ProducerHandle], timeout_s: float, patience_s: float) -> None:
        """``open_once`` opens a producer within the given seconds. Raises :class:`NotLetIn` after ``timeout_s``.

        ``patience_s``: how long an answer may take before another producer is opened.
        """
        self.confirmed: dict[int, Position | None] = {}
        """The positions of confirmed entries by their lowest ids; None for duplicates."""
        self.came_back = 0
        """How often the producer had to be opened again."""
        self.stalled = 0
        """How often the only reason was a missing answer."""
        self._open_once = open_once
        self._timeout_s = timeout_s
        self._patience_s = patience_s
        self._unconfirmed: deque[Entry] = deque()
        self._in_flight: deque[Ticket] = deque()
        self._producer: ProducerHandle = self._open(Deadline.after(timeout_s))
        self.last_sequence_id = self._producer.last_sequence_id
        """That of the first ProducerSuccess of this life."""

    @property
    def left(self) -> int:
        """How many entries are not confirmed."""
        return len(self._unconfirmed)

    def send(self, entries: Sequence[Entry]) -> None:
        """Send entries without waiting."""
        self._unconfirmed += entries
        self._in_flight += [send_entry(self._producer, entry) for entry in entries]

    def go_on(self, count: int | None) -> str | None:
        """Wait and resend until ``count`` entries (None: all) are confirmed; returns the reason if that is late."""
        deadline = Deadline.after(self._timeout_s)
        last_error = "none"
        while self._unconfirmed and (count is None or len(self.confirmed) < count):
            if deadline.passed:
                return f"{len(self._unconfirmed)} entries are not confirmed; the last error: {last_error}"
            outcome = self._in_flight[0].wait(min(deadline.left_s, self._patience_s))
            if isinstance(outcome, Receipt):
                self.confirmed[self._unconfirmed.popleft().lowest] = outcome.position
                self._in_flight.popleft()
                continue
            self.stalled += outcome is None
            last_error = "no answer in time" if outcome is None else str(outcome)
            try:
                self._come_back(deadline)
            except NotLetIn as error:
                return str(error)
        return None

    def _come_back(self, deadline: Deadline) -> None:
        """Open the producer again, and send from the first unconfirmed entry on."""
        self._producer.abort()
        self._producer = self._open(deadline)
        self.came_back += 1
        self._in_flight = deque(send_entry(self._producer, entry) for entry in self._unconfirmed)

    def _open(self, deadline: Deadline) -> ProducerHandle:
        try:
            return retry(
                lambda: self._open_once(deadline.left_s),
                deadline,
                may_pass=lambda error: isinstance(error, CLIENT_ERRORS),
            )
        except CLIENT_ERRORS as error:
            raise NotLetIn(f"the producer is not let in: {error}") from error

    def close(self) -> None:
        """Close the producer gracefully."""
        self._producer.close()

    def crash(self) -> None:
        """Cut the connection; sends in flight may or may not arrive."""
        self._producer.abort()
