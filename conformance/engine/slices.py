"""The topic of each operation of a history.

Topics do not influence one another (DEDUP-07), so most violations show as well without the other topics' operations.
Where that is not so, a history of one topic does not show the violation, and the minimiser keeps the whole of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from model.operations import AnyOperation


def topics_of(operations: Sequence[AnyOperation]) -> list[str | None]:
    """The topic that each operation names, or else the one its actor named last; None where there is neither."""
    last: dict[str, str] = {}
    topics = []
    for operation in operations:
        actor, topic = operation.actor, operation.topic
        if actor is not None and topic is not None:
            last[actor] = topic
        topics.append(topic if topic is not None or actor is None else last.get(actor))
    return topics
