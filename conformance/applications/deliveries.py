"""What the programs of both scenarios have in common as consumers of the wire client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from conformance.clients.handles import ReceivedMessage, SubscriptionConfig, WireConsumerHandle
from conformance.clients.outcomes import ConnectionLost, ServerRefused
from conformance.clients.security.service import Service
from conformance.wait import Deadline, retry
from model.events import Delivery

PAUSE_S: Final = 0.005


def keep_on(receive: Callable[[], Iterator[ReceivedMessage]], deadline: Deadline) -> Iterator[ReceivedMessage]:
    """What is delivered, from a new consumer whenever one was closed or refused; raises that after the deadline.

    A consumer that subscribes right after it died is refused in several ways (3.3.6 has one without a text). None of
    them breaks a rule as long as it can subscribe in the end.
    """
    while True:
        try:
            yield from receive()
        except (ConnectionLost, ServerRefused):
            if deadline.passed:
                raise
            time.sleep(PAUSE_S)
        else:
            return


@contextmanager
def consumer(service: Service, wanted: SubscriptionConfig, deadline: Deadline) -> Iterator[WireConsumerHandle]:
    """A consumer whose connection is cut in the end: nobody else may be refused because of it.

    It subscribes again while the topic is being loaded, or the broker has not noticed that the last one died. Raises
    any other refusal, and any after the deadline.
    """
    handle = retry(
        lambda: WireConsumerHandle(service, wanted, timeout_s=deadline.left_s),
        deadline,
        may_pass=lambda error: isinstance(error, ServerRefused) and (error.may_pass or error.code == "ConsumerBusy"),
    )
    try:
        yield handle
    finally:
        handle.abort()


def to_delivery(message: ReceivedMessage) -> Delivery:
    """A message as the model has it; a batch of one message is a message without a batch.

    The size of its batch is left out: pulsar-client does not report it, and messages are compared across clients.
    """
    index = -1 if message.batch_size == 1 else message.batch_index
    return Delivery(message.position, index, 0, message.payload.decode(errors="replace"))
