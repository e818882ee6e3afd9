"""Upgrades histories of document 002 from formats in which it had operations of its own.

Works on plain JSON values, as :mod:`conformance.history.upgrade` does. A message that an operation named by its place
among the unacknowledged ones of its consumer now has its index among all that the consumer received.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

Value = dict[str, Any]


def upgraded(history: Value) -> Value:
    """A history in today's operations and outcomes; the steps of other documents as they were."""
    upgrade = _History()
    return {**history, "steps": [upgrade.upgraded(step) for step in history["steps"]]}


class _History:
    def __init__(self) -> None:
        self._received: dict[str, list[Value]] = {}

    def upgraded(self, step: Value) -> Value:
        operation, outcome = step["operation"], step["outcome"]
        if operation["op"] in OPERATIONS:
            operation = {"op": operation["op"], **OPERATIONS[operation["op"]](operation)}
        if step["operation"]["op"] in ("AcknowledgeChunked", "GiveBack"):
            operation = operation | {"nth": self._nth(operation, outcome)}
        if outcome["outcome"] in OUTCOMES:
            outcome = _upgraded_outcome(outcome, operation)
        for traffic in outcome.get("traffic", ()) if operation["op"] == "ReceiveDue" else ():
            self._received.setdefault(traffic["consumer"], []).extend(traffic.get("received", ()))
        return step | {"operation": operation, "outcome": outcome}

    def _nth(self, operation: Value, outcome: Value) -> list[int] | None:
        """Where the messages that were chosen are among all that their consumer received, each the latest."""
        nth: list[int] | None = operation["nth"]
        if nth is None or not outcome.get("messages"):
            return nth
        received = [one["position"] for one in self._received.get(operation["consumer"], ())]
        chosen = [one["position"] for one in outcome["messages"]]
        return [len(received) - 1 - received[::-1].index(one) for one in chosen if one in received] or nth


# ---------------------------------------------------------------------------------------------------------- operations


def _entry(payload: Value) -> Value:
    content = "pattern" if payload.get("is_compressible") else "noise"
    kept = {name: value for name, value in payload.items() if name not in ("name", "is_compressible")}
    return {"messages": [{**kept, "business_id": payload["name"], "content": content}]}


def _crafted(chunk: Value) -> Value:
    if not chunk["uuid"]:
        # A message that is no chunk had the bytes of one all the same.
        plain = {"business_id": str(chunk["sequence_id"]), "size_bytes": 8, "content": "noise"}
        return {"messages": [{"sequence_id": chunk["sequence_id"], **plain}]}
    number = {"chunk_id": chunk["chunk_id"], "chunks": chunk["chunks"]}
    return {"messages": [{"sequence_id": chunk["sequence_id"], "business_id": chunk["uuid"], "chunk": number}]}


def _create(old: Value) -> Value:
    on = "on" if old.get("deduplication") else "off"
    return {"op": "CreateTopic", "topic": old["topic"], "deduplication": f"namespace-{on}", "is_chunked": True}


def _open(old: Value) -> Value:
    client = old.get("client", "official")
    return old | {
        "op": "OpenProducer",
        "client": client,
        "is_chunking": old.get("is_chunking", True) and client == "official",
    }


def _send(old: Value) -> Value:
    new = {"op": "Send", "session": old["session"], "entries": [_entry(one) for one in old["payloads"]]}
    if old.get("cut_after"):
        meanwhile = old.get("meanwhile", "reconnects")
        new["interruption"] = {"type": "cut", "sends": old["cut_after"], "meanwhile": meanwhile}
    return new


def _interleave(old: Value) -> Value:
    others = {
        "type": "hold",
        "sends": old["after"],
        "session": old["other"],
        "entries": [_entry(one) for one in old["others"]],
    }
    return _send(old) | {"interruption": others}


def _send_crafted(old: Value) -> Value:
    return {"op": "Send", "session": old["session"], "entries": [_crafted(one) for one in old["chunks"]]}


def _subscribe(old: Value) -> Value:
    kept = {name: old[name] for name in ("consumer", "topic", "subscription")}
    return kept | {
        "op": "Subscribe",
        "kind": old.get("kind", "Exclusive"),
        "client": "official",
        "queue": old.get("queue", 1000),
        "max_pending_chunked": old.get("pending", 10),
        "acks_oldest_chunked": old.get("acks_discarded", False),
    }


def _move(old: Value) -> Value:
    cursor = {"topic": old["topic"], "subscription": old["subscription"]}
    match old["how"]:
        case "skip":
            return cursor | {"op": "Skip", "count": old["entries"]}
        case "expire":
            return cursor | {"op": "Expire", "up_to": old["entries"]}
        case _:
            return cursor | {"op": "ResetCursor", "to": old["entries"]}


def _ask(op: str) -> Callable[[Value], Value]:
    def asked(old: Value) -> Value:
        new = {"op": op, "consumer": old["consumer"], "nth": old.get("nth")}
        return new | ({"cumulative": True} if old.get("is_cumulative") else {})

    return asked


def _renamed(op: str) -> Callable[[Value], Value]:
    return lambda old: old | {"op": op}


def _left(who: str, kind: str) -> Callable[[Value], Value]:
    return lambda old: {"op": f"Crash{kind}" if old.get("crashes") else f"Close{kind}", who: old[who]}


