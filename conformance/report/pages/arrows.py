"""The frames between a client and the broker in one step of a history, as arrows for a space-time diagram.

If the outcome has the frames that the proxy saw, these are the arrows, marked as seen. Otherwise the arrows follow from
the outcome: sends and their answers, deliveries, acknowledgments. A request has an arrow even if nothing answers it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from conformance.history.document import Step
from conformance.report.sentences.lists import count
from model.events import (
    Acknowledged,
    AllReceived,
    Answer,
    Confirmed,
    Consumed,
    CursorRead,
    DueReceived,
    Duplicate,
    Opened,
    ReceivedMessages,
    RedeliveryRequested,
    Refused,
    Sent,
    Skipped,
    SourceEnded,
    Stored,
    Unknown,
)
from model.log import Position
from model.operations import HoldAfterSends, OpenProducer, Send
from model.traffic import (
    CommandAck,
    CommandFlow,
    CommandMessage,
    CommandRedeliver,
    CommandSubscribe,
    ConsumerCommand,
    Delivery,
    Life,
)

ARROWS_AT_MOST = 8
"""How many arrows of one step are drawn: the first and the last ones."""

_POSITIONS_AT_MOST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """A frame between a client and the broker: ``is_out`` to the broker, otherwise to the client.

    ``is_seen``: the proxy saw it. ``is_lost``: whether it arrived is unknown.
    """

    client: str
    label: str
    is_out: bool
    is_seen: bool = False
    is_lost: bool = False


def arrows_of(step: Step, actor: str) -> tuple[Arrow, ...]:
    """The arrows of a step of this actor, in their order."""
    late = [_answer(one.session, answer) for one in step.late for answer in one.answers]
    arrows = [*late, *_with_request(step, actor, list(_arrows(step, actor)))]
    if len(arrows) <= ARROWS_AT_MOST:
        return tuple(arrows)
    half = ARROWS_AT_MOST // 2
    more = arrows[half]
    note = Arrow(client=more.client, label=f"… {len(arrows) - 2 * half + 1} more …", is_out=more.is_out)
    return (*arrows[:half], note, *arrows[-half + 1 :])


def _with_request(step: Step, actor: str, arrows: list[Arrow]) -> list[Arrow]:
    """These arrows, with that of the request if it is one and none of them is."""
    request = step.operation.request
    if not request or isinstance(step.outcome, Skipped):
        return arrows
    match [arrow for arrow in arrows if arrow.is_out]:
        case []:
            return [Arrow(client=actor, label=request, is_out=True), *arrows]
        case [Arrow(is_lost=True) as lost] if isinstance(step.outcome, Unknown):
            return [replace(lost, label=f"{request}, no answer")]
        case _:
            return arrows


def _arrows(step: Step, actor: str) -> Iterable[Arrow]:
    if seen := list(_seen(step, actor)):
        yield from seen
        return
    match step.operation, step.outcome:
        case Send(entries=entries), Sent(answers=answers):
            for at, entry in enumerate(entries):
                answer = answers[at] if at < len(answers) else None
                yield Arrow(client=actor, label=f"send {entry}", is_out=True, is_lost=isinstance(answer, Unknown))
            yield from (_answer(actor, answer) for answer in answers if not isinstance(answer, Unknown))
        case OpenProducer(), Opened(last_sequence_id=last):
            yield Arrow(client=actor, label="open", is_out=True)
            yield Arrow(client=actor, label="open" if last is None else f"last sequence id {last}", is_out=False)
        case _:
            yield from _of_outcome(step, actor)


def _of_outcome(step: Step, actor: str) -> Iterable[Arrow]:
    match step.outcome:
        case ReceivedMessages(messages=messages) | AllReceived(messages=messages):
            yield from (_delivery(actor, message) for message in messages)
        case Consumed(messages=delivered, acknowledged=acknowledged):
            yield from (_delivery(actor, message) for message in delivered)
            if acknowledged:
                yield Arrow(client=actor, label=f"ack {_few([one.position for one in acknowledged])}", is_out=True)
        case DueReceived(consumers=consumers):
            yield from (_delivery(read.consumer, message) for read in consumers for message in read.messages)
        case CursorRead(arrived=arrived):
            yield from (_delivery(one.consumer, message) for one in arrived for message in one.messages)
        case Acknowledged(messages=messages):
            yield Arrow(client=actor, label=f"ack {_few([one.position for one in messages])}", is_out=True)
        case RedeliveryRequested(messages=messages):
            yield Arrow(client=actor, label=f"redeliver {_few([one.position for one in messages])}", is_out=True)
        case SourceEnded(confirmed=confirmed):
            yield from (Arrow(client=actor, label=_confirmed(one), is_out=False) for one in confirmed)
        case Refused(code=code):
            yield Arrow(client=actor, label=f"refused: {code}", is_out=False)
        case Unknown():
            yield Arrow(client=actor, label="no answer", is_out=True, is_lost=True)
        case _:
            return


def _seen(step: Step, actor: str) -> Iterable[Arrow]:
    """The frames that the proxy saw, if the outcome has them."""
    match step.operation, step.outcome:
        case Send(interruption=interruption), Sent(lives=lives, other=other):
            yield from _lives(lives, actor)
            if other is not None and isinstance(interruption, HoldAfterSends):
                yield from _lives(other.lives, interruption.session)
        case _, outcome:
            for traffic in getattr(outcome, "traffic", ()):
                yield from (_command(traffic.consumer, command) for command in traffic.commands)


def _lives(lives: Sequence[Life], actor: str) -> Iterable[Arrow]:
    for life in lives:
        for part in life.sends:
            yield Arrow(client=actor, label=f"send {part}", is_out=True, is_seen=True)
        for sequence_id, position in life.receipts:
            where = "a duplicate" if position is None else f"stored at {position}"
            yield Arrow(client=actor, label=f"{sequence_id} {where}", is_out=False, is_seen=True)


def _command(consumer: str, passed: ConsumerCommand) -> Arrow:
    match passed:
        case CommandMessage(position=position, part=part, redelivered=redelivered):
            again = f", delivered {count(redelivered, 'time', 'times')} before" if redelivered else ""
            return Arrow(client=consumer, label=f"{position} {part}{again}", is_out=False, is_seen=True)
        case CommandAck(positions=positions, is_cumulative=is_cumulative):
            up_to = "ack up to" if is_cumulative else "ack"
            return Arrow(client=consumer, label=f"{up_to} {_few(positions)}", is_out=True, is_seen=True)
        case CommandRedeliver(positions=positions):
            what = _few(positions) if positions else "everything"
            return Arrow(client=consumer, label=f"redeliver {what}", is_out=True, is_seen=True)
        case CommandSubscribe():
            return Arrow(client=consumer, label="subscribe", is_out=True, is_seen=True)
        case CommandFlow(permits=permits):
            return Arrow(client=consumer, label=count(permits, "permit", "permits"), is_out=True, is_seen=True)
        case _:
            assert_never(passed)


def _answer(client: str, answer: Answer) -> Arrow:
    match answer:
        case Stored(position=position):
            return Arrow(client=client, label=f"stored at {position}", is_out=False)
        case Duplicate():
            return Arrow(client=client, label="a duplicate", is_out=False)
        case Refused(code=code):
            return Arrow(client=client, label=f"refused: {code}", is_out=False)
        case Unknown():
            return Arrow(client=client, label="no answer", is_out=False, is_lost=True)
        case _:
            assert_never(answer)


def _delivery(client: str, message: Delivery) -> Arrow:
    within = f"[{message.batch_index}]" if message.batch_index >= 0 else ""
    return Arrow(client=client, label=f"{message.position}{within} {message.business_id}", is_out=False)


def _confirmed(one: Confirmed) -> str:
    return f"{one.sequence_id} {'a duplicate' if one.position is None else f'stored at {one.position}'}"


def _few(positions: Sequence[Position]) -> str:
    shown = ", ".join(str(one) for one in positions[:_POSITIONS_AT_MOST])
    left = len(positions) - _POSITIONS_AT_MOST
    return f"{shown} and {left} more" if left > 0 else shown or "nothing"
