"""What producers at another cluster publish to a topic, whose home receives it from a replicator.

A confirmed entry is *in flight* until home is read back once everything is replicated to it. Until then, home's log is
unknown, as after an unanswered send. The read shows where home stored the entry. From then on
subscriptions dispatch it like any other entry.

Deduplication compares the positions that replicated entries have at their source, if the source sends these: a snapshot
then has the last one's ledger and entry under two names of the replicator. Otherwise, and when a topic is loaded, the
broker counts the id under the producer's name. So a snapshot may have either, but nothing that home had not stored.

A replicator stores the other cluster's entries in their order, each once (REPL-01). Where home is not deduplicated, a
replicator that reconnected may have sent again everything from an earlier entry on.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass, replace
from typing import Final

from model.cluster_operations import AWAY, HOME
from model.events import Answer, LoggedEntry, LogRead, SnapshotRead, Stored
from model.example.droppable import NOTHING as NOTHING_DROPPABLE
from model.example.droppable import Droppable, droppable
from model.judgement import Allowed, Broken, Part
from model.log import EARLIEST, Position
from model.rules.catalogue import carries
from model.vocabulary import REPLICATOR, Entry

REPL_01: Final = "REPL-01"
LEDGER, ENTRY = "_LID", "_EID"
"""The ends of a replicator's names in a snapshot: of the last ledger at its source, and of the last entry."""


@dataclass(frozen=True, slots=True)
class Published:
    """An entry in the cluster to which its producer sent it."""

    position: Position
    ids: tuple[str, ...]
    key: str | None

    @classmethod
    def of(cls, position: Position, entry: Entry) -> Published:
        return cls(position, _ids(entry), entry.sticky_key)

    def is_in(self, found: LoggedEntry) -> bool:
        return (self.ids, self.key) == (_ids(found.entry), found.entry.sticky_key)


@dataclass(frozen=True, slots=True)
class Remote:
    """The entries of the producers at the other cluster.

    ``arrived``: how many home had when it was read last. ``at_home``: where it had these, with those that came twice.
    ``is_known``: every send was confirmed.
    """

    producers: frozenset[str] = frozenset()
    published: tuple[Published, ...] = ()
    arrived: int = 0
    at_home: tuple[Position, ...] = ()
    is_known: bool = True
    counted: tuple[tuple[str, int, Position], ...] = ()
    """Of each entry at home: its producer, its id, and its position there."""
    droppable: Droppable = NOTHING_DROPPABLE
    """What of home's log, as it was read last, the other cluster may drop if it deduplicates."""

    @property
    def is_in_flight(self) -> bool:
        """Whether home may store more of these entries at any time."""
        return not self.is_known or self.arrived < len(self.published)

    def sent(self, producer: str, entries: Sequence[Entry], answers: Sequence[Answer]) -> Remote:
        """A producer sent entries, and received these answers."""
        stored = [
            Published.of(answer.position, entry)
            for entry, answer in zip(entries, answers, strict=False)
            if isinstance(answer, Stored)
        ]
        return replace(
            self,
            producers=self.producers | {producer},
            published=(*self.published, *stored),
            is_known=self.is_known and len(stored) == len(entries),
        )

    def read_at_home(self, read: LogRead) -> Remote:
        """Home's log was read."""
        return replace(self, droppable=droppable(read.entries))

    def of_home(self, read: LogRead) -> list[LoggedEntry]:
        """The entries of the other cluster's log that its replicator from home has stored."""
        return [one for one in read.entries if one.producer not in self.producers]

    def new(self, read: LogRead) -> list[LoggedEntry]:
        """The entries of these producers that home did not have when it was read before."""
        last = max(self.at_home, default=EARLIEST)
        return [one for one in read.entries if one.producer in self.producers and one.position > last]


NOTHING: Final = Remote()


@carries("REPL-01")
def arrived(remote: Remote, read: LogRead, *, is_deduplicated: bool) -> Allowed[Remote] | Broken:
    """Home was read back after everything was replicated to it."""
    if not remote.is_known:
        return Allowed(remote, excused=(REPL_01,) if remote.producers else ())
    new, may_repeat = remote.new(read), read.has_reconnected and not is_deduplicated
    at_home = (*remote.at_home, *(one.position for one in new))
    counted = (*remote.counted, *((one.producer, one.entry.highest, one.position) for one in new))
    judged = compared(remote.published, (AWAY, HOME), new, may_repeat=may_repeat, before=remote.arrived)
    return judged.then(lambda count: Allowed(replace(remote, arrived=count, at_home=at_home, counted=counted)))