OPERATIONS: Final[dict[str, Callable[[Value], Value]]] = {
    "CreateChunkedTopic": _create,
    "OpenChunking": _open,
    "SendPayloads": _send,
    "SendInterleaved": _interleave,
    "SendCrafted": _send_crafted,
    "LeaveChunking": _left("session", "Producer"),
    "SubscribeChunked": _subscribe,
    "GatherChunked": _renamed("ReceiveDue"),
    "AcknowledgeChunked": _ask("Acknowledge"),
    "GiveBack": _ask("Nack"),
    "LeaveChunked": _left("consumer", "Consumer"),
    "MoveSubscription": _move,
    "ReadChunkedLog": _renamed("ReadLog"),
    "ReadChunkedBacklog": _renamed("ReadCursor"),
    "ReadChunkRate": lambda old: (
        {name: value for name, value in old.items() if name != "payload"}
        | ({"message": _entry(old["payload"])["messages"][0]} if "payload" in old else {})
    ),
}
"""The operations that only document 002 had, each with what it is now."""

# ------------------------------------------------------------------------------------------------------------ outcomes

_COMMANDS: Final = {"came": "message", "acking": "ack", "asking": "redeliver", "joined": "subscribe"}


def _traffic(stream: Value) -> Value:
    commands = [one | {"type": _COMMANDS[one["type"]]} for one in stream["passed"]]
    traffic = {"consumer": stream["consumer"], "commands": commands}
    return traffic | ({"received": stream["given"]} if stream.get("given") else {})


def _all_traffic(old: Value) -> list[Value]:
    return [_traffic(stream) for stream in old.get("streams", (old["stream"],) if "stream" in old else ())]


def _sent(old: Value, entries: Sequence[Value]) -> Value:
    answers = zip(_receipts(old["lives"], entries), old["confirmed"], old["errors"], strict=True)
    sent = {
        "outcome": "Sent",
        "answers": [_answer(position, is_confirmed, error) for position, is_confirmed, error in answers],
        "lives": [_life(life) for life in old["lives"]],
    }
    return sent | ({"unloaded_after": old["moved_behind"]} if old.get("moved_behind") else {})


def _receipts(lives: Sequence[Value], entries: Sequence[Value]) -> Iterator[Value | None]:
    """Where each entry was stored by its receipt: the last one of a message, and each one of a crafted chunk."""
    ids = [entry["messages"][0]["sequence_id"] for entry in entries]
    for at, number in enumerate(ids):
        of_id = [position for life in lives for receipt, position in life["receipts"] if receipt == number]
        later = ids[at + 1 :].count(number)
        yield of_id[-1 - later] if later < len(of_id) else None


def _answer(position: Value | None, is_confirmed: bool, error: str) -> Value:
    if is_confirmed:
        return {"outcome": "Duplicate"} if position is None else {"outcome": "Stored", "position": position}
    return {"outcome": "Refused", "code": error} if error else {"outcome": "Unknown", "why": "no answer came"}


def _life(life: Value) -> Value:
    kept = {name: value for name, value in life.items() if name != "told"}
    return kept | ({"last_sequence_id": life["told"]} if life.get("told") is not None else {})


def _upgraded_outcome(old: Value, operation: Value) -> Value:
    """What an outcome is now; ``operation``: what its operation is now."""
    return {"outcome": old["outcome"], **OUTCOMES[old["outcome"]](old, operation)}


def _asked(old: Value, operation: Value) -> Value:
    outcome = "RedeliveryRequested" if operation["op"] == "Nack" else "Acknowledged"
    return {"outcome": outcome, "messages": old["messages"] or [], "traffic": _all_traffic(old)}


def _interleaved(old: Value, operation: Value) -> Value:
    other = _sent(old["other"], operation["interruption"]["entries"])
    return _sent(old["sent"], operation["entries"]) | {"other": other}


def _rate(old: Value, operation: Value) -> Value:
    message = operation["message"]
    entries = [
        {"messages": [message | {"sequence_id": message["sequence_id"] + number}]}
        for number in range(len(old["sent"]["confirmed"]))
    ]
    return old | {"sent": _sent(old["sent"], entries)}


OUTCOMES: Final[dict[str, Callable[[Value, Value], Value]]] = {
    "ChunkedTopic": lambda old, _: {
        "outcome": "Created",
        "deduplication": old["deduplication"],
        "snapshot_room": 0,
        "limit_bytes": old["limit_bytes"],
    },
    "PayloadsSent": lambda old, operation: _sent(old, operation["entries"]),
    "PayloadsInterleaved": _interleaved,
    "ChunkedSubscribed": lambda _old, _: {"outcome": "Subscribed"},
    "ChunkedGathered": lambda old, _: {"outcome": "DueReceived", "traffic": _all_traffic(old), "log": old["log"]},
    "ChunkedAsked": _asked,
    "ChunkedLeft": lambda old, _: {"outcome": "Done", "traffic": _all_traffic(old)},
    "SubscriptionMoved": lambda old, _: {
        "outcome": "CursorMoved",
        "before": old["before"],
        "after": old["after"],
        "traffic": _all_traffic(old),
    },
    "ChunkedLog": lambda old, _: {"outcome": "LogRead", "parts": old["entries"]},
    "ChunkedBacklog": lambda old, _: {
        "outcome": "UnacknowledgedRead",
        "positions": old["unacknowledged"],
        "traffic": _all_traffic(old),
    },
    "ChunkRate": lambda old, operation: _rate(old, operation) if "confirmed" in old["sent"] else old,
}
"""The outcomes that only document 002 had, each with what it is now."""
