"""The topic of each operation of a history.

Topics are independent (DEDUP-07), so most violations do not need the operations on other topics. If a history of one
topic does not break the rule, the minimiser keeps all topics.
"""

from __future__ import annotations

from collections.abc import Sequence

from model.operations import AnyOperation


def topics_of(operations: Sequence[AnyOperation]) -> list[str | None]:
    """The topic that each operation names, or else the last topic of its actor; None if there is neither."""
    last: dict[str, str] = {}
    topics = []
    for operation in operations:
        actor, topic = operation.actor, operation.topic
        if actor is not None and topic is not None:
            last[actor] = topic
        topics.append(topic if topic is not None or actor is None else last.get(actor))
    return topics
