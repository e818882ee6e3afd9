"""What a former owner of a topic may still persist of a subscription, once it is no longer frozen (SERVE-06).

Another broker has recovered the cursor meanwhile. This module leaves it to others to track the clients of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from model.cursors.bits import Bits
from model.cursors.cursor import Ack, Cursor, Interval, Labelled, is_opening, only_by_deviation
from model.cursors.log import TopicLog
from model.excuses.cursors import BATCH_INDEX_ACKS_NOT_RECOVERED
from model.excuses.service import FORMER_OWNER_PERSISTS_CURSOR
from model.excuses.ways import by, together
from model.rules.catalogue import carries


@dataclass(frozen=True, slots=True)
class FormerOwner:
    """The former owner of a topic, and one subscription.

    ``past``: the states that the subscription has in its memory, or has once it handles the acks that were sent to it.
    ``is_thawed``: it continued, so it may have persisted one of them.
    """

    past: tuple[tuple[Labelled, ...], ...]
    is_thawed: bool = False


def frozen(cursor: Cursor) -> FormerOwner:
    """The owner was frozen with this cursor in its memory."""
    return FormerOwner((tuple(cursor.labelled()),))


def acknowledged(former: FormerOwner, ack: Ack, log: TopicLog) -> FormerOwner:
    """A consumer sent an ack to the former owner, which may handle it."""
    after = tuple((ack.on(state, log), ways) for state, ways in former.past[-1])
    return replace(former, past=(*former.past, after))


def thawed(former: FormerOwner, present: Cursor, at: Interval) -> FormerOwner | None:
    """The former owner continued; None: it can persist nothing, because the present owner has opened a ledger."""
    if present.is_requested and not is_opening(present, at):
        return None
    return replace(former, is_thawed=True)


@carries("SERVE-06")
def recovered(before: Cursor, after: Cursor, former: FormerOwner, *, is_graceful: bool) -> Cursor:
    """The cursor when its topic was reloaded, ``after`` the present owner lost it.

    In releases that deviate, it has what the former owner persisted. A present owner that closes the cursor gracefully
    persists each change of its own.
    """
    after = replace(after, since=after.since | {"SERVE-06"})
    if is_graceful and before.ledger_since_ms is not None:
        return after
    # It may close the cursor, and then stores no acks of parts of batches (batch-index-acks-not-recovered).
    in_memory = [(state, together(ways, by(FORMER_OWNER_PERSISTS_CURSOR))) for state, ways in _mixed(former)]
    lost = by(BATCH_INDEX_ACKS_NOT_RECOVERED)
    whole = ((replace(state, parts=Bits()), together(ways, lost)) for state, ways in in_memory if state.parts)
    deviating = only_by_deviation(after.possible, (*after.deviating.items(), *in_memory, *whole))
    return replace(after, deviating=deviating)


def _mixed(former: FormerOwner) -> Iterator[Labelled]:
    """What it may persist (:func:`model.cursors.cursor.mixed`)."""
    for number, states in enumerate(former.past):
        yield from states
        for before, earlier in (one for moment in former.past[: number + 1] for one in moment):
            yield from ((replace(one, mark_delete=before.mark_delete), together(ways, earlier)) for one, ways in states)
