"""Sources on a real broker: applications that send everything they have, again and again, until it is confirmed.

What survives a source's death is what an application would keep elsewhere: what there is to send, and how far it was
confirmed. A life is single-threaded: it sends when it begins, and continues whenever somebody waits for it. The wire
client sends once, so its source notices failures and opens another producer. pulsar-client reconnects and sends again
by itself, as the document recommends. It runs in a process of its own, which can be killed with sends in flight.
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
"""How long a source may take to have everything confirmed while nothing fails any more; far beyond what was seen.

pulsar-client waits ever longer between its attempts while a broker is away.
"""
STALL_S: Final = 8.0
"""After how long without an answer a source does not rely any longer on pulsar-client's coming back by itself."""


@dataclass(slots=True)
class _Application:
    """What a source keeps over its lives."""

    topic: str
    entries: list[Entry] = field(default_factory=list)
    confirmed: set[int] = field(default_factory=set)
    life: Life | None = None

    def to_send(self, operation: StartSource, told: int) -> Sequence[Entry]:
        """What a new life has to send, in the source's order, once ``entries`` has what it comes to in it."""
        match operation.goes_on:
            case "with-new-only":
                return operation.entries
            case "from-told-id":
                return [entry for entry in self.entries if entry.lowest > told]
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
        """Begin a life on a topic, by its full name."""
        source = self._all.setdefault(operation.source, _Application(topic))
        if source.life is not None:
            return Skipped("the source lives")
        if source.topic != topic:
            return Skipped("the source belongs to another topic")
        try:
            patience_s = STALL_S if operation.client == "official" else LIFE_TIMEOUT_S["wire"]
            life = Life(self._opener(operation, topic), LIFE_TIMEOUT_S[operation.client], patience_s)
        except NotLetIn as error:
            return Stuck(str(error))
        source.entries += operation.entries
        source.life = life
        life.send(source.to_send(operation, life.told))
        return SourceStarted(life.told)

    def _opener(self, operation: StartSource, topic: str) -> Callable[[float], ProducerHandle]:
        place = (self._network.service, topic, operation.source)
        if operation.client == "wire":
            return lambda timeout_s: WireProducerHandle(*place, timeout_s=timeout_s)
        return lambda timeout_s: RemoteProducerHandle(self._starter, *place, timeout_s=timeout_s)

    def end(self, operation: FinishSource | CrashSource) -> AnyOutcome:
        """Let a life go on until all, or as much as is asked for, is confirmed, and end it."""
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
    """A producer could not be opened in good time."""


class Life:
    """One life of a source: a producer that is opened again whenever something goes wrong, and what it has to send."""

    def __init__(self, open_once: Callable[[float], ProducerHandle], timeout_s: float, patience_s: float) -> None:
        """``open_once`` opens a producer, within so many seconds. :class:`NotLetIn` if it cannot in ``timeout_s``.

        ``patience_s``: how long an answer may take before another producer is opened.
        """
        self.confirmed: dict[int, Position | None] = {}
        """The entries that were confirmed, by their lowest ids, and where they are; None for duplicates."""
        self.came_back = 0
        """How often the producer had to be opened again."""
        self.stalled = 0
        """How often that was because no answer came, and nothing else."""
        self._open_once = open_once
        self._timeout_s = timeout_s
        self._patience_s = patience_s
        self._unconfirmed: deque[Entry] = deque()
        self._in_flight: deque[Ticket] = deque()
        self._producer: ProducerHandle = self._open(Deadline.after(timeout_s))
        self.told = self._producer.last_sequence_id
        """The sequence id that the broker said it had when this life began."""

    @property
    def left(self) -> int:
        """How many entries are not confirmed."""
        return len(self._unconfirmed)

    def send(self, entries: Sequence[Entry]) -> None:
        """Send entries, all in flight at once, without waiting."""
        self._unconfirmed += entries
        self._in_flight += [send_entry(self._producer, entry) for entry in entries]

    def go_on(self, count: int | None) -> str | None:
        """Wait, and send again, until so many entries (None: all) are confirmed; why it was not done in good time."""
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
        """Open the producer again, and send from the first entry on that was not confirmed."""
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
        """End it in good order."""
        self._producer.close()

    def crash(self) -> None:
        """Cut its connection; what is in flight may or may not arrive."""
        self._producer.abort()
