"""Facts about chunked topics that several deviations ask for, and how the steps of a shadow are changed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace

from msgspec import structs

from model.chunking.deliveries import fresh, is_explained, met, settled
from model.chunking.evidence import ByClient
from model.chunking.state import ChunkClient
from model.chunking.variants import ChunksVariant
from model.events import Acknowledged, DueReceived, RedeliveryRequested
from model.example.judge import judge_step
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.log import Position
from model.subscription_operations import Subscribe
from model.subscriptions.watched import traffic_of
from model.traffic import CommandAck, CommandRedeliver, ConsumerCommand, Delivery, Traffic

Commands = tuple[ConsumerCommand, ...]


def with_commands(step: Step, change: Callable[[Commands], Commands]) -> Step:
    """An ack or a nack whose client sent other commands."""
    assert isinstance(step.outcome, Acknowledged | RedeliveryRequested)
    traffic = tuple(structs.replace(one, commands=change(one.commands)) for one in step.outcome.traffic)
    return structs.replace(step, outcome=structs.replace(step.outcome, traffic=traffic))


def naming(step: Step, change: Callable[[Position], Position | None]) -> Step:
    """The same whose client named other entries; None: it left one out."""

    def changed(one: ConsumerCommand) -> ConsumerCommand:
        if not isinstance(one, CommandAck | CommandRedeliver):
            return one
        named = (change(position) for position in one.positions)
        return structs.replace(one, positions=tuple(position for position in named if position is not None))

    return with_commands(step, lambda commands: tuple(map(changed, commands)))


def delivering_last_twice(step: Step) -> Step:
    """A look at which the application of each consumer received the message that ends the log twice."""
    assert isinstance(step.outcome, DueReceived)
    twice = (Delivery(step.outcome.log[-1].position),) * 2
    traffic = tuple(structs.replace(one, received=twice) for one in step.outcome.traffic)
    return structs.replace(step, outcome=structs.replace(step.outcome, traffic=traffic))


def one_before(position: Position) -> Position:
    """The entry before another one."""
    return Position(position.ledger, position.entry - 1)


def with_client(state: Example, step: Step, broken: Broken, variant: ChunksVariant) -> Judgement | None:
    """What a step comes to if the client of a consumer assembled messages in this way since it subscribed."""
    match broken.evidence:
        case ByClient(name, acknowledged) if state.chunking.consumers[name].client.variant != variant:
            client = _client_of(state, name, variant)
            after = None if client is None else _after(client, name, [step])
            if client is None or after is None or not acknowledged <= after.acknowledged:
                return None
            consumer = replace(state.chunking.consumers[name], client=client)
            changed = replace(state, chunking=state.chunking.with_consumer(name, consumer))
            return judge_step(changed, step)
        case _:
            return None


def _client_of(state: Example, name: str, variant: ChunksVariant) -> ChunkClient | None:
    """The client of a consumer, if it assembles messages in this way, and so explains what it delivered before."""
    since: list[Step] = []
    for past in state.trace:
        match past.step.operation:
            case Subscribe(consumer=consumer, max_pending_chunked=pending, acks_oldest_chunked=acks) if (
                consumer == name
            ):
                client = fresh(pending=pending, acks_discarded=acks, variant=variant)
                return _after(client, name, since[::-1])
            case _:
                since.append(past.step)
    return None


def _after(client: ChunkClient, name: str, steps: Iterable[Step]) -> ChunkClient | None:
    """The client after these steps; None if it does not explain what it delivered."""
    for step in steps:
        for traffic in traffic_in(step, [name]):
            client = met(client, traffic.commands)
            if isinstance(step.outcome, DueReceived):
                if not is_explained(client, traffic.received):
                    return None
                client = replace(settled(client, traffic.received), discarded=frozenset())
    return client


def traffic_in(step: Step, names: Collection[str]) -> Iterator[Traffic]:
    """What passed between the broker and these consumers of a chunked topic in a step."""
    return (one for one in traffic_of(step.outcome) if one.consumer in names)
