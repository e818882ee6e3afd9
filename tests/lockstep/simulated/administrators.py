"""Requests for a whole namespace, and of two administrators at once, on the simulated broker."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection

from model.administrator_operations import AdministratorRequest, AtOnce, ClearBacklog, Concurrent
from model.events import AnyOutcome, BothAnswered, Done, RequestAnswer
from model.subscription_operations import DeleteSubscription, Skip, SkipAll
from tests.lockstep.simulated.consumers import Key
from tests.lockstep.simulated.variants import SimulatedVariant


class SimulatedAdministrators:
    """The administrators of one example. ``request``: performs a request about one subscription."""

    def __init__(
        self,
        chance: random.Random,
        variant: SimulatedVariant,
        subscriptions: Collection[Key],
        request: Callable[[Concurrent], AnyOutcome],
    ) -> None:
        self._chance = chance
        self._variant = variant
        self._subscriptions = subscriptions
        self._request = request

    def is_lost(self, operation: object) -> bool:
        """Whether a request for a namespace is answered, and has no effect."""
        is_wide = isinstance(operation, SkipAll | DeleteSubscription) and operation.scope != "topic"
        return is_wide and self._variant.namespace_requests_lost

    def perform(self, operation: AdministratorRequest) -> AnyOutcome:
        """Perform one operation, and return its outcome."""
        match operation:
            case ClearBacklog(topic):
                there = [key for key in self._subscriptions if key[0] == topic]
                for _, name in there[:1] if self._variant.first_subscription_cleared else there:
                    self._request(SkipAll(topic, name))
                return Done()
            case AtOnce(first, second):
                return self._at_once(first, second)

    def _at_once(self, first: Concurrent, second: Concurrent) -> BothAnswered:
        """One after the other, in any order."""
        is_first = self._chance.random() < 0.5
        earlier = _answer(self._request(first if is_first else second))
        later = self._later(second if is_first else first)
        return BothAnswered(earlier, later) if is_first else BothAnswered(later, earlier)

    def _later(self, request: Concurrent) -> RequestAnswer:
        if self._variant.later_skip_lost and isinstance(request, Skip | SkipAll):
            return Done()
        return _answer(self._request(request))


def _answer(outcome: AnyOutcome) -> RequestAnswer:
    assert isinstance(outcome, RequestAnswer), outcome
    return outcome
