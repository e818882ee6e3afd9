"""Limits on unacknowledged messages: a consumer that has as many gets no more, and gets more when it acknowledged.

A broker stops at the limit, and goes on once half of that is left. How far the last dispatch before that may exceed the
limit differs between releases, so what counts is that nothing is dispatched behind it.
"""

from __future__ import annotations

from model.events import ReceivedMessages, Starved
from model.judgement import Broken
from model.rules.catalogue import carries
from model.subscriptions.consumers import SHARED, Consumer
from model.subscriptions.state import Consumption


@carries("SERVE-05")
def received(
    before: Consumption, after: Consumption, name: str, outcome: ReceivedMessages | Starved
) -> tuple[str, ...] | Broken:
    """A consumer received, or did not because the broker says that it is blocked; the rules that this exercised."""
    consumer = before.consumers[name]
    is_blocked = isinstance(outcome, ReceivedMessages) and outcome.blocked
    if len(consumer.topics) > 1 or not _is_known(consumer) or not _is_known(after.consumers[name]):
        return ()
    limit = before.topics[consumer.topics[0]].limits.unacknowledged if consumer.kind in SHARED else 0
    had, has = len(consumer.unacknowledged), len(after.consumers[name].unacknowledged)
    if limit and had >= limit and outcome.messages:
        given = f"is given {len(outcome.messages)} more"
        return Broken("SERVE-05", f"{name} has {had} unacknowledged messages, where {limit} are allowed, and {given}")
    if is_blocked and (not limit or has <= limit // 2):
        allowed = f"where {limit} are allowed" if limit else "where any number is"
        return Broken("SERVE-05", f"{name} is blocked for {has} unacknowledged messages, {allowed}")
    return ("SERVE-05",) if limit and (is_blocked or had >= limit) else ()


def _is_known(consumer: Consumer) -> bool:
    """Whether what is unacknowledged at a consumer is what the broker counts there."""
    return consumer.client == "wire" and not (consumer.is_outdone or consumer.asks_twice or consumer.may_repeat)
