"""The reference: one topic with deduplication, as document 000 describes it.

A topic is a value. Each function takes a topic and an event, and returns the next topic and the answers to producers.
The caller makes all choices: which write completes or fails, when a snapshot is taken, how many writes in flight a
crash leaves in the log. So the exploration tries every choice, and a test can replay one.

The observer (:mod:`model.deduplication.observer`) knows only what clients see, and keeps every state that explains it.
The reference knows everything, and is in one state.

Where the document is silent, this module chooses what its rules require. Each choice has a variant that shows what
breaks otherwise (:mod:`model.deduplication.variants`):

- Writes complete in order, and if one fails, all later ones fail too. Until they have ended the topic accepts no entry.
  Then it disconnects the producers, because they must also resend the entries after the failed write.
- A batch is new if all its ids are above *pushed*, and a duplicate if all are at or below *persisted*. Any other batch
  cannot be confirmed without losing or repeating a message, and has unknown status.
- ProducerSuccess contains the highest *persisted* id, because *pushed* may still fall.

Chunks of one message share its sequence id, which counts with the last one (:mod:`model.chunking.deduplication`).

Not modelled: markers, transactions, consumers, and when a snapshot is due.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Sequence
from itertools import combinations
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from model.chunking import deduplication as of_chunks
from model.deduplication.producer_state import NONE, UNKNOWN_STATUS
from model.deduplication.variants import DOCUMENT, Variant
from model.events import Answer, Duplicate, LoggedEntry, Opened, Refused, Stored
from model.log import Ledgers, Position
from model.rules.catalogue import carries
from model.vocabulary import Entry

NOT_READY = "ServiceNotReady"
"""The code of a refusal while writes are failing."""

BUSY = "ProducerBusy"
"""The code of a refusal of a second producer with the same name."""

WRITE_FAILED = "PersistenceError"
"""The code of the error to a producer whose entry could not be written."""


class Judgement(enum.Enum):
    """Whether an entry is a duplicate, by the document's names."""

    NEW = "NotDup"
    DUPLICATE = "Dup"
    UNKNOWN = "Unknown"


class HighestIds(Struct, frozen=True, cache_hash=True, gc=False):
    """A map from producer name to its highest sequence id, as a value; the names are in order."""

    ids: tuple[tuple[str, int], ...] = ()

    def of(self, producer: str) -> int:
        """The highest id of this producer; -1 if there is none."""
        for name, highest in self.ids:
            if name == producer:
                return highest
        return NONE

    def raised(self, producer: str, sequence_id: int) -> HighestIds:
        """The map with this producer at least at this id; it never falls."""
        if self.of(producer) >= sequence_id:
            return self
        return HighestIds(tuple(sorted((*self.without(producer).ids, (producer, sequence_id)))))

    def without(self, producer: str) -> HighestIds:
        return HighestIds(tuple(pair for pair in self.ids if pair[0] != producer))

    def cut_to(self, producers: Collection[str]) -> HighestIds:
        """The map with these producers only."""
        return HighestIds(tuple(pair for pair in self.ids if pair[0] in producers))

    @property
    def producers(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.ids)


NOTHING = HighestIds()


class Snapshot(Struct, frozen=True, cache_hash=True, gc=False):
    """The properties of the deduplication cursor, and its position (None: before the first entry)."""

    position: Position | None = None
    highest: HighestIds = NOTHING


class Write(Struct, frozen=True, cache_hash=True, gc=False):
    """An entry in flight to the log; ``session`` is None once its connection ended."""

    session: str | None
    producer: str
    entry: Entry


class SessionAnswer(Struct, frozen=True, gc=False):
    """The answer to an entry of a session."""

    session: str
    entry: Entry
    answer: Answer


