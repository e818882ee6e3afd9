"""What both scenarios' programs have in common as consumers of the wire client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from conformance.clients.outcomes import ConnectionLost, ServerRefused
from conformance.clients.security.service import Service
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.consumer import WireConsumer, WireDelivery
from conformance.wait import Deadline, retry
from model.events import Delivery

PAUSE_S: Final = 0.005
"""How long to leave a broker alone that did not let a consumer in."""


def keep_on(receive: Callable[[], Iterator[WireDelivery]], deadline: Deadline) -> Iterator[WireDelivery]:
    """What is delivered, from a new consumer whenever one was closed or refused; raises that once it is too late.

    A consumer that comes back the moment after it died is refused in several ways (3.3.6 has one without a text), and
    none of them breaks a rule as long as it is let in in the end.
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
def connected(service: Service) -> Iterator[WireClient]:
    """A client on a connection of its own, which is cut in the end: nobody else may be refused because of it."""
    client = WireClient(service)
    try:
        yield client
    finally:
        client.abort()


def open_consumer(subscribe: Callable[[], WireConsumer], deadline: Deadline) -> WireConsumer:
    """Subscribe, again and again while the topic is being loaded or the consumer that died is not noticed to be gone.

    Raises what ``subscribe`` does: a refusal that will not pass, or any once the deadline is over.
    """
    return retry(
        subscribe,
        deadline,
        may_pass=lambda error: isinstance(error, ServerRefused) and (error.may_pass or error.code == "ConsumerBusy"),
    )


def to_message(delivery: WireDelivery) -> Delivery:
    """A delivery as the model has it; a batch of one message is a message without a batch.

    The size of its batch is left out: pulsar-client does not report it, and messages are compared across clients.
    """
    index = delivery.batch_index if delivery.batch_size > 1 else -1
    return Delivery(delivery.position, index, 0, delivery.payload.decode(errors="replace"))
