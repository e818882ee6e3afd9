"""A producer of pulsar-client in a process of its own: it sends what it is given, and reports each outcome.

It is a process because a producer has to be killed with messages in flight: pulsar-client's own way of ending at once
stops everything for ten seconds when an answer arrives at that moment.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
from typing import Final

from conformance.clients.handles import OfficialProducerHandle, Ticket
from conformance.clients.outcomes import ConnectionLost, Lost, NoAnswer, Receipt, SendError, ServerRefused
from conformance.workers.line import Line
from conformance.workers.protocol import (
    Answered,
    Close,
    Die,
    Failed,
    Order,
    ProduceOrder,
    ProducerOpened,
    Report,
    SendOrder,
)

FOR_EVER_S: Final = threading.TIMEOUT_MAX


def produce(order: ProduceOrder, line: Line[Order]) -> None:
    """Open, and obey until the end."""
    try:
        producer = OfficialProducerHandle(order.service, order.topic, order.name, timeout_s=order.timeout_s)
    except ServerRefused as refused:
        line.send(Failed(None, refused.code, refused.message, is_refused=True))
        return
    except (ConnectionLost, NoAnswer) as error:
        line.send(Failed(None, type(error).__name__, str(error), is_refused=False))
        return
    line.send(ProducerOpened(producer.last_sequence_id))
    sent: queue.SimpleQueue[tuple[int, Ticket]] = queue.SimpleQueue()
    threading.Thread(target=_report_answers, args=(sent, line), daemon=True).start()
    while (what := line.receive()) is not None:
        match what:
            case SendOrder(sequence_id, payload):
                sent.put((sequence_id, producer.send(sequence_id, payload)))
            case Close():
                producer.close()
                return
            case Die():
                os.kill(os.getpid(), signal.SIGKILL)
            case _:
                raise ValueError(f"not for a producer: {what}")


def _report_answers(sent: queue.SimpleQueue[tuple[int, Ticket]], line: Line[Order]) -> None:
    """Report what becomes of each message, in the order of sending, in a thread of its own."""
    while True:
        sequence_id, ticket = sent.get()
        line.send(_report(sequence_id, ticket))


def _report(sequence_id: int, ticket: Ticket) -> Report:
    match ticket.wait(FOR_EVER_S):
        case Receipt(position=position):
            return Answered(sequence_id, position)
        case SendError(code, message):
            return Failed(sequence_id, code, message, is_refused=True)
        case Lost(reason):
            return Failed(sequence_id, "Lost", reason, is_refused=False)
        case None:
            raise AssertionError("it is waited for without end")
