"""Facts about chunked topics that several deviations ask for, and how the steps of a shadow are changed."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from model.events import Acknowledged, RedeliveryRequested
from model.example.step import Step
from model.log import Position
from model.traffic import CommandAck, CommandRedeliver, ConsumerCommand

Commands = tuple[ConsumerCommand, ...]


def with_commands(step: Step, change: Callable[[Commands], Commands]) -> Step:
    """An ack or a nack whose client sent other commands."""
    assert isinstance(step.outcome, Acknowledged | RedeliveryRequested)
    traffic = tuple(replace(one, commands=change(one.commands)) for one in step.outcome.traffic)
    return replace(step, outcome=replace(step.outcome, traffic=traffic))


def naming(step: Step, change: Callable[[Position], Position | None]) -> Step:
    """The same whose client named other entries; None: it left one out."""

    def changed(one: ConsumerCommand) -> ConsumerCommand:
        if not isinstance(one, CommandAck | CommandRedeliver):
            return one
        named = (change(position) for position in one.positions)
        return replace(one, positions=tuple(position for position in named if position is not None))

    return with_commands(step, lambda commands: tuple(map(changed, commands)))


def one_before(position: Position) -> Position:
    """The entry before another one."""
    return Position(position.ledger, position.entry - 1)
