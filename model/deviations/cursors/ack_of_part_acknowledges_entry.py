from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from model.deviation import Deviation, Shadow
from model.deviations.consumers import deliveries, since_subscribed
from model.deviations.facts import is_by
from model.deviations.subscriptions import judged_from
from model.events import Acknowledged, Delivery, Starved
from model.example.state import Example, Judgement, Past
from model.example.step import Step
from model.judgement import Broken
from model.subscription_operations import Acknowledge, NackRepeatedly

ENTRY = Deviation(
    name="ack-of-part-acknowledges-entry",
    rule="ACK-01",
    also=("ACK-13",),
    statement="If an application acknowledges one message of a batch, the Rust client acknowledges all messages of the batch.",
    cause="ack and cumulative_ack of the consumer's engine send CommandAck with the id of the message, and without an ack set. The broker takes it as an ack of the entry. The client has no tracker of the acks of a batch (6.9.1).",
    upstream=("streamnative/pulsar-rs#428", "streamnative/pulsar-rs#345"),
    side="client",
    clients={"rust": "==6.9.1"},
    seen=("Rust client 6.9.1",),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_an_ack_of_a_part_acknowledges_its_entry_and_no_other",
        by="small history",
        statement="The Rust client also acknowledges an entry none of whose messages the application acknowledged.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    """A nacked message does not come again after the others of its batch were acknowledged."""
    match step.operation, broken.evidence:
        case NackRepeatedly(), Starved(messages=(nacked,)) if nacked.batch_index >= 0 and is_by(state, step, "rust"):
            return broken.passing()
        case _:
            return None


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    """The client does so with every ack: all of them since the last step that a deviation explained."""
    if not isinstance(step.operation, Acknowledge) or state.past is None or _of_entries(state.past) is None:
        return
    steps: list[Step] = []
    since, former = 0, state
    for past in state.trace:
        if past.met:
            break
        ack = _of_entries(past)
        steps.append(ack or past.step)
        if ack is not None:
            since, former = len(steps), past.before
    yield from judged_from(former, *steps[:since][::-1])


def shadows(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    """The application acknowledges nothing."""
    yield tuple(step for step in steps if not isinstance(step.operation, Acknowledge))


def _of_entries(past: Past) -> Step | None:
    """The step as the broker takes it, if it is the Rust client's ack of a part of a batch."""
    match past.step.operation, past.step.outcome:
        case Acknowledge(name, nth, cumulative=cumulative), Acknowledged() as outcome if _is_of_rust(past, name):
            asked = _chosen(_received(past, name), nth[:1] if cumulative else nth)
            entries = [_messages_of(past.before, name, one) for one in asked]
            messages = tuple(dict.fromkeys(one for each in entries for one in (each[-1:] if cumulative else each)))
            is_other = frozenset(messages) != frozenset(outcome.messages)
            return replace(past.step, outcome=replace(outcome, messages=messages)) if is_other else None
        case _:
            return None


def _is_of_rust(past: Past, consumer: str) -> bool:
    return consumer in past.before.consumption.consumers and is_by(past.before, past.step, "rust")


def _received(past: Past, name: str) -> list[Delivery]:
    steps = (one.step for one in since_subscribed(past.before, name))
    return [one for step in steps for one in deliveries(step.operation, step.outcome, name)]


def _chosen(received: Sequence[Delivery], nth: Sequence[int]) -> list[Delivery]:
    """The messages by number, as the suite chooses them."""
    return [received[number % len(received)] for number in nth] if received else []


def _messages_of(state: Example, name: str, message: Delivery) -> tuple[Delivery, ...]:
    """All messages of the entry of a received message."""
    consumption = state.consumption
    found = consumption.place_of(consumption.consumers[name], message)
    if found is None:
        return (message,)
    ids = consumption.log(found[0]).entries[message.position]
    each = enumerate(ids) if len(ids) > 1 else ((-1, one) for one in ids)
    return tuple(replace(message, batch_index=index, business_id=one) for index, one in each)
