"""Dispatch times of messages in flight are known once the application receives the messages."""

from __future__ import annotations

from typing import Any

from conformance.proxy import dispatch_times
from conformance.proxy.dispatch_times import DispatchTimes
from conformance.proxy.events import ChunkFields, Command, ConnectionClosed
from model.log import Position

P = Position(3, 4)
GONE = tuple[str, str, int]


def command(kind: str, **facts: Any) -> Command:
    known: dict[str, Any] = {"number": 1, "connection": 1, "direction": "to-client", "size_bytes": 9, "came_at_s": 1.5}
    known |= {"topic": "t", "consumer": "c", "consumer_id": 7}
    return Command(kind=kind, **(known | facts))


def message(came_at_s: float, **facts: Any) -> Command:
    return command("MESSAGE", **({"positions": (P,), "came_at_s": came_at_s, "passed_at_s": 2.0} | facts))


def test_a_message_was_dispatched_when_it_last_reached_the_proxy() -> None:
    seen = DispatchTimes()
    chunk = ChunkFields("u", 1, 2, 90)
    seen(message(1.5))
    seen(message(1.75, chunk=chunk))
    taken = seen.of("t", "c", P)
    assert taken is not None
    assert (taken.sent_ns, taken.chunk) == (1_750_000_000, chunk)
    assert seen.of("t", "c", P) == taken  # the messages of a batch are looked up one by one


def test_a_message_that_did_not_pass_or_for_another_consumer_has_no_dispatch_time() -> None:
    seen = DispatchTimes()
    seen(message(1.5, passed_at_s=None))
    assert seen.of("t", "c", P) is None
    seen(message(1.5))
    assert seen.of("t", "d", P) is None
    assert seen.of("u", "c", P) is None


def test_the_number_of_dispatch_times_is_limited() -> None:
    seen = DispatchTimes()
    for entry in range(dispatch_times.KEPT_AT_MOST + 1):
        seen(message(1.5, positions=(Position(1, entry),)))
    assert seen.of("t", "c", Position(1, 0)) is None
    assert seen.of("t", "c", Position(1, 1)) is not None


def test_consumers_are_gone_with_their_connection_or_a_close_from_the_broker() -> None:
    gone: list[GONE] = []
    seen = DispatchTimes(on_gone=lambda *facts: gone.append(facts))
    for connection, consumer in ((1, "c"), (1, "d"), (2, "e")):
        seen(
            command(
                "SUBSCRIBE", direction="to-broker", connection=connection, consumer=consumer, consumer_id=ord(consumer)
            )
        )
    seen(command("CLOSE_CONSUMER", consumer_id=ord("c")))
    assert gone == [("t", "c", 1_500_000_000)]
    seen(ConnectionClosed(connection=1, at_s=2.5, by="broker"))
    assert gone[1:] == [("t", "d", 2_500_000_000)]
