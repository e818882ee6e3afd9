"""Histories in older formats load, with every old name replaced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from conformance.history.document import read
from conformance.history.upgrade import FORMAT
from model.events import Consumed, ConsumerRead, Delivery, DueReceived, ReceivedMessages
from model.log import Position
from model.operations import Consume
from model.subscription_operations import Receive, ReceiveDue

MESSAGE: dict[str, Any] = {"position": {"ledger": 3, "entry": 0}, "batch_index": -1, "business_id": "b1"}


def loaded(folder: Path, written_as: int, *steps: tuple[dict[str, Any], dict[str, Any]]) -> list[tuple[Any, Any]]:
    taken = [{"operation": op, "outcome": outcome, "invoked_ms": 0, "completed_ms": 1} for op, outcome in steps]
    about = {"machine": "m", "release": "4.0.8", "broker": "4.0.8", "clients": {}, "seed": 1, "settings": {}}
    file = folder / "history.json"
    file.write_text(json.dumps({**about, "steps": taken, "format": written_as}))
    history = read(file)
    assert history.format == FORMAT
    return [(step.operation, step.outcome) for step in history.steps]


def test_a_history_of_format_1_loads(tmp_path: Path) -> None:
    of_batch = {**MESSAGE, "batch_index": 0, "batch_size": 2}
    steps = ({"op": "Take", "consumer": "c", "count": 1}, {"outcome": "Taken", "messages": [of_batch]})
    expected = ReceivedMessages((Delivery(Position(3, 0), 0, 2, "b1"),))
    assert loaded(tmp_path, 1, steps) == [(Receive("c", 1), expected)]


def test_a_history_of_format_2_loads(tmp_path: Path) -> None:
    delivery = Delivery(Position(3, 0), -1, 0, "b1")
    consume = {"op": "Consume", "consumer": "c", "topic": "t", "subscription": "s", "count": 1}
    received = {"outcome": "Received", "messages": [MESSAGE], "acknowledged": []}
    share = {"consumer": "c", "messages": [{**MESSAGE, "batch_size": 0}], "permits": 4, "unacknowledged": 1}
    gather = {"op": "Gather", "topic": "t", "subscription": "s"}
    assert loaded(tmp_path, 2, (consume, received), (gather, {"outcome": "Gathered", "shares": [share]})) == [
        (Consume("c", "t", "s", 1), Consumed((delivery,), ())),
        (ReceiveDue("t", "s"), DueReceived((ConsumerRead("c", (delivery,), 1, permits=4),))),
    ]
