"""Upgrades histories of format 3 on several clusters: the operations of document 001 become common ones.

It works on plain JSON values, as :mod:`conformance.history.upgrade`. A send without a session gets one, so there may be
more steps than before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

Value = dict[str, Any]

RENAMED: Final[dict[str, str]] = {
    "ReceiveAt": "Receive",
    "AcknowledgeAt": "AckById",
    "LeaveAt": "CloseConsumer",
    "UnloadAt": "Unload",
    "RestartCluster": "Restart",
    "KillCluster": "Kill",
    "Behind": "Lagging",
    "NotPassedOn": "ReplicatorStalled",
}
"""The new tags of operations and outcomes, by old tag."""

FIELDS: Final = {
    "AckById": {"messages": "ids", "is_cumulative": "cumulative"},
    "AwaitAnswered": {"behind": "after"},
    "ReplicatorStalled": {"seconds": "stalled_s"},
}
"""The new names of fields, by new tag and old name."""

SNAPSHOT_ROOM: Final = 10_000
"""The shipped number of producers of a deduplication snapshot, which the old outcome lacks."""


def upgraded(history: Value) -> Value:
    """The history with common operations. KeyError, TypeError or AttributeError if it has another format."""
    steps: list[Value] = []
    numbers: dict[int, int] = {}
    upgrade = _Upgrade()
    for number, step in enumerate(history["steps"], start=1):
        steps += upgrade.steps_of(step)
        numbers[number] = len(steps)
    violation = history.get("violation")
    if violation is not None:
        violation = violation | {"step": numbers.get(violation["step"], violation["step"])}
    return history | {"steps": steps, "violation": violation}


class _Upgrade:
    """Upgrades one history step by step, with its open sessions and the messages of each consumer."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], str] = {}
        self._opened = 0
        self._sent = 0
        self._received: dict[str, list[Value]] = {}

    def steps_of(self, step: Value) -> Iterator[Value]:
        operation, outcome = step["operation"], _renamed(step["outcome"])
        match operation["op"]:
            case "CreateReplicatedTopic":
                yield step | _created(operation, outcome)
            case "PublishAt":
                yield from self._published(step, operation, outcome)
            case "JoinAt":
                self._received[operation["consumer"]] = []
                outcome = {"outcome": "Subscribed"} if outcome["outcome"] == "Done" else outcome
                subscribes = {"is_replicated": True} | operation | {"op": "Subscribe", "kind": "Exclusive"}
                yield step | {"operation": subscribes, "outcome": outcome}
            case "ReceiveAt":
                yield step | {"operation": _renamed(operation), "outcome": self._receive(operation, outcome)}
            case "AcknowledgeAt":
                yield step | {"operation": _renamed(operation), "outcome": self._acknowledge(operation, outcome)}
            case "UnloadAt" | "RestartCluster" | "KillCluster":
                self._sessions = {at: name for at, name in self._sessions.items() if at[0] != operation["cluster"]}
                yield step | {"operation": _renamed(operation)}
            case _:
                yield step | {"operation": _renamed(operation), "outcome": outcome}

    def _published(self, step: Value, operation: Value, outcome: Value) -> Iterator[Value]:
        cluster, topic = operation["cluster"], operation["topic"]
        if (cluster, topic) not in self._sessions and outcome["outcome"] != "Skipped":
            self._opened += 1
            session = self._sessions[cluster, topic] = f"p{self._opened}"
            opens = {"op": "OpenProducer", "session": session, "topic": topic, "cluster": cluster}
            opened = {"outcome": "Opened", "last_sequence_id": None}
            yield step | {
                "operation": opens | {"producer": f"producer-{cluster}"},
                "outcome": opened,
                "completed_ms": step["invoked_ms"],
            }
        entries = [self._entry(message, operation.get("size_bytes", 0)) for message in operation["messages"]]
        if outcome["outcome"] == "Published":
            answers = [{"outcome": "Stored", "position": position} for position in outcome["positions"]]
            outcome = {"outcome": "Sent", "answers": answers}
        sends = {"op": "Send", "session": self._sessions.get((cluster, topic), "none"), "entries": entries}
        yield step | {"operation": sends, "outcome": outcome}

    def _entry(self, message: str, size_bytes: int) -> Value:
        self._sent += 1
        return {"messages": [{"sequence_id": self._sent, "business_id": message, "size_bytes": size_bytes}]}

    def _receive(self, operation: Value, outcome: Value) -> Value:
        if outcome["outcome"] != "ReceivedAt":
            return outcome
        messages = [
            {"position": one["position"], "batch_index": -1, "batch_size": 0, "business_id": one["message"]}
            for one in outcome["messages"]
        ]
        self._received.setdefault(operation["consumer"], []).extend(messages)
        return {"outcome": "ReceivedMessages", "messages": messages}

    def _acknowledge(self, operation: Value, outcome: Value) -> Value:
        if outcome["outcome"] != "AcknowledgedAt":
            return outcome
        received = self._received.get(operation["consumer"], [])
        messages = [one for one in received if one["business_id"] in operation["messages"]]
        if operation.get("is_cumulative", False):
            messages = sorted(messages, key=lambda one: (one["position"]["ledger"], one["position"]["entry"]))[-1:]
        return {"outcome": "Acknowledged", "messages": messages, "receipt": True, "begun_ms": outcome["begun_ms"]}


def _created(operation: Value, outcome: Value) -> Value:
    """The step's operation and outcome."""
    is_deduplicated = operation.pop("deduplication", False)
    created = operation | {
        "op": "CreateTopic",
        "clusters": operation.get("clusters", 2),
        "deduplication": "namespace-on" if is_deduplicated else "namespace-off",
    }
    if outcome["outcome"] == "GeoCreated":
        settings = {name: value for name, value in outcome.items() if name != "outcome"}
        outcome = {"outcome": "Created", "deduplication": is_deduplicated, "snapshot_room": SNAPSHOT_ROOM}
        outcome |= {"replication": settings}
    return {"operation": created, "outcome": outcome}


def _renamed(value: Value) -> Value:
    kind: str = "op" if "op" in value else "outcome"
    tag = str(RENAMED.get(value[kind], value[kind]))
    fields = FIELDS.get(tag, {})
    is_own = value[kind] in RENAMED or tag == "AwaitAnswered"
    return {fields.get(name, name) if is_own else name: content for name, content in value.items()} | {kind: tag}