class Topic(Struct, frozen=True, kw_only=True, cache_hash=True, gc=False):
    """One topic in its broker.

    On disk: ``log``, ``ledgers`` and ``snapshot``, which is None while deduplication is off because there is no cursor.
    In memory: the two maps, the writes ``in_flight``, oldest first, and the open ``sessions`` with their producers'
    names. ``failing``: a write failed and later ones have not ended yet. ``since``: where there are chunks, so many
    entries of the log are older than the switch of deduplication.
    """

    variant: Variant = DOCUMENT
    max_producers: int
    log: tuple[LoggedEntry, ...] = ()
    ledgers: Ledgers
    snapshot: Snapshot | None
    pushed: HighestIds = NOTHING
    persisted: HighestIds = NOTHING
    in_flight: tuple[Write, ...] = ()
    sessions: tuple[tuple[str, str], ...] = ()
    failing: bool = False
    since: int = 0

    @property
    def last_position(self) -> Position | None:
        """The position of the newest entry; None for an empty log."""
        return self.log[-1].position if self.log else None

    def producer_of(self, session: str) -> str:
        """The producer's name of an open session; ValueError for any other."""
        for name, producer in self.sessions:
            if name == session:
                return producer
        raise ValueError(f"session {session} is not open")

    def key(self, producer: str) -> str:
        """The key of a producer in the maps: its name, which no other producer shares (DEDUP-07)."""
        return "" if self.variant.shared_maps else producer

    def pushed_of(self, producer: str) -> int:
        """The highest sequence id of this producer that was handed to the log; -1 for none."""
        return self.pushed.of(self.key(producer))

    def persisted_of(self, producer: str) -> int:
        """The highest sequence id of this producer that is in the log; -1 for none."""
        return self.persisted.of(self.key(producer))


class Crashed(Struct, frozen=True, kw_only=True):
    """What remains of a topic after a crash: the data on disk, and the parameters of its next broker."""

    variant: Variant
    max_producers: int
    log: tuple[LoggedEntry, ...]
    ledgers: Ledgers
    snapshot: Snapshot | None
    since: int


SessionAnswers = tuple[SessionAnswer, ...]
"""The answers to sessions at one moment, in order."""


@carries("DEDUP-01")
def new_topic(
    *, deduplication: bool = True, entries_per_ledger: int = 5, max_producers: int = 10, variant: Variant = DOCUMENT
) -> Topic:
    """An empty topic, with deduplication on or off (DEDUP-01)."""
    return Topic(
        variant=variant,
        max_producers=max_producers,
        ledgers=Ledgers(entries_per_ledger),
        snapshot=Snapshot() if deduplication else None,
    )


@carries("DEDUP-09")
def open_producer(topic: Topic, session: str, producer: str) -> tuple[Topic, Opened | Refused]:
    """A producer connects. ProducerSuccess contains its highest stored id (DEDUP-09)."""
    if topic.failing:
        return topic, Refused(NOT_READY, "writes are failing")
    if any(name == producer for _, name in topic.sessions):
        return topic, Refused(BUSY, f"{producer} is connected already")
    known = topic.pushed_of(producer) if topic.variant.pushed_id_in_producer_success else topic.persisted_of(producer)
    return replace(topic, sessions=(*topic.sessions, (session, producer))), Opened(known)


def cut(topic: Topic, session: str) -> Topic:
    """A session's connection ends: its writes in flight continue, without an answer."""
    topic.producer_of(session)
    writes = tuple(replace(w, session=None) if w.session == session else w for w in topic.in_flight)
    return replace(topic, sessions=tuple(pair for pair in topic.sessions if pair[0] != session), in_flight=writes)


@carries("DEDUP-02", "DEDUP-03", "DEDUP-04", "DEDUP-07", "DEDUP-08", "DEDUP-14")
def judge(topic: Topic, producer: str, entry: Entry) -> Judgement:
    """Whether an entry is a duplicate. Only its ids decide, and no other producer.

    NotDup above *pushed* (DEDUP-02), Dup at or below *persisted* (DEDUP-03), Unknown between (DEDUP-04). Gaps between
    ids (DEDUP-08) and the content of messages (DEDUP-14) do not matter.
    """
    pushed, persisted = topic.pushed_of(producer), topic.persisted_of(producer)
    variant = topic.variant
    if entry.chunk is not None and not variant.no_check:
        return _judge_chunk(topic, producer, entry)
    if entry.lowest > pushed or variant.no_check or (variant.strict_less_than and entry.lowest == pushed):
        return Judgement.NEW
    last = entry.lowest if variant.overlapping_batch_dropped else _end(variant, entry)
    return Judgement.DUPLICATE if last <= persisted else Judgement.UNKNOWN


