"""Network faults of simulated consumers."""

from __future__ import annotations

import random
from collections.abc import Callable

from model.events import Acknowledged, AnyOutcome, Done, ReceivedMessages, Skipped, Starved
from model.subscription_operations import Acknowledge, Receive
from model.vocabulary import IN_ORDER
from tests.lockstep.simulated.consumers import Consumer
from tests.lockstep.simulated.dispatch import Dispatcher

NOTHING_RECEIVED = Skipped("the consumer has received nothing")


class SimulatedNetwork:
    """Cuts consumers' connections at any moment."""

    def __init__(
        self,
        chance: random.Random,
        dispatcher: Dispatcher,
        *,
        perform: Callable[[Receive | Acknowledge], AnyOutcome],
        leave: Callable[[str], Done],
        lose: Callable[[Consumer, str], None],
    ) -> None:
        """``perform``: an operation of a consumer; ``leave``: it disconnects; ``lose``: its grouped acks are lost."""
        self._chance = chance
        self._dispatcher = dispatcher
        self._perform = perform
        self._leave = leave
        self._lose = lose

    def fails(self, doing: Receive | Acknowledge) -> AnyOutcome:
        """A consumer learns some of the outcome and is disconnected; an ack may have arrived or not."""
        outcome = self._some_of(doing) if isinstance(doing, Receive) else self._perhaps(doing)
        if not isinstance(outcome, Skipped):
            self._leave(doing.consumer)
        return outcome

    def _some_of(self, doing: Receive) -> AnyOutcome:
        count = self._chance.randint(0, doing.count)
        taken = self._perform(Receive(doing.consumer, count)) if count else ReceivedMessages(())
        assert isinstance(taken, ReceivedMessages | Starved)
        return ReceivedMessages(taken.messages)

    def _perhaps(self, doing: Acknowledge) -> AnyOutcome:
        consumer = self._dispatcher.consumers[doing.consumer]
        if self._chance.random() < 0.3 and (not doing.cumulative or consumer.kind in IN_ORDER):
            messages = consumer.chosen(doing.nth[:1] if doing.cumulative else doing.nth)
            return Acknowledged(tuple(m for _, m in messages), receipt=False) if messages else NOTHING_RECEIVED
        outcome = self._perform(doing)
        if isinstance(outcome, Acknowledged) and self._chance.random() < 0.5:
            return Acknowledged(outcome.messages, receipt=False)
        return outcome

    def cuts(self, name: str) -> AnyOutcome:
        """A consumer's connections are cut, and its client reconnects."""
        consumer = self._dispatcher.consumers[name]
        if consumer.client != "official":
            return Skipped("only pulsar-client comes back by itself")
        for topic in consumer.topics:
            self._lose(consumer, topic)
        self._dispatcher.reconnect(name)
        return Done()
