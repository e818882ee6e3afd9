"""What an acknowledgment and a comparison cost, by the number of ranges in the cursor: in the model, and on a broker.

Every other entry of one topic is acknowledged, so a cursor has as many ranges as acknowledgments. What is measured then
fills a gap between two ranges. The model is asked for the bare change of a state, for the judgement of an operation as
the lockstep asks for it (with all of those entries unacknowledged at one consumer), and for the judgement of a cursor
that was read. The broker is asked by the wire client, with a receipt, and read as the performer reads it. It is no
test: a slow day fails nothing; ``tests/model/cursors/test_many_ranges.py`` pins, without a clock, that the cost does
not grow.

    python -m tests.quality.ranges [--broker 4.0.8 | none] [--ranges 10 --ranges 1000 --ranges 100000]
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

import click

from conformance.brokers.select import parse_broker
from conformance.clients.outcomes import Receipt
from conformance.clients.wire.client import WireClient
from conformance.engine.deployment import SUITE_SETTINGS
from conformance.harness_error import HarnessError
from conformance.lockstep.cursors.poller import Poller, SubscriptionView
from conformance.lockstep.world import World
from conformance.tenancy.place import RunPlace
from conformance.wait import Deadline
from model.cursors import acked, cursor
from model.cursors.acked import Acked
from model.cursors.cursor import Persisting
from model.cursors.info import info_of
from model.cursors.ledger import Interval
from model.cursors.log import TopicLog, appended
from model.events import Acknowledged, CursorRead, Delivery
from model.example import Example
from model.explain import judge
from model.immutable.map import Map
from model.judgement import Allowed
from model.log import Position
from model.subscription_operations import Acknowledge, ReadCursor
from model.subscriptions.consumers import Consumer
from model.subscriptions.state import Consumption, TrackedTopic
from model.vocabulary import SubscriptionId

TOPIC, SUBSCRIPTION, CONSUMER = "t", "s", "c"
SUBSCRIPTION_ID = SubscriptionId(TOPIC, SUBSCRIPTION)
LEDGER_ROOM = 50_000
"""How many entries a ledger takes; as brokers are shipped."""
SAMPLES = 200
"""How many acknowledgments are measured; of comparisons, which cost more, a twentieth."""
IN_FLIGHT = 1_000
"""How many messages are sent, or acknowledged, in one go."""
PATIENCE_S = 60.0
"""How long to wait for any one answer of a busy broker."""
SETTINGS = {
    **SUITE_SETTINGS,
    "managedLedgerMaxEntriesPerLedger": str(LEDGER_ROOM),
    "managedLedgerMaxUnackedRangesToPersist": "1000000",
    "maxMessageSize": "5242880",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Median milliseconds at one number of ranges."""

    ranges: int
    change_ms: float
    judgement_ms: float
    comparison_ms: float


def median_ms(actions: Iterable[Callable[[], object]]) -> float:
    """The median of what each of these takes."""
    took = []
    for act in actions:
        began = time.perf_counter()
        act()
        took.append(1000 * (time.perf_counter() - began))
    return statistics.median(took)


# ----------------------------------------------------------------------------------------------------------- the model


def log_of(count: int) -> TopicLog:
    """A log of so many single messages, called by their numbers."""
    log = TopicLog(LEDGER_ROOM)
    for number in range(count):
        after = appended(log, Position(*divmod(number, LEDGER_ROOM)), (str(number),))
        assert isinstance(after, TopicLog)
        log = after
    return log


def every_other(log: TopicLog, ranges: int) -> list[Position]:
    """The entries that are acknowledged first; none of them is the log's first, so mark-delete stays."""
    return [log.places[str(number)].position for number in range(1, 2 * ranges, 2)]


def gaps(log: TopicLog, ranges: int) -> list[Position]:
    """Entries in the middle that are not acknowledged."""
    middle = ranges - ranges % 2
    few = range(max(2, middle - SAMPLES), min(2 * ranges, middle + SAMPLES), 2)
    return [log.places[str(number)].position for number in few]


def subscribed(log: TopicLog) -> Example:
    """A subscription with one consumer, which has everything unacknowledged."""
    start = cursor.created(Acked(), Interval(0.0, 0.0))
    consumption = (
        Consumption()
        .with_topic(TOPIC, TrackedTopic(log, Persisting(1000.0, 2000.0)))
        .with_cursor(SUBSCRIPTION_ID, start)
    )
    consumer = Consumer((SUBSCRIPTION_ID,), "Shared", "wire", seen=Map())
    consumer = replace(consumer, unacknowledged=Map(((TOPIC, place), None) for place in log.places.values()))
    return Example(consumption=consumption.with_consumer(CONSUMER, consumer))


def acknowledged(state: Example, log: TopicLog, position: Position, now_ms: float) -> Example:
    """The state after one more acknowledgment."""
    dispatched = Delivery(position, -1, 0, log.entries[position][0])
    outcome = Acknowledged((dispatched,), receipt=True)
    judged = judge(state, Acknowledge(CONSUMER, (0,)), outcome, at=Interval(now_ms, now_ms + 1))
    assert isinstance(judged, Allowed), judged
    return judged.state


