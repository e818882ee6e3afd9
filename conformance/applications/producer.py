"""A producer of pulsar-client, in a process of its own: it sends what it is handed, and says what becomes of it.

It is a process because a producer has to be killed with messages in flight: pulsar-client's own way of ending at once
stops everything for ten seconds when an answer comes in at that moment.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
from contextlib import suppress
from typing import Final

from conformance.applications.words import Answered, Close, Die, Failed, Hand, Line, Order, Produce, Report, Told
from conformance.clients.driver.client import OfficialClient, OfficialProducer, OfficialTicket
from conformance.clients.outcomes import ConnectionLost, Lost, NoAnswer, Receipt, SendError, SendOutcome, ServerRefused

FOR_EVER_S: Final = threading.TIMEOUT_MAX


def produce(order: Produce, line: Line[Order]) -> None:
    """Open, and do as told until told to end."""
    client = OfficialClient(order.service, timeout_s=max(1.0, order.timeout_s))
    try:
        producer = client.open_producer(order.topic, name=order.name)
    except ServerRefused as refused:
        line.say(Failed(None, refused.code, refused.message, is_refused=True))
        return
    except (ConnectionLost, NoAnswer) as error:
        line.say(Failed(None, type(error).__name__, str(error), is_refused=False))
        return
    line.say(Told(producer.last_sequence_id))
    sent: queue.SimpleQueue[OfficialTicket] = queue.SimpleQueue()
    threading.Thread(target=_tell_answers, args=(producer, sent, line), daemon=True).start()
    _obey(client, producer, sent, line)


def _obey(
    client: OfficialClient, producer: OfficialProducer, sent: queue.SimpleQueue[OfficialTicket], line: Line[Order]
) -> None:
    while (order := line.hear()) is not None:
        match order:
            case Hand(entry):
                message = entry.messages[0]
                sent.put(producer.send(message.sequence_id, message.business_id.encode()))
            case Close():
                with suppress(ConnectionLost, NoAnswer, ServerRefused):
                    producer.close()
                    client.close()
                return
            case Die():
                os.kill(os.getpid(), signal.SIGKILL)
            case _:
                raise ValueError(f"not for a producer: {order}")


def _tell_answers(producer: OfficialProducer, sent: queue.SimpleQueue[OfficialTicket], line: Line[Order]) -> None:
    """Say what becomes of each message, in the order of sending; a thread of its own, for as long as there are any."""
    while True:
        ticket = sent.get()
        line.say(_report(ticket.sequence_id, producer.answer(ticket, timeout_s=FOR_EVER_S)))


def _report(sequence_id: int, outcome: SendOutcome) -> Report:
    match outcome:
        case Receipt(position=position):
            return Answered(sequence_id, position)
        case SendError(code, message):
            return Failed(sequence_id, code, message, is_refused=True)
        case Lost(reason):
            return Failed(sequence_id, "Lost", reason, is_refused=False)