@carries("CHUNK-13")
def _judge_chunk(topic: Topic, producer: str, entry: Entry) -> Judgement:
    """Whether a chunk is a duplicate: its message is stored, or this chunk of an unfinished one.

    Of unknown status is one whose copy is in flight, or whose predecessor is not stored.
    """
    stored = [logged.entry for logged in topic.log[topic.since :] if logged.producer == producer]
    in_flight = [write.entry for write in topic.in_flight if write.producer == producer]

    def judged(whole: int, entries: Sequence[Entry]) -> of_chunks.ChunkJudgement:
        known = of_chunks.known_after(entries[-1] if entries else None, whole)
        return of_chunks.judge(known, of_chunks.chunk_of(entry), variant=topic.variant.chunks)

    if judged(topic.pushed_of(producer), stored + in_flight) is of_chunks.ChunkJudgement.STORED:
        return Judgement.NEW
    is_duplicate = judged(topic.persisted_of(producer), stored) is of_chunks.ChunkJudgement.DUPLICATE
    return Judgement.DUPLICATE if is_duplicate else Judgement.UNKNOWN


def send(topic: Topic, session: str, entry: Entry) -> tuple[Topic, SessionAnswers]:
    """An entry arrives. A new one is written and answered later; any other is answered at once."""
    producer = topic.producer_of(session)
    if topic.failing:
        return topic, (SessionAnswer(session, entry, Refused(NOT_READY, "writes are failing")),)
    if topic.snapshot is None and not topic.variant.judged_when_off:
        return write_unjudged(topic, session, producer, entry), ()
    match judge(topic, producer, entry):
        case Judgement.NEW:
            return begin_write(topic, session, producer, entry), ()
        case Judgement.DUPLICATE:
            return topic, (SessionAnswer(session, entry, answer_to_duplicate(topic)),)
        case Judgement.UNKNOWN:
            return treat_unknown(topic, session, producer, entry)
        case never:
            assert_never(never)


@carries("DEDUP-01")
def write_unjudged(topic: Topic, session: str, producer: str, entry: Entry) -> Topic:
    """Deduplication is off: every entry is stored, also one with a repeated id (DEDUP-01)."""
    return replace(topic, in_flight=(*topic.in_flight, Write(session, producer, entry)))


@carries("DEDUP-02", "DEDUP-05")
def begin_write(topic: Topic, session: str, producer: str, entry: Entry) -> Topic:
    """A new entry: *pushed* rises to its highest id (DEDUP-02) before it is written (DEDUP-05)."""
    variant, key = topic.variant, topic.key(producer)
    highest = _end(variant, entry)
    in_flight = (*topic.in_flight, Write(session, producer, entry))
    if not _counts(variant, entry):
        return replace(topic, in_flight=in_flight)
    pushed = topic.pushed if variant.pushed_after_write else topic.pushed.raised(key, highest)
    persisted = topic.persisted.raised(key, highest) if variant.persisted_before_write else topic.persisted
    return replace(topic, pushed=pushed, persisted=persisted, in_flight=in_flight)


@carries("DEDUP-03")
def answer_to_duplicate(topic: Topic) -> Answer:
    """A duplicate is confirmed, because it is stored, so its producer may continue (DEDUP-03)."""
    return Refused("Duplicate", "seen before") if topic.variant.duplicate_refused else Duplicate()


@carries("DEDUP-04")
def treat_unknown(topic: Topic, session: str, producer: str, entry: Entry) -> tuple[Topic, SessionAnswers]:
    """An entry of unknown status is neither stored nor confirmed, so that its producer retries (DEDUP-04)."""
    variant = topic.variant
    if variant.unknown_stored:
        return begin_write(topic, session, producer, entry), ()
    if variant.unknown_confirmed:
        return topic, (SessionAnswer(session, entry, Duplicate()),)
    after = replace(topic, pushed=topic.persisted) if variant.reset_on_unknown else topic
    return after, (SessionAnswer(session, entry, Refused(UNKNOWN_STATUS, "a write is in flight")),)


@carries("DEDUP-02", "DEDUP-05")
def complete_next_write(topic: Topic) -> tuple[Topic, SessionAnswers]:
    """The oldest write completes: it is stored at the next position (DEDUP-02), raises *persisted* (DEDUP-05), and is
    confirmed."""
    if topic.failing and not topic.variant.later_writes_succeed:
        raise ValueError("a write failed: later ones fail too")
    write, *later = topic.in_flight
    after = _raise_persisted(_append(replace(topic, in_flight=tuple(later)), write), write)
    answers = (
        () if write.session is None else (SessionAnswer(write.session, write.entry, Stored(after.log[-1].position)),)
    )
    return (resume(after) if topic.failing and not later else after), answers


