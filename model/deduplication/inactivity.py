"""Inactive producers, which the broker forgets (DEDUP-20).

A producer is inactive from the moment at which its connection ends. The broker looks for inactive producers now and
then, and may forget those that were inactive for longer than its setting says. It must judge the ids of all others as
ever. After a reload, entries that are stored after the position of the snapshot are replayed, also those of a producer
that was forgotten.

How long a producer was inactive is known by the minutes that passed for it. An example itself takes less than
``SLACK_MIN``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from model.deduplication.producer_state import NONE, ProducerState
from model.rules.catalogue import carries

SLACK_MIN: Final = 30
"""How long an example takes at most, besides the minutes that pass at once."""


@dataclass(frozen=True, slots=True)
class Activity:
    """The activity of a topic's producers.

    ``connected``: those that are surely connected. ``inactive_min``: for each of the others, how long it may be
    inactive. ``kept``: those that the broker must not have forgotten when it last looked for inactive ones, and whose
    ids were not judged since.
    """

    connected: frozenset[str] = frozenset()
    inactive_min: Mapping[str, int] = field(default_factory=dict)
    kept: frozenset[str] = frozenset()

    def with_connected(self, producer: str) -> Activity:
        if producer in self.connected:
            return self
        inactive = {name: minutes for name, minutes in self.inactive_min.items() if name != producer}
        return replace(self, connected=self.connected | {producer}, inactive_min=inactive)

    def without(self, *producers: str) -> Activity:
        """The same when these may have been disconnected."""
        return (
            self
            if self.connected.isdisjoint(producers)
            else replace(self, connected=self.connected.difference(producers))
        )

    def without_all(self) -> Activity:
        """The same when any may have been disconnected."""
        return replace(self, connected=frozenset()) if self.connected else self

    def judged(self, producer: str) -> Activity:
        """The same when an answer has shown what the broker knows of a producer."""
        return replace(self, kept=self.kept - {producer}) if producer in self.kept else self

    def after(self, minutes: int, producers: Iterable[str]) -> Activity:
        """The same when these minutes have passed for all these producers."""
        away = (name for name in producers if name not in self.connected)
        return replace(self, inactive_min={name: self.inactive_min.get(name, 0) + minutes for name in away})


@carries("DEDUP-20")
def may_be_forgotten(activity: Activity, producer: str, timeout_min: int) -> bool:
    """Whether a producer may have been inactive for longer than the setting says."""
    if producer in activity.connected:
        return False
    return activity.inactive_min.get(producer, 0) + SLACK_MIN > timeout_min


def forgotten(state: ProducerState) -> Iterable[ProducerState]:
    """The producer is forgotten. Its last writes, if they are in flight, count once they are complete."""
    recalls = state.since if state.recalls is None else state.recalls
    since = len(state.entries)
    while True:
        yield replace(
            state, since=since, pushed=NONE, persisted=NONE, failed=False, is_recovered=False, recalls=recalls
        )
        if since <= state.since or state.entries[since - 1].position is not None:
            return
        since -= 1


def recalled(state: ProducerState) -> Iterable[ProducerState]:
    """After a reload, entries of a forgotten producer may count again: all after some position."""
    if state.recalls is None:
        return
    seen = {state.written}
    for since in reversed(range(state.recalls, state.since)):
        found = replace(state, since=since)
        if found.written not in seen or state.entries[since].entry.chunk is not None:
            seen.add(found.written)
            yield found