@carries("DEDUP-10")
def snapshot_read(remote: Remote, read: SnapshotRead, *, is_crowded: bool) -> Allowed[None] | Broken:
    """A snapshot at home counts nothing of the other cluster that home has stored only after its position, or never.

    ``is_crowded``: there may be more names than it holds, so that one of the replicator's two may be missing.
    """
    numbers: dict[str, int] = {}
    for name, highest in read.producers.items():
        if name in remote.producers:
            stored = {one for producer, one, at in remote.counted if producer == name and at <= read.position}
            if highest not in stored:
                what = f"has {highest} for {name} of another cluster"
                return Broken("DEDUP-10", f"the snapshot at {read.position} {what}, which is not stored up to there")
        elif remote.producers and name.startswith(REPLICATOR):
            numbers[name[-len(LEDGER) :]] = highest
    if not numbers:
        return Allowed(None)
    ledger, entry = numbers.get(LEDGER), numbers.get(ENTRY)
    count = sum(position <= read.position for position in remote.at_home)
    sources = [one.position for one in remote.published[:count]]
    missing = (None,) if is_crowded else ()
    if any(ledger in (at.ledger, *missing) and entry in (at.entry, *missing) for at in sources):
        return Allowed(None, ("DEDUP-10",))
    what = f"has {ledger}:{entry} for the replicator"
    return Broken("DEDUP-10", f"the snapshot at {read.position} {what}, from where nothing is stored up to there")


@dataclass(frozen=True, slots=True)
class NotAsPublished:
    """What a cluster has of the entries that were ``published`` and replicated to it is not all, or not in order, even
    if it may lack these."""

    link: tuple[str, str]
    published: Sequence[Published]
    may_lack: Set[Position]


def compared(
    published: Sequence[Published],
    link: tuple[str, str],
    entries: Sequence[LoggedEntry],
    *,
    may_repeat: bool,
    before: int = 0,
    may_lack: Set[Position] = frozenset(),
) -> Allowed[int] | Broken:
    """Over a ``link``, everything that was ``published`` was replicated, in its order; returns how much that is.

    ``entries``: what the target has of it beyond those that it had ``before``. ``may_lack``: what it may lack.
    """
    source, cluster = link

    def with_lacking(numbers: Collection[int]) -> Collection[int]:
        passed = set(numbers)
        for number, one in enumerate(published):
            if number in passed and one.position in may_lack:
                passed.add(number + 1)
        return passed

    def broken(because: str) -> Broken:
        return Broken(REPL_01, because, evidence=NotAsPublished(link, published, may_lack), passed=without)

    def without(part: Part) -> Allowed[int] | Broken:
        lacking = may_lack | (frozenset(one.position for one in published) if part is None else part)
        return compared(published, link, entries, may_repeat=may_repeat, before=before, may_lack=lacking)

    replicated = with_lacking({before})
    for found in entries:
        following = {*replicated, *range(max(replicated))} if may_repeat else replicated
        after = {number + 1 for number in following if number < len(published) and published[number].is_in(found)}
        if not after:
            instead = _instead(published, max(replicated), source)
            return broken(f"{cluster} has {', '.join(_ids(found.entry))} at {found.position} {instead}")
        replicated = with_lacking(after)
    if len(published) not in replicated:
        lacking = published[max(replicated)]
        return broken(f"{cluster} lacks {', '.join(lacking.ids)}, which {source} has at {lacking.position}")
    return Allowed(len(published), (REPL_01,) if len(published) > before else ())


def compared_from_home(remote: Remote, published: Sequence[Published], read: LogRead) -> Allowed[int] | Broken:
    """As :func:`compared`, from home to the other cluster, which may lack duplicates if it deduplicates."""
    return compared(
        published,
        (HOME, AWAY),
        remote.of_home(read),
        may_repeat=read.has_reconnected and not read.is_deduplicated,
        may_lack=remote.droppable.duplicates if read.is_deduplicated else frozenset(),
    )


def _instead(published: Sequence[Published], number: int, source: str) -> str:
    if number == len(published):
        return f"after the last message of {source}"
    return f"in place of {', '.join(published[number].ids)} at {published[number].position} of {source}"


def _ids(entry: Entry) -> tuple[str, ...]:
    return tuple(message.business_id for message in entry.messages)