def complete_next_write_during_snapshot(topic: Topic) -> tuple[Topic, SessionAnswers]:
    """The same, and a snapshot reads the log's end after the entry is stored, and the map before it is raised.

    Releases do this (the variant ``snapshot-position-ahead``). The document's snapshot is atomic.
    """
    done, answers = complete_next_write(topic)
    before = take_snapshot(topic).snapshot
    ahead = None if before is None else replace(before, position=done.last_position)
    return replace(done, snapshot=ahead), answers


@carries("DEDUP-06")
def fail_next_write(topic: Topic) -> tuple[Topic, SessionAnswers]:
    """The oldest write fails, and its producer receives an error. Later writes fail next."""
    write, *later = topic.in_flight
    after = replace(topic, in_flight=tuple(later), failing=True)
    if topic.variant.failed_write_stored:
        after = _append(after, write)
    answers = () if write.session is None else (SessionAnswer(write.session, write.entry, Refused(WRITE_FAILED)),)
    return (after if later else resume(after)), answers


@carries("DEDUP-05", "DEDUP-06")
def resume(topic: Topic) -> Topic:
    """The writes in flight have ended: *pushed* falls back to *persisted* (DEDUP-06), and the topic accepts entries.

    It disconnects its producers first. Otherwise an entry that was sent after the failed one could be stored before it.
    """
    pushed = topic.pushed if topic.variant.no_reset_after_failure else topic.persisted
    sessions = topic.sessions if topic.variant.sessions_survive_failure else ()
    return replace(topic, failing=False, pushed=pushed, sessions=sessions)


def _append(topic: Topic, write: Write) -> Topic:
    logged = LoggedEntry(topic.ledgers.next_position, write.producer, write.entry)
    return replace(topic, log=(*topic.log, logged), ledgers=topic.ledgers.after_append())


def _raise_persisted(topic: Topic, write: Write) -> Topic:
    """A persisted id was also pushed, even if it was sent before deduplication was switched on."""
    if topic.snapshot is None or not _counts(topic.variant, write.entry):
        return topic
    key, highest = topic.key(write.producer), _end(topic.variant, write.entry)
    if topic.variant.deduplication_enabled_in_flight:
        return replace(topic, persisted=topic.persisted.without(key).raised(key, highest))
    return replace(topic, persisted=topic.persisted.raised(key, highest), pushed=topic.pushed.raised(key, highest))


@carries("CHUNK-13")
def _counts(variant: Variant, entry: Entry) -> bool:
    """Whether the id of an entry counts: a message in chunks counts with its last chunk."""
    return not entry.is_part or variant.chunks.each_deduplicated


def _end(variant: Variant, entry: Entry) -> int:
    """The id that counts for an entry: its highest."""
    return entry.lowest if variant.batch_without_highest_id else entry.highest


def snapshot_room(topic: Topic) -> int:
    """How many producers a snapshot has now: all, up to the configured maximum (DEDUP-10)."""
    known = len(to_snapshot(topic).ids)
    return known if topic.variant.snapshot_not_cut else min(known, topic.max_producers)


def snapshot_choices(topic: Topic) -> Iterable[frozenset[str]]:
    """The possible sets of producers of a snapshot now."""
    yield from map(frozenset, combinations(to_snapshot(topic).producers, snapshot_room(topic)))


def to_snapshot(topic: Topic) -> HighestIds:
    """The map that a snapshot stores: *persisted*, because *pushed* may still fall."""
    return topic.pushed if topic.variant.snapshot_of_pushed else topic.persisted


@carries("DEDUP-10")
def take_snapshot(topic: Topic, kept: Collection[str] | None = None) -> Topic:
    """Stores the map of the highest persisted ids, with the position of the last entry (DEDUP-10).

    ``kept``: the producers in it, by default the first by name. ValueError if it cannot be taken so.
    """
    if topic.snapshot is None:
        raise ValueError("deduplication is off: there is no snapshot")
    source, room = to_snapshot(topic), snapshot_room(topic)
    kept = source.producers[:room] if kept is None else kept
    if len(kept) != room:
        raise ValueError(f"a snapshot has {room} producers now, not {len(kept)}")
    return replace(topic, snapshot=Snapshot(topic.last_position, source.cut_to(kept)))


