"""A snapshot that outlives deduplication: the topic was not loaded when deduplication was switched off.

Not of the document, but of the deviation ``deduplication-off-keeps-snapshot``. Until deduplication is on again, the
topic shows its last snapshot. Then its recovery replays everything that was stored since, as if deduplication had been
on. :mod:`model.deduplication.observer` has what the document says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from model.deduplication.producer_state import ProducerState, StoredEntry
from model.excuses.deduplication import DEDUPLICATION_OFF_KEEPS_SNAPSHOT


def as_before(state: ProducerState) -> ProducerState:
    """The state whose entries from before the switch count."""
    return replace(state, since=state.since_kept)


def replayed(state: ProducerState) -> Iterator[ProducerState]:
    """The states once deduplication is on again and all entries are replayed, those without an answer stored or not."""
    for entries in _stored(state.entries):
        counted = replace(as_before(state), entries=entries)
        yield replace(
            counted,
            pushed=counted.written,
            persisted=counted.written,
            failed=False,
            lags=False,
            requires=state.requires | {DEDUPLICATION_OFF_KEEPS_SNAPSHOT},
        )


def _stored(entries: tuple[StoredEntry, ...]) -> Iterator[tuple[StoredEntry, ...]]:
    """What the log may have: of each send without an answer, some first entries."""
    first = next((n for n, one in enumerate(entries) if one.maybe is not None), None)
    if first is None:
        yield entries
        return
    send = entries[first].maybe
    end = next((n for n in range(first, len(entries)) if entries[n].maybe != send), len(entries))
    for stored_until in range(first, end + 1):
        certain = (*entries[:first], *(replace(one, maybe=None) for one in entries[first:stored_until]))
        for rest in _stored(entries[end:]):
            yield (*certain, *rest)
