"""What the proxy tells of messages on their way is there when the application has them."""

from __future__ import annotations

from typing import Any

from conformance.proxy import dispatch_times
from conformance.proxy.dispatch_times import DispatchTimes
from conformance.proxy.events import Chunk, Closed, Command
from model.log import Position

P = Position(3, 4)
GONE = tuple[str, str, int]


def command(kind: str, **told: Any) -> Command:
    known: dict[str, Any] = {"number": 1, "connection": 1, "direction": "to-client", "size_bytes": 9, "came_at_s": 1.5}
    known |= {"topic": "t", "consumer": "c", "consumer_id": 7}
    return Command(kind=kind, **(known | told))


def message(came_at_s: float, **told: Any) -> Command:
    return command("MESSAGE", **({"positions": (P,), "came_at_s": came_at_s, "passed_at_s": 2.0} | told))


def test_a_message_was_sent_when_it_last_came_to_the_proxy() -> None:
    seen = DispatchTimes()
    chunk = Chunk("u", 1, 2, 90)
    seen(message(1.5))
    seen(message(1.75, chunk=chunk))
    taken = seen.of("t", "c", P)
    assert taken is not None
    assert (taken.sent_ns, taken.chunk) == (1_750_000_000, chunk)
    assert seen.of("t", "c", P) == taken  # a batch is asked for message by message


def test_what_did_not_pass_or_was_for_somebody_else_was_not_seen() -> None:
    seen = DispatchTimes()
    seen(message(1.5, passed_at_s=None))
    assert seen.of("t", "c", P) is None
    seen(message(1.5))
    assert seen.of("t", "d", P) is None
    assert seen.of("u", "c", P) is None


def test_only_so_many_are_kept() -> None:
    seen = DispatchTimes()
    for entry in range(dispatch_times.KEPT_AT_MOST + 1):
        seen(message(1.5, positions=(Position(1, entry),)))
    assert seen.of("t", "c", Position(1, 0)) is None
    assert seen.of("t", "c", Position(1, 1)) is not None


def test_consumers_are_gone_with_their_connection_and_when_the_broker_closes_them() -> None:
    gone: list[GONE] = []
    seen = DispatchTimes(on_gone=lambda *told: gone.append(told))
    for connection, consumer in ((1, "c"), (1, "d"), (2, "e")):
        seen(
            command(
                "SUBSCRIBE", direction="to-broker", connection=connection, consumer=consumer, consumer_id=ord(consumer)
            )
        )
    seen(command("CLOSE_CONSUMER", consumer_id=ord("c")))
    assert gone == [("t", "c", 1_500_000_000)]
    seen(Closed(connection=1, at_s=2.5, by="broker"))
    assert gone[1:] == [("t", "d", 2_500_000_000)]
