"""The classic implementation's rule: consumers that joined recently (document 004, as it was before 4.0; KEY-14).

When a consumer joins, the position is noted that would be read next. Until everything before that is acknowledged, the
consumer is *recent*: it gets nothing that is read from there on. Hashes are not followed, so what it may get, a replay
of what was read before it joined, may be of a key that another consumer still holds. Hence draining hashes.
"""

from __future__ import annotations

from msgspec import Struct

from model.rules.catalogue import carries


class Recent(Struct, frozen=True, cache_hash=True, gc=False):
    """The consumers that joined recently, oldest first, each with what was to be read next when it joined."""

    joined: tuple[tuple[str, int], ...] = ()

    def of(self, consumer: str) -> int | None:
        """What was to be read next when this consumer joined; None when it did not join recently."""
        return next((read for name, read in self.joined if name == consumer), None)


NOBODY = Recent()


@carries("KEY-14")
def joined(recent: Recent, consumer: str, *, read: int) -> Recent:
    """The consumer joins others while something is unacknowledged, and ``read`` is the position to be read next."""
    return Recent((*recent.joined, (consumer, read)))


def left(recent: Recent, consumer: str, *, others: int) -> Recent:
    """The consumer left; with one consumer alone, of ``others``, there is no order to be kept."""
    return NOBODY if others == 1 else Recent(tuple(pair for pair in recent.joined if pair[0] != consumer))


@carries("KEY-14")
def caught_up(recent: Recent, *, unacknowledged: int) -> Recent:
    """Everything before the position ``unacknowledged`` is acknowledged: who joined by then is like others."""
    return Recent(tuple(pair for pair in recent.joined if pair[1] > unacknowledged))


@carries("KEY-14")
def may_receive(recent: Recent, consumer: str, position: int, *, replayed: bool, ever: bool = True) -> bool:
    """Whether this consumer may get what stands at ``position`` (KEY-14); ``ever``: as long as it is recent.

    The document says never. But what was put aside for want of permits may be of a hash that has moved to a recent
    consumer: nobody else gets it, so all would wait for ever. So a replay may go there, when it was read before the
    first of the recent consumers joined: what stands behind that may have been kept from another one.
    """
    limit = recent.of(consumer)
    if limit is None:
        return True
    return ever and position < (min(read for _, read in recent.joined) if replayed else limit)