@carries("DEDUP-11")
def fail_snapshot(topic: Topic) -> Topic:
    """A snapshot could not be stored: the former one remains, and no id is lost (DEDUP-11)."""
    return replace(topic, pushed=NOTHING, persisted=NOTHING) if topic.variant.failed_snapshot_forgets else topic


def may_reach(topic: Topic) -> int:
    """How many writes in flight a crash may leave in the log: all, or none after one that failed."""
    return 0 if topic.failing and not topic.variant.later_writes_succeed else len(topic.in_flight)


@carries("DEDUP-12")
def crash(topic: Topic, *, reached: int) -> Crashed:
    """The broker crashes. The first ``reached`` writes in flight are in the log, without an answer (DEDUP-12)."""
    if not 0 <= reached <= may_reach(topic):
        raise ValueError(f"{may_reach(topic)} writes can reach the log, not {reached}")
    for write in topic.in_flight[:reached]:
        topic = _append(topic, write)
    return Crashed(
        variant=topic.variant,
        max_producers=topic.max_producers,
        log=topic.log,
        ledgers=topic.ledgers,
        snapshot=topic.snapshot,
        since=topic.since,
    )


@carries("DEDUP-12")
def recover(crashed: Crashed) -> Topic:
    """The topic is reloaded: the snapshot, and a replay of the entries after its position (DEDUP-12)."""
    topic = Topic(
        variant=crashed.variant,
        max_producers=crashed.max_producers,
        log=crashed.log,
        ledgers=crashed.ledgers.taken_over(),
        snapshot=crashed.snapshot,
        since=crashed.since,
    )
    highest = recovered_ids(topic)
    return replace(topic, pushed=highest, persisted=highest)


@carries("DEDUP-11", "DEDUP-12")
def recovered_ids(topic: Topic) -> HighestIds:
    """The highest ids that the next load recovers from the snapshot and the log."""
    if topic.snapshot is None:
        return NOTHING
    return replayed(topic, topic.snapshot.highest, to_replay(topic, topic.snapshot))


def replayed(topic: Topic, highest: HighestIds, entries: Iterable[LoggedEntry]) -> HighestIds:
    """The ids after the replay of these entries. In releases the last id of a producer counts, not the highest."""
    variant = topic.variant
    takes_last = variant.deduplication_enabled_in_flight or variant.chunks.recovery_counts_unfinished
    for logged in entries:
        end = logged.entry.lowest if variant.replay_counts_lowest else _end(variant, logged.entry)
        key = topic.key(logged.producer)
        if _counts(variant, logged.entry) or variant.chunks.recovery_counts_unfinished:
            highest = (highest.without(key) if takes_last else highest).raised(key, end)
    return highest


def to_replay(topic: Topic, snapshot: Snapshot) -> tuple[LoggedEntry, ...]:
    """The entries after a snapshot's position."""
    after = tuple(e for e in topic.log if snapshot.position is None or e.position > snapshot.position)
    if topic.variant.recovery_without_replay:
        return ()
    return after[1:] if topic.variant.replay_skips_one else after


@carries("DEDUP-01")
def switch_deduplication(topic: Topic, *, on: bool) -> Topic:
    """After a switch on, entries stored from now on count. A switch off deletes all ids (DEDUP-01)."""
    if on == (topic.snapshot is not None):
        return topic
    snapshot = Snapshot(topic.last_position) if on else None
    since = len(topic.log) if any(logged.entry.chunk is not None for logged in topic.log) else 0
    return replace(topic, snapshot=snapshot, pushed=NOTHING, persisted=NOTHING, since=since)


def forget_producer(topic: Topic, producer: str) -> Topic:
    """A release removes a producer that was inactive for hours (the variant ``inactive-forgotten``), unlike the
    document.

    The snapshot is replaced at its own position, so a replay recovers the ids of later entries.
    """
    key = topic.key(producer)
    pushed, persisted = topic.pushed.without(key), topic.persisted.without(key)
    snapshot = None if topic.snapshot is None else Snapshot(topic.snapshot.position, persisted)
    return replace(topic, pushed=pushed, persisted=persisted, snapshot=snapshot)
