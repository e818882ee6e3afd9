"""Performs the operations of document 004 on simulated subscriptions,
like :mod:`conformance.lockstep.cursors.key_shared`.

Gathering waits until the broker has nothing more to do; the model judges what it should have done by then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import assert_never

from model.events import AnyOutcome, Done, DueReceived, Skipped
from model.subscription_operations import KeyOperation, Permit, ReceiveDue
from tests.lockstep.simulated.consumers import Key
from tests.lockstep.simulated.dispatch import Dispatcher
from tests.lockstep.simulated.subscription import Subscription


class SimulatedKeyShares:
    """The part of document 004 in one example."""

    def __init__(
        self, dispatcher: Dispatcher, subscriptions: Mapping[Key, Subscription], drift: Callable[[], None]
    ) -> None:
        """``drift`` lets some time pass."""
        self._dispatcher = dispatcher
        self._subscriptions = subscriptions
        self._drift = drift

    def switch(self, topic: str, *, classic: bool) -> None:
        """A topic's subscriptions get the classic implementation, or that with draining hashes, at the next load."""
        self._dispatcher.classic[topic] = classic

    def perform(self, operation: KeyOperation) -> AnyOutcome:
        """Perform one operation, and return its outcome."""
        self._drift()
        match operation:
            case Permit(name, count):
                if name not in self._dispatcher.consumers:
                    return Skipped("there is no such consumer of the wire client")
                self._dispatcher.consumers[name].permits += count
                return Done()
            case ReceiveDue(topic, subscription):
                key = (topic, subscription)
                return self._gather(key) if key in self._subscriptions else Skipped("there is no such subscription")
            case _:
                assert_never(operation)

    def _gather(self, key: Key) -> DueReceived:
        self._dispatcher.send_all(key)
        keyed = self._dispatcher.keyed(key)
        shares = [
            keyed.share(name, tuple(message for _, message in one.take(len(one.waiting))))
            for name, one in self._dispatcher.on(key).items()
            if keyed is not None and one.client == "wire"
        ]
        draining = [hashed for share in shares for hashed in share.draining]
        return DueReceived(
            tuple(shares),
            draining=len(draining),
            unacknowledged=sum(hashed.unacknowledged for hashed in draining),
            cleared=sum(share.cleared for share in shares),
        )
