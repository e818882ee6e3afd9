"""What another cluster has of a topic that is replicated from its home.

Only producers at home write, so the other cluster has the same messages in the same order (REPL-01). Where the topic is
not deduplicated, a replicator that reconnected may have sent again what was in flight: everything from an earlier entry
on. A reader receives no markers from either cluster (REPL-10).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from model.cluster_events import ReplicatorStalled
from model.cursors.log import TopicLog
from model.events import AnyOutcome, LoggedEntry, LogRead
from model.judgement import Allowed, Broken
from model.log import EARLIEST, Position
from model.rules.catalogue import carries
from model.subscriptions.state import Consumption

REPL_01 = "REPL-01"


@dataclass(frozen=True, slots=True)
class _AtHome:
    """An entry at home: its position, and what the other cluster has of it."""

    position: Position
    ids: tuple[str, ...]
    key: str | None

    def is_in(self, found: LoggedEntry) -> bool:
        return (self.ids, self.key) == (_ids(found), found.entry.sticky_key)


@carries("REPL-01")
def log_read(state: Consumption, topic: str, cluster: str, outcome: AnyOutcome) -> Allowed[None] | Broken:
    """The log of a cluster was read after everything was replicated to it."""
    tracked = state.topics.get(topic)
    if isinstance(outcome, ReplicatorStalled):
        link = f"the replicator of {outcome.source} to {outcome.target}"
        return Broken(REPL_01, f"{link} was connected, but replicated nothing for {outcome.stalled_s:.0f} s")
    if tracked is None or not isinstance(outcome, LogRead):
        return Allowed(None)
    if not tracked.is_sure or tracked.is_trimmed:
        return Allowed(None, excused=(REPL_01,))
    may_repeat = outcome.has_reconnected and not outcome.is_deduplicated
    return _compared(_at_home(tracked.log), cluster, outcome.entries, may_repeat=may_repeat)


def _at_home(log: TopicLog) -> list[_AtHome]:
    keys = ((position, log.keys.get(position)) for position in log.all_after(EARLIEST))
    return [_AtHome(position, log.entries[position], None if key is None else key.key) for position, key in keys]


def _compared(
    home: Sequence[_AtHome], cluster: str, entries: Sequence[LoggedEntry], *, may_repeat: bool
) -> Allowed[None] | Broken:
    """``replicated``: how many entries of home may be the first ones that were replicated by then."""
    replicated = {0}
    for found in entries:
        following = replicated.union(range(max(replicated))) if may_repeat else replicated
        after = {number + 1 for number in following if number < len(home) and home[number].is_in(found)}
        if not after:
            return Broken(REPL_01, f"{cluster} has {_words(found)} {_instead(home, max(replicated))}")
        replicated = after
    if len(home) not in replicated:
        lacking = home[max(replicated)]
        ids = ", ".join(lacking.ids)
        return Broken(REPL_01, f"{cluster} lacks {ids}, which its home has at {lacking.position}")
    return Allowed(None, (REPL_01,) if home else ())


def _instead(home: Sequence[_AtHome], number: int) -> str:
    if number == len(home):
        return "after the last message of the topic's home"
    return f"in place of {', '.join(home[number].ids)} at {home[number].position} of home"


def _ids(entry: LoggedEntry) -> tuple[str, ...]:
    return tuple(message.business_id for message in entry.entry.messages)


def _words(entry: LoggedEntry) -> str:
    return f"{', '.join(_ids(entry))} at {entry.position}"
