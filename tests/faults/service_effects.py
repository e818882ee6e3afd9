"""What each seeded defect of SERVE does; as in ``effects``, which has those of document 000."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from conformance.clients.admin.http import AdminError
from conformance.clients.outcomes import NoAnswer, ServerRefused
from conformance.clients.wire.consumer import Kind, WireConsumer
from tests.faults.cursor_effects import filled
from tests.faults.effect_fixtures import Bench
from tests.faults.effects import Effect, Observation
from tests.polling import TIMEOUT_S, becomes

SHORT_S = 2.0
"""How long is waited for an answer that a defect swallows."""
LIMIT = 3


def _subscribed(bench: Bench, name: str = "c1", *, kind: Kind = "Shared", timeout_s: float = TIMEOUT_S) -> WireConsumer:
    return bench.client.subscribe(
        bench.topic, "s", kind=kind, initial="earliest", consumer_name=name, timeout_s=timeout_s
    )


def _answer(request: Callable[[], object]) -> str:
    """How a request is answered, in a word."""
    try:
        request()
    except AdminError as error:
        return str(error.status)
    except ServerRefused as refused:
        return refused.code
    except NoAnswer:
        return "silence"
    return "success"


def reading_stats_often(bench: Bench) -> Observation:
    """Read a topic's stats five times: all the answers that are not alike."""
    filled(bench, 1)
    return {_answer(lambda: bench.admin.stats(bench.topic)) for _ in range(5)}


def acknowledging_three(bench: Bench) -> Observation:
    """Acknowledge three messages one by one: the answers."""
    messages = filled(bench, 3)
    consumer = _subscribed(bench)
    return [_answer(partial(consumer.ack, [message], timeout_s=SHORT_S)) for message in messages]


def subscribing_three(bench: Bench) -> Observation:
    """Three consumers subscribe: the answers."""
    filled(bench, 1)
    return [_answer(partial(_subscribed, bench, f"c{number}", timeout_s=SHORT_S)) for number in range(3)]


def staying_connected(bench: Bench) -> Observation:
    """Acknowledge three messages: whether the connection is there afterwards."""
    messages = filled(bench, 3)
    consumer = _subscribed(bench)
    for message in messages:
        _answer(partial(consumer.ack, [message], timeout_s=SHORT_S))

    def is_closed() -> bool:
        bench.client.pump()
        return not consumer.is_open

    return not becomes(is_closed)


def consuming_by_name(bench: Bench) -> Observation:
    """Two consumers of two subscriptions ask for a message: which of them get one."""
    filled(bench, 1)
    got = []
    for name in ("c1", "c2"):
        consumer = bench.client.subscribe(
            bench.topic, f"s-{name}", kind="Shared", initial="earliest", consumer_name=name, timeout_s=TIMEOUT_S
        )
        consumer.flow(1)
        if consumer.receive(timeout_s=SHORT_S) is not None:
            got.append(name)
    return got


def counting_the_backlog(bench: Bench) -> Observation:
    """The backlog of three messages by the stats."""
    _subscribed(bench)
    filled(bench, 3)
    return bench.admin.stats(bench.topic).subscriptions["s"].backlog


def _given(consumer: WireConsumer, permits: int) -> int:
    """How many messages a consumer gets with so many more permits."""
    consumer.flow(permits)
    count = 0
    while consumer.receive(timeout_s=SHORT_S if not count else 0.5) is not None:
        count += 1
    return count


def receiving_with_a_limit(bench: Bench) -> Observation:
    """Ask for messages one by one, with a limit on those that are not acknowledged: how many come."""
    bench.admin.set_max_unacknowledged(bench.namespace, LIMIT)
    filled(bench, 2 * LIMIT)
    consumer = _subscribed(bench)
    return sum(_given(consumer, 1) for _ in range(LIMIT + 1))


def receiving_again_below_a_limit(bench: Bench) -> Observation:
    """Reach a limit, acknowledge everything, and ask for more: whether some come."""
    bench.admin.set_max_unacknowledged(bench.namespace, LIMIT)
    messages = filled(bench, 2 * LIMIT)
    consumer = _subscribed(bench)
    for _ in range(LIMIT):
        _given(consumer, 1)
    _given(consumer, 1)
    consumer.ack(messages[:LIMIT])
    return _given(consumer, 1) > 0


def subscribing_beyond_a_limit(bench: Bench) -> Observation:
    """Two consumers subscribe where one is allowed: the answers."""
    bench.admin.set_max_consumers(bench.namespace, 1)
    filled(bench, 1)
    return [_answer(partial(_subscribed, bench, f"c{number}")) for number in range(2)]


SERVICE_EFFECTS = {
    "stats-fail": Effect(reading_stats_often, {"success"}, {"success", "500"}),
    "ack-unanswered": Effect(acknowledging_three, ["success"] * 3, ["success", "success", "silence"]),
    "subscribe-unanswered": Effect(subscribing_three, ["success"] * 3, ["success", "success", "silence"]),
    "connection-closed-after-ack": Effect(staying_connected, sound=True, defective=False),
    "consumer-passed-over": Effect(consuming_by_name, ["c1", "c2"], ["c1"]),
    "backlog-one-too-many": Effect(counting_the_backlog, 3, 4),
    "subscribe-refused": Effect(subscribing_three, ["success"] * 3, ["success", "success", "NotAllowedError"]),
    "unacked-limit-ignored": Effect(receiving_with_a_limit, LIMIT, LIMIT + 1),
    "unacked-limit-never-lifted": Effect(receiving_again_below_a_limit, sound=True, defective=False),
    "consumer-limit-ignored": Effect(subscribing_beyond_a_limit, ["success", "ConsumerBusy"], ["success"] * 2),
}
