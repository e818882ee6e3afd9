from __future__ import annotations

from collections.abc import Iterator

from model.chunking.evidence import NotRequested
from model.deviation import Deviation, Shadow
from model.deviations.chunks import naming, with_commands
from model.events import Acknowledged, RedeliveryRequested
from model.example.judge import judge
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Allowed, Broken
from model.subscription_operations import Acknowledge, Nack
from model.traffic import CommandAck

ENTRY = Deviation(
    name="nack-of-message-id-acknowledges",
    rule="CHUNK-07",
    statement="If an application nacks a message by its id, pulsar-client acknowledges the message. It is lost.",
    cause="Consumer_negative_acknowledge_message_id of the Python binding calls acknowledgeAsync (since apache/pulsar-client-python#121, until #180).",
    upstream=("apache/pulsar-client-python#178", "apache/pulsar-client-python#180"),
    side="client",
    clients={"official": ">=3.2.0,<3.4.0"},
    seen=("pulsar-client 3.3.0",),
    gone=("pulsar-client 3.5.0", "pulsar-client 3.13.0"),
    occurrence="In 8 of 8 replays with 3.3.0, in none with 3.5.0 and 3.13.0.",
    shadow=Shadow(
        name="test_a_nack_that_acknowledges_explains_no_other_ack_and_no_missing_request",
        by="small history",
        statement="The client sends no redelivery request and no ack either, or acknowledges another message.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence, step.outcome:
        case NotRequested(nacked), RedeliveryRequested(traffic=traffic):
            commands = [command for one in traffic for command in one.commands]
            acked = {position for one in commands if isinstance(one, CommandAck) for position in one.positions}
            return broken.passing() if acked and acked <= nacked else None
        case _:
            return None


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    match step.operation, step.outcome:
        case Nack(consumer=name, nth=tuple() as nth), RedeliveryRequested(messages, ()) if _is_of_pulsar_client(
            state, name
        ):
            assert state.past is not None
            outcome = Acknowledged(messages)
            acknowledged = judge(state.past.before, Acknowledge(name, nth), outcome, step.late, step.at)
            if isinstance(acknowledged, Allowed):
                yield acknowledged.state
        case _:
            pass


def shadows(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    *before, nacked = steps
    yield (*before, with_commands(nacked, lambda _: ()))
    yield (*before, naming(nacked, lambda _: None))


def _is_of_pulsar_client(state: Example, name: str) -> bool:
    consumer = state.consumption.consumers.get(name)
    return consumer is not None and consumer.client == "official"
