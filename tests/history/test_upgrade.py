"""Histories in older formats load, with every old name replaced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conformance.harness_error import HarnessError
from conformance.history.document import read
from conformance.history.upgrade import FORMAT
from model.events import (
    Acknowledged,
    Consumed,
    ConsumerRead,
    Delivery,
    Done,
    DueReceived,
    Duplicate,
    ReceivedMessages,
    Refused,
    Sent,
    Stored,
    Unknown,
)
from model.log import Position
from model.operations import Consume, CutAfterSends, HoldAfterSends, Send
from model.subscription_operations import Acknowledge, CrashConsumer, Receive, ReceiveDue, ResetCursor
from model.traffic import CommandAck, CommandMessage, Life, Part, Traffic
from model.vocabulary import ChunkNumber, Entry, Message

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


# ----------------------------------------------------------------------------------- operations that document 002 had

PAYLOADS = [{"sequence_id": number, "name": f"a{number}", "size_bytes": 7} for number in (1, 2, 3, 4)]
ENTRIES = tuple(Entry((Message(number, f"a{number}", size_bytes=7, content="noise"),)) for number in (1, 2, 3, 4))
AT = {"ledger": 3, "entry": 0}


def sent(**more: Any) -> dict[str, Any]:
    life = {"sends": [{"sequence_id": 1, "digest": "d"}], "receipts": [[1, AT], [2, None]], "told": -1}
    answers = {"confirmed": [True, True, False, False], "errors": ["", "", "MessageTooBig", ""], "lives": [life]}
    return {"outcome": "PayloadsSent", **answers, **more}


SENT = Sent(
    (Stored(Position(3, 0)), Duplicate(), Refused("MessageTooBig"), Unknown("no answer came")),
    (Life((Part(1, "d"),), ((1, Position(3, 0)), (2, None)), last_sequence_id=-1),),
)


def test_a_send_of_payloads_is_a_send_of_messages_with_their_answers(tmp_path: Path) -> None:
    cut = {"op": "SendPayloads", "session": "s", "payloads": PAYLOADS, "cut_after": 2, "meanwhile": "dies"}
    held = {"op": "SendInterleaved", "session": "s", "payloads": PAYLOADS, "after": 1, "other": "t", "others": PAYLOADS}
    both = {"outcome": "PayloadsInterleaved", "sent": sent(), "other": sent()}
    assert loaded(tmp_path, 2, (cut, sent(died=True)), (held, both)) == [
        (Send("s", ENTRIES, interruption=CutAfterSends(2, "dies")), SENT),
        (
            Send("s", ENTRIES, interruption=HoldAfterSends(1, "t", ENTRIES)),
            Sent(SENT.answers, SENT.lives, other=SENT),
        ),
    ]


def test_a_crafted_chunk_is_a_message_with_its_number(tmp_path: Path) -> None:
    chunks = [
        {"sequence_id": 1, "uuid": "u", "chunk_id": 0, "chunks": 2},
        {"sequence_id": 2, "uuid": "", "chunk_id": 0},
    ]
    old = {"op": "SendCrafted", "session": "s", "chunks": chunks}
    [(operation, _)] = loaded(tmp_path, 1, (old, {"outcome": "Skipped", "why": "w"}))
    of_uuid, plain = Message(1, "u", chunk=ChunkNumber(0, 2)), Message(2, "2", size_bytes=8, content="noise")
    assert operation == Send("s", (Entry((of_uuid,)), Entry((plain,))))


def test_messages_by_index_among_the_pending_ones_become_indexes_among_all_received(tmp_path: Path) -> None:
    first, second = ({"position": {"ledger": 3, "entry": number}, "size_bytes": 7, "digest": "d"} for number in (0, 1))
    came = {"type": "came", "position": AT, "producer": "p", "part": {"sequence_id": 1, "digest": "d"}}
    gathered = {"outcome": "ChunkedGathered", "log": [], "streams": [
        {"consumer": "c", "passed": [came], "given": [first, second]}
    ]}  # fmt: skip
    acking = {"type": "acking", "positions": [AT]}
    asked = {"outcome": "ChunkedAsked", "messages": [second], "stream": {"consumer": "c", "passed": [acking]}}
    left = {"outcome": "ChunkedLeft", "stream": {"consumer": "c", "passed": []}}
    steps = loaded(
        tmp_path,
        2,
        ({"op": "GatherChunked", "topic": "t", "subscription": "s"}, gathered),
        ({"op": "AcknowledgeChunked", "consumer": "c", "nth": [3]}, asked),
        ({"op": "MoveSubscription", "topic": "t", "subscription": "s", "how": "reset", "entries": 3}, left),
        ({"op": "LeaveChunked", "consumer": "c", "crashes": True}, left),
    )
    messages = tuple(Delivery(Position(3, number), size_bytes=7, digest="d") for number in (0, 1))
    traffic = Traffic("c", (CommandMessage(Position(3, 0), "p", Part(1, "d")),), messages)
    acked = Traffic("c", (CommandAck((Position(3, 0),)),))
    assert steps == [
        (ReceiveDue("t", "s"), DueReceived(traffic=(traffic,))),
        (Acknowledge("c", (1,)), Acknowledged(messages[1:], traffic=(acked,))),
        (ResetCursor("t", "s", 3), Done((Traffic("c", ()),))),
        (CrashConsumer("c"), Done((Traffic("c", ()),))),
    ]


@pytest.mark.parametrize("old", [{"op": "SendPayloads"}, {"op": 7}, 7, {"op": "MoveSubscription", "topic": "t"}])
def test_a_malformed_operation_of_an_old_history_is_reported_in_one_sentence(old: Any, tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="is not a history of this suite"):
        loaded(tmp_path, 2, (old, {"outcome": "Done"}))
