"""Frames of document 002 in words: chunks sent and stored, commands to and from consumers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from conformance.report.sentences.lists import count, ends, joined
from model.events import ChunkRate, CursorMoved, Sent, UnacknowledgedRead
from model.log import Position
from model.traffic import (
    CommandAck,
    CommandFlow,
    CommandMessage,
    CommandRedeliver,
    CommandSubscribe,
    ConsumerCommand,
    Delivery,
    Life,
    LoggedPart,
    Traffic,
)


def read_in_words(outcome: CursorMoved | UnacknowledgedRead | ChunkRate) -> str:
    """The cursors and stats of a chunked topic."""
    match outcome:
        case CursorMoved(before, after):
            return f"{count(len(before), 'entry', 'entries')} unacknowledged before, {_positions(after)} after"
        case UnacknowledgedRead(positions):
            return f"not acknowledged: {_positions(positions)}"
        case ChunkRate(rate, is_chunked, sent):
            said = "were" if is_chunked else "were not"
            lives = "".join(lives_in_words(sent))
            return f"{rate:g} chunks per second, and according to the stats chunks {said} published; {lives}"
        case _:
            assert_never(outcome)


def lives_in_words(outcome: Sent) -> list[str]:
    """The frames of a send that a proxy saw, and those of the other session in between."""
    if not outcome.lives:
        return []
    own = f"on the wire: {'; then '.join(map(_life, outcome.lives))}"
    if outcome.other is None:
        return [own]
    return [own, *(f"of the other session, {one}" for one in lives_in_words(outcome.other))]


def _life(life: Life) -> str:
    last = f"last sequence id {life.last_sequence_id}, " if life.last_sequence_id is not None else ""
    receipts = joined([f"{n} at {at}" if at is not None else f"{n} a duplicate" for n, at in life.receipts])
    return f"{last}sent {joined([str(send) for send in life.sends]) or 'nothing'}, receipts: {receipts or 'none'}"


def log_in_words(entries: Sequence[LoggedPart]) -> str:
    """The log of a chunked topic."""
    return joined([f"{entry.position} {entry.part} of {entry.producer}" for entry in entries]) or "nothing"


def _positions(positions: Sequence[Position]) -> str:
    return joined([str(position) for position in positions]) or "none"


def traffic_in_words(traffic: Sequence[Traffic]) -> str:
    """The frames to and from consumers, and the messages that their applications received."""
    return "; ".join(map(_of_consumer, traffic))


def _of_consumer(traffic: Traffic) -> str:
    passed = ", ".join(ends([_command(one) for one in traffic.commands], str)) or "nothing"
    return f"between {traffic.consumer} and the broker: {passed}; it received {_received(traffic.received)}"


def _command(command: ConsumerCommand) -> str:
    match command:
        case CommandMessage(position, producer, part):
            return f"{position} {part} of {producer}"
        case CommandAck(positions, is_cumulative):
            return f"an ack{' up to' if is_cumulative else ' of'} {_positions(positions)}"
        case CommandRedeliver(positions):
            return f"a redelivery request for {_positions(positions) if positions else 'everything'}"
        case CommandSubscribe():
            return "Subscribe"
        case CommandFlow(permits):
            return count(permits, "permit", "permits")
        case _:
            assert_never(command)


def _received(messages: Sequence[Delivery]) -> str:
    return joined([f"{one.position} ({one.size_bytes} bytes)" for one in messages]) or "nothing"
