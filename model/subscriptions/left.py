"""What is left of a subscription whatever state it is in: the messages that are surely not acknowledged."""

from __future__ import annotations

from collections.abc import Iterator

from model.cursors.acked import Acked
from model.cursors.cursor import Cursor
from model.cursors.log import TopicLog
from model.subscriptions.consumers import Key, Message
from model.subscriptions.state import Consumption


def surely_left(state: Consumption, key: Key) -> Iterator[Message]:
    """The messages that are not acknowledged in whatever state the subscription is in, in order."""
    log, cursor = state.log(key[0]), state.cursors[key]
    left = [frozenset(upper(one, cursor, log).messages_left(log)) for one in cursor.possible]
    return ((key[0], place) for place in sorted(frozenset.intersection(*left)))


def is_surely_left(state: Consumption, key: Key, message: Message) -> bool:
    """Whether a message is not acknowledged in whatever state the subscription is in."""
    log, cursor = state.log(key[0]), state.cursors[key]
    return not any(upper(one, cursor, log).has_message(message[1]) for one in cursor.possible)


def upper(state: Acked, cursor: Cursor, log: TopicLog) -> Acked:
    """The state if all acknowledgments that may have taken effect did."""
    for ack in cursor.unsure:
        state = ack.on(state, log)
    return state
