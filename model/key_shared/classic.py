"""Recently joined consumers of the classic implementation (document 004 before 4.0; KEY-14).

When a consumer joins, the dispatcher records its read position. Until everything before that is acknowledged, the
consumer is *recent* and receives no entry from that position on. The dispatcher does not track hashes. So a replay that
the consumer may receive can have a key whose messages are pending at another consumer, which draining hashes prevent.
"""

from __future__ import annotations

from msgspec import Struct

from model.rules.catalogue import carries


class Recent(Struct, frozen=True, cache_hash=True, gc=False):
    """The recently joined consumers, oldest first, each with the read position at its join."""

    joined: tuple[tuple[str, int], ...] = ()

    def of(self, consumer: str) -> int | None:
        """The read position when this consumer joined; None if it did not join recently."""
        return next((read for name, read in self.joined if name == consumer), None)


NOBODY = Recent()


@carries("KEY-14")
def joined(recent: Recent, consumer: str, *, read: int) -> Recent:
    """The consumer joins others while messages are unacknowledged. ``read``: the read position."""
    return Recent((*recent.joined, (consumer, read)))


def left(recent: Recent, consumer: str, *, others: int) -> Recent:
    """The consumer left. A single remaining consumer is not restricted."""
    return NOBODY if others == 1 else Recent(tuple(pair for pair in recent.joined if pair[0] != consumer))


@carries("KEY-14")
def caught_up(recent: Recent, *, unacknowledged: int) -> Recent:
    """Everything before ``unacknowledged`` is acknowledged. Consumers that joined by then are no longer recent."""
    return Recent(tuple(pair for pair in recent.joined if pair[1] > unacknowledged))


@carries("KEY-14")
def may_receive(recent: Recent, consumer: str, position: int, *, replayed: bool, ever: bool = True) -> bool:
    """Whether this consumer may receive the entry at ``position`` (KEY-14). ``ever``: replays are allowed while recent.

    The document forbids it. But an entry in the replay queue that lacked permits may have a hash that was reassigned to
    a recent consumer. No other consumer receives it, so the subscription would starve. So a replay is allowed if it was
    read before the first recent consumer joined. Later entries may have been withheld from another recent consumer.
    """
    limit = recent.of(consumer)
    if limit is None:
        return True
    return ever and position < (min(read for _, read in recent.joined) if replayed else limit)