def in_the_model(ranges: int) -> Costs:
    """What the model costs."""
    log = log_of(2 * ranges)
    example = subscribed(log)
    for now_ms, position in enumerate(every_other(log, ranges)):
        example = acknowledged(example, log, position, float(now_ms))
    (state,) = example.consumption.cursors[SUBSCRIPTION_ID].possible
    assert len(info_of(state).ranges) == ranges
    holes = gaps(log, ranges)
    later_ms = float(ranges)
    reading = CursorRead(state.mark_delete, info_of(state).ranges, state.count_left(log), 0)
    return Costs(
        ranges=ranges,
        change_ms=median_ms(partial(acked.acknowledge, state, log, hole) for hole in holes),
        judgement_ms=median_ms(partial(acknowledged, example, log, hole, later_ms) for hole in holes),
        comparison_ms=median_ms([partial(judge, example, ReadCursor(TOPIC, SUBSCRIPTION), reading)] * (SAMPLES // 20)),
    )


# ---------------------------------------------------------------------------------------------------------- the broker


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCosts:
    """Median milliseconds on a real broker, and in how many ranges it says that its cursor is."""

    ranges: int
    reported: int
    acknowledgment_ms: float
    reading_ms: float


def filled(client: WireClient, topic: str, count: int) -> list[Position]:
    """Send so many messages, many in flight; where they stand."""
    producer = client.open_producer(topic, name="p", timeout_s=PATIENCE_S)
    positions: list[Position] = []
    for first in range(0, count, IN_FLIGHT):
        tickets = [producer.send(number + 1, b"x") for number in range(first, min(first + IN_FLIGHT, count))]
        answers = [producer.answer(ticket, timeout_s=PATIENCE_S) for ticket in tickets]
        positions += [one.position for one in answers if isinstance(one, Receipt) and one.position is not None]
    if len(positions) != count:
        raise HarnessError(f"only {len(positions)} of {count} messages were stored")
    producer.close(timeout_s=PATIENCE_S)
    return positions


def on_a_broker(world: World, client: WireClient, topic: str, positions: list[Position], ranges: int) -> BrokerCosts:
    """What the broker costs, on a subscription of its own."""
    subscription = f"s{ranges}"
    consumer = client.subscribe(topic, subscription, kind="Shared", initial="earliest", timeout_s=PATIENCE_S)
    apart = positions[1 : 2 * ranges : 2]
    for first in range(0, len(apart), IN_FLIGHT):
        consumer.ack(apart[first : first + IN_FLIGHT], timeout_s=PATIENCE_S)
    middle = ranges - ranges % 2
    holes = positions[max(2, middle - SAMPLES) : min(2 * ranges, middle + SAMPLES) : 2]

    def read() -> SubscriptionView | None:
        view = Poller(world.admin, topic, subscription, ()).settle(Deadline.after(PATIENCE_S))
        return view if view is not None and view.ranges else None

    reading_ms = median_ms([read] * (SAMPLES // 20))
    acknowledgment_ms = median_ms(partial(consumer.ack, [hole], timeout_s=PATIENCE_S) for hole in holes)
    view = read()
    reported = len(view.ranges) if view is not None else 0
    consumer.close()
    return BrokerCosts(ranges=ranges, reported=reported, acknowledgment_ms=acknowledgment_ms, reading_ms=reading_ms)


def print_broker(broker: str, ranges: tuple[int, ...]) -> None:
    """Start a broker, and print what it costs."""
    started = parse_broker(broker, settings=SETTINGS)
    started.start()
    try:
        world = World(started, place=RunPlace(started))
        topic = f"persistent://{world.namespaces.of_cursors('shipped', is_trimmed=False)}/ranges"
        world.admin.create_topic(topic)
        client = WireClient.connect(started.addresses.service_url, timeout_s=PATIENCE_S)
        positions = filled(client, topic, 2 * max(ranges))
        click.echo(f"{started.version}, {len(positions)} entries")
        click.echo("ranges   ack with receipt   read the cursor   ranges afterwards")
        for number in ranges:
            costs = on_a_broker(world, client, topic, positions, number)
            click.echo(
                f"{number:7}  {costs.acknowledgment_ms:13.2f} ms  {costs.reading_ms:12.1f} ms  {costs.reported:16}"
            )
        client.close()
        world.close()
    finally:
        started.stop()


# --------------------------------------------------------------------------------------------------------- the command


@click.command()
@click.option("--broker", default="4.0.8", show_default=True, help="'none': the model alone")
@click.option("--ranges", multiple=True, default=(10, 1_000, 100_000), show_default=True)
def main(broker: str, ranges: tuple[int, ...]) -> None:
    """Print a table of medians for the model, and one for a broker."""
    click.echo("ranges   change a state   judge an ack   judge a reading")
    for number in ranges:
        costs = in_the_model(number)
        click.echo(
            f"{number:7}  {costs.change_ms:11.4f} ms  {costs.judgement_ms:9.4f} ms  {costs.comparison_ms:12.2f} ms"
        )
    if broker != "none":
        print_broker(broker, tuple(sorted(ranges)))


if __name__ == "__main__":
    main()
