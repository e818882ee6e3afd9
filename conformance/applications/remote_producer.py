"""The suite's side of a producer of pulsar-client in a process of its own, which can be killed with sends in flight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from conformance.clients.handles import CLOSE_TIMEOUT_S, Ticket
from conformance.clients.outcomes import Lost, NoAnswer, Receipt, SendError, SendOutcome, ServerRefused
from conformance.clients.security.service import Service
from conformance.harness_error import HarnessError
from conformance.workers.protocol import Answered, Close, Die, Failed, ProduceOrder, ProducerOpened, Report, SendOrder
from conformance.workers.starter import Starter, Worker

OPENING_TIMEOUT_S: Final = CLOSE_TIMEOUT_S
"""How much longer than its own timeout a producer's process may take to report what became of opening."""


class _Ticket:
    """A send; outcomes are reported in the order of sending, so tickets are waited for in that order."""

    def __init__(self, worker: Worker[Report], sequence_id: int) -> None:
        self.outcome: SendOutcome | None = None
        self._worker = worker
        self._sequence_id = sequence_id

    def wait(self, timeout_s: float) -> SendOutcome | None:
        """Wait for its outcome; None if none is reported in time."""
        if self.outcome is None:
            try:
                report = self._worker.receive(timeout_s)
            except NoAnswer:
                return None
            match report:
                case Answered(self._sequence_id, position):
                    self.outcome = Receipt(self._sequence_id, 0, position)
                case Failed(self._sequence_id, code, message, is_refused):
                    self.outcome = SendError(code, message) if is_refused else Lost(message)
                case _:
                    raise HarnessError(f"a producer's process was to report on {self._sequence_id}, and sent: {report}")
        return self.outcome


class RemoteProducerHandle:
    """A producer of pulsar-client, without a send timeout, in a process of its own."""

    def __init__(self, starter: Starter[Report], service: Service, topic: str, name: str, *, timeout_s: float) -> None:
        """Start the process, and have it open. Raises what is in ``CLIENT_ERRORS``."""
        self._worker = starter.run(ProduceOrder(service, topic, name, timeout_s))
        match report := self._worker.receive(timeout_s + OPENING_TIMEOUT_S):
            case ProducerOpened(last_sequence_id):
                self.last_sequence_id = last_sequence_id
            case Failed(code=code, message=message, is_refused=is_refused):
                self._worker.await_end()
                raise ServerRefused(code, message) if is_refused else NoAnswer(message)
            case _:
                raise HarnessError(f"a producer's process was to report that it is open, and sent: {report}")

    def send(
        self, sequence_id: int, payload: bytes, *, partition_key: str | None = None, ordering_key: str | None = None
    ) -> Ticket:
        assert partition_key is None
        assert ordering_key is None
        self._worker.send(SendOrder(sequence_id, payload))
        return _Ticket(self._worker, sequence_id)

    def send_batch(self, messages: Sequence[tuple[int, bytes]]) -> Ticket:
        """Refused: where pulsar-client's batches end is not known outside its process."""
        raise HarnessError(f"a source of pulsar-client sends single messages only, and not {len(messages)} as a batch")

    def close(self) -> None:
        self._worker.send(Close())
        self._worker.await_end()

    def abort(self) -> None:
        self._worker.send(Die())
        self._worker.await_end()
