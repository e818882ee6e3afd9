"""The events of one topic as columns, in order: the input of every invariant.

A topic belongs to one run and one cluster, because each cluster has a log of its own. The rows are sorted by position,
then by time, those without a position first, so that all events of a message are contiguous. Positions become *places*
(ranks of entries) and *messages* (ranks of messages), which index arrays.

Only one topic is read at a time, and a large one is on disk.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from conformance.history.recorded import LOSSES, CallOutcome, Kind
from conformance.pipeline.large_topics import CollectedRows, empty, joined

Ints: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

NEVER = np.iinfo(np.int64).max
"""A time after all others."""

UNKNOWN_TIME = -1
NOBODY = -2
"""A code without a name."""

NO_POSITION = -2
"""Less than -1, the mark-delete position before every entry."""

UNKNOWN_WORD = "an event is of a kind or outcome that this suite does not know"
BACKWARDS = "an event ends before it begins"
"""Reasons why an event cannot be judged."""

PERSISTED_AFTER_NS = 61_000_000_000
"""Document 003's interval of a second, and the flush interval, by which a cursor at rest is persisted."""

IDENTITY = ("run", "topic", "cluster")
"""The columns that identify a topic."""

_READINGS = (Kind.LOG, Kind.LOG_END, Kind.CURSOR, Kind.PASSED_ON, Kind.DRAINED)
_KINDS = {kind: code for code, kind in enumerate(Kind)}
_OUTCOMES = {outcome: code for code, outcome in enumerate(CallOutcome)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedFault:
    """A fault of a run that concerns all topics of one cluster, or (None) of all clusters."""

    run: str
    cluster: str | None
    name: str
    invoked_ns: int
    completed_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationSetting:
    """The bounds and facts of a verification.

    ``persisted_after_ns``: how long after its confirmation a kill may still lose an acknowledgment; None: as long as
    the settings of the run imply (``persisted_after_by_run_ns``), or else :data:`PERSISTED_AFTER_NS`.
    ``on_its_way_ns``: how long a frame may take between broker and proxy, for example in a paused broker.
    """

    persisted_after_ns: int | None = None
    persisted_after_by_run_ns: Mapping[str, int] = field(default_factory=dict)
    on_its_way_ns: int = 10_000_000_000
    stuck_after_ns: int = 90_000_000_000
    """How long a subscription may dispatch nothing although a message is due; a client delays a nack by up to 60 s."""
    follows_within_ns: int = 60_000_000_000
    """In this time without faults, a replicated subscription reaches its position in another cluster at half of it."""
    faults: tuple[RecordedFault, ...] = ()
    known: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The names of the known deviations of each run."""
    largest_bytes: Mapping[str, int] = field(default_factory=dict)
    """The largest message size of each run that recorded it."""

    def persisted_after_of(self, run: str) -> int:
        """How long after its confirmation a kill may still lose an acknowledgment of this run, in ns."""
        if self.persisted_after_ns is not None:
            return self.persisted_after_ns
        return self.persisted_after_by_run_ns.get(run, PERSISTED_AFTER_NS)


class TopicEvents:
    """The events of one topic; ``table`` has at least one row, all of one run, topic and cluster, in order.

    Columns of names are dictionaries (by :func:`topics`), so that comparing names is comparing numbers.
    """

    def __init__(self, table: pa.Table, setting: VerificationSetting) -> None:
        self.table = table
        self.setting = setting
        self._cached: dict[str, Ints] = {}
        self._names: dict[str, pa.Array] = {}
        self._present: dict[str, Flags] = {}
        self._rows: dict[tuple[tuple[Kind, ...], tuple[CallOutcome, ...] | None], Ints] = {}

    def __len__(self) -> int:
        return self.table.num_rows  # type: ignore[no-any-return]

    @property
    def identity(self) -> tuple[str, str, str]:
        """Run, topic and cluster."""
        run, topic, cluster = (self.table[name][0].as_py() for name in IDENTITY)
        return run, topic, cluster

    # ---------------------------------------------------------------------------------------------------------- columns

    def numbers(self, name: str, missing: int) -> Ints:
        """A column of numbers, with ``missing`` for null."""
        key = f"{name} or {missing}"
        if key not in self._cached:
            parts = (pc.fill_null(pc.cast(part, pa.int64()), missing).to_numpy() for part in self.table[name].chunks)
            self._cached[key] = joined(parts, len(self), np.int64)
        return self._cached[key]

    def codes(self, name: str) -> Ints:
        """A column of names as small numbers, the same for the same name; -1 for null."""
        if name not in self._cached:
            column = self.table[name].unify_dictionaries()
            if len(column.chunk(0).dictionary) > len(self):  # arrays that codes index would be large
                column = column.cast(column.type.value_type).dictionary_encode()
            self._cached[name] = joined(map(_indices, column.chunks), len(self), np.int64)
            self._names[name] = column.chunk(0).dictionary
        return self._cached[name]

    def code(self, name: str, value: str) -> int:
        """The code of a name; :data:`NOBODY` if the column does not have it."""
        self.codes(name)
        code: int = self._names[name].index(value).as_py()
        return NOBODY if code < 0 else code

    def name(self, column: str, row: int) -> Any:
        """One value as a Python object."""
        return self.table[column][int(row)].as_py()

    def event(self, row: int) -> dict[str, Any]:
        """One event, by column."""
        (event,) = self.table.slice(row, 1).to_pylist()
        return event  # type: ignore[no-any-return]

    def present(self, name: str) -> Flags:
        """Which rows have a value in this column."""
        if name not in self._present:
            parts = (part.is_valid().to_numpy(zero_copy_only=False) for part in self.table[name].chunks)
            self._present[name] = joined(parts, len(self), np.bool_)
        return self._present[name]

    def differ(self, name: str, these: Ints, those: Ints) -> Flags:
        """Row by row, whether two events have different values in a column; null differs from nothing."""
        both = self.present(name)[these] & self.present(name)[those]
        is_text = pa.types.is_dictionary(self.table.schema.field(name).type)
        values = self.codes(name) if is_text else self.numbers(name, 0)
        flags: Flags = both & (values[these] != values[those])
        return flags

    def keeps(self, name: str, these: Ints, those: Ints) -> Flags:
        """Row by row, whether two events have the same value in a column, or both have none.

        If none of these or none of those has a value, it was not recorded there, and all keep it.
        """
        here, there = self.present(name)[these], self.present(name)[those]
        if not (here.any() and there.any()):
            return np.ones(len(these), dtype=np.bool_)
        flags: Flags = ~self.differ(name, these, those) & (here == there)
        return flags

    @property
    def invoked(self) -> Ints:
        """When each began, in ns; :data:`UNKNOWN_TIME` if unknown."""
        return self.numbers("invoked_ns", UNKNOWN_TIME)

    @property
    def completed(self) -> Ints:
        """When each ended, in ns."""
        return self.numbers("completed_ns", UNKNOWN_TIME)

    # ------------------------------------------------------------------------------------------------------------- rows

    @cached_property
    def kinds(self) -> npt.NDArray[np.int8]:
        """The kinds as numbers; -1 for unknown ones."""
        return self._coded("kind", list(_KINDS))

    @cached_property
    def outcomes(self) -> npt.NDArray[np.int8]:
        """The outcomes as numbers; -1 for unknown ones."""
        return self._coded("outcome", list(_OUTCOMES))

    def _coded(self, name: str, names: list[str]) -> npt.NDArray[np.int8]:
        return joined((_coded(part, names) for part in self.table[name].chunks), len(self), np.int8)

    def rows(self, *kinds: Kind, outcomes: Iterable[CallOutcome] | None = None) -> Ints:
        """The rows of these kinds in order; ``outcomes``: only those with one of these outcomes."""
        asked = (kinds, None if outcomes is None else tuple(outcomes))
        if asked not in self._rows:
            self._rows[asked] = self._found(*asked)
        return self._rows[asked]

    def _found(self, kinds: tuple[Kind, ...], outcomes: tuple[CallOutcome, ...] | None) -> Ints:
        of_each = [self._by_kind[_KINDS[kind]] for kind in kinds]
        rows = of_each[0] if len(of_each) == 1 else np.sort(np.concatenate(of_each))
        if outcomes is None:
            return rows
        meant = np.zeros(len(_OUTCOMES) + 1, dtype=np.bool_)  # the last one is for an unknown outcome
        meant[[_OUTCOMES[outcome] for outcome in outcomes]] = True
        is_meant = meant[self.outcomes[rows]]
        return rows if is_meant.all() else rows[is_meant]

    @cached_property
    def _by_kind(self) -> list[Ints]:
        """The rows of each kind, in order."""
        order = joined([np.argsort(self.kinds, kind="stable")], len(self), np.int64)
        bounds = np.searchsorted(self.kinds[order], np.arange(len(_KINDS) + 1))
        return [order[first:end] for first, end in itertools.pairwise(bounds)]

    @cached_property
    def sent_as(self) -> Ints:
        """A number for each row, equal for the same producer and sequence id."""
        producer, ids = self.codes("producer"), self.numbers("sequence_id", -1)
        if (int(producer.max()) + 2) * (int(ids.max()) + 2) >= NEVER:
            _, ids = np.unique(ids, return_inverse=True)
        return self._both(producer, ids)

    def _both(self, one: Ints, other: Ints) -> Ints:
        """A number for each row, equal for the same two numbers, which are -1 at least, and in their order."""
        numbers = empty(len(self), np.int64)
        np.add(one, 1, out=numbers)
        numbers *= int(other.max()) + 2
        numbers += other
        return numbers

    def are(self, kind: Kind, rows: Ints) -> Flags:
        """Which of the rows are of this kind."""
        flags: Flags = self.kinds[rows] == _KINDS[kind]
        return flags

    def are_readings(self, rows: Ints) -> Flags:
        """Which of the rows show a state, which may be much older than they are."""
        return np.isin(self.kinds[rows], [_KINDS[kind] for kind in _READINGS])

    @cached_property
    def _subscriptions(self) -> list[int]:
        codes = self.codes("subscription")
        found: list[int] = np.flatnonzero(np.bincount(codes[codes >= 0])).tolist()
        return found

    def over_subscriptions(self, decide: Callable[[TopicEvents, int], Evidence]) -> Evidence:
        """The evidence on all subscriptions, each judged alone."""
        return sum((decide(self, subscription) for subscription in self._subscriptions), NOTHING)

    def over_own_subscriptions(self, decide: Callable[[TopicEvents, int], Evidence]) -> Evidence:
        """The same without replicated subscriptions, whose state other clusters change."""
        return self.over_subscriptions(
            lambda topic, subscription: NOTHING if subscription in self.replicated else decide(topic, subscription)
        )

    @cached_property
    def replicated(self) -> frozenset[int]:
        """The codes of the replicated subscriptions."""
        rows = self.rows(Kind.BEGIN, Kind.SUBSCRIBE)
        codes: list[int] = self.codes("subscription")[rows[self.numbers("replicated", 0)[rows] == 1]].tolist()
        return frozenset(codes) - {-1}

    def of(self, subscription: int, rows: Ints) -> Ints:
        """Those of the rows that belong to a subscription."""
        own: Ints = rows[self.codes("subscription")[rows] == subscription]
        return own

    def at_a_position(self, rows: Ints) -> Ints:
        """Those of the rows that have a position."""
        placed: Ints = rows[self.numbers("ledger", NO_POSITION)[rows] != NO_POSITION]
        return placed

    # -------------------------------------------------------------------------------------------------------- positions

    @cached_property
    def _begins_a_place(self) -> Flags:
        ledger, entry = self.numbers("ledger", NO_POSITION), self.numbers("entry", NO_POSITION)
        return differs_from_before(ledger) | differs_from_before(entry)

    @cached_property
    def place(self) -> Ints:
        """Each row's entry, numbered in order."""
        return np.cumsum(self._begins_a_place, out=empty(len(self), np.int64))

    @cached_property
    def message(self) -> Ints:
        """Each row's message, numbered in order; the messages of a batch are contiguous."""
        begins = self._begins_a_place | differs_from_before(self.numbers("batch_index", -1))
        return np.cumsum(begins, out=empty(len(self), np.int64))

    @cached_property
    def at_consumer(self) -> Ints:
        """A number for each row, equal for the same entry and consumer."""
        return self._both(self.place, self.codes("consumer"))

    @property
    def messages(self) -> int:
        """One more than the highest number of a message."""
        return int(self.message[-1]) + 1

    # ------------------------------------------------------------------------------------------------- facts of a topic

    @cached_property
    def read_back(self) -> int | None:
        """The row of the last reading of the whole log; None without one."""
        rows = self.rows(Kind.LOG_END, outcomes=[CallOutcome.OK])
        return int(rows[np.argmax(self.invoked[rows])]) if len(rows) else None

    @cached_property
    def is_deduplicated(self) -> bool:
        """Whether deduplication was on from the first event to the last."""
        rows = self.rows(Kind.TOPIC)
        return bool(len(rows)) and bool(np.all(self.numbers("deduplication", 0)[rows] == 1))

    @cached_property
    def is_replicated(self) -> bool:
        """Whether its messages are replicated to and from other clusters."""
        rows = self.rows(Kind.TOPIC)
        return bool(np.any(self.numbers("replicated", 0)[rows] == 1))

    @property
    def known(self) -> frozenset[str]:
        """The names of the known deviations of its run."""
        return self.setting.known.get(self.identity[0], frozenset())

    @cached_property
    def faults(self) -> tuple[tuple[str, int, int], ...]:
        """The faults that concern this topic: name, invoked and completed in ns."""
        run, _, cluster = self.identity
        own = [
            (self.name("fault", row), int(self.invoked[row]), int(self.completed[row]))
            for row in self.rows(Kind.FAULT).tolist()
        ]
        wider = [
            (fault.name, fault.invoked_ns, fault.completed_ns)
            for fault in self.setting.faults
            if fault.run == run and fault.cluster in (None, "", cluster)
        ]
        return (*own, *wider)

    @cached_property
    def fault_spans(self) -> Ints:
        """A row for each fault: invoked and completed in ns."""
        spans = [(invoked_ns, completed_ns) for _, invoked_ns, completed_ns in self.faults]
        return np.array(spans, dtype=np.int64).reshape(-1, 2)

    def may_be_lost(self, rows: Ints) -> Flags:
        """Which rows show a cursor's state that a kill may have undone: from the bound before the kill to its end."""
        flags = np.zeros(len(rows), dtype=np.bool_)
        for name, invoked_ns, completed_ns in self.faults:
            if name in LOSSES:
                earliest_ns = invoked_ns - self.setting.persisted_after_of(self.identity[0])
                flags |= (self.completed[rows] >= earliest_ns) & (self.invoked[rows] <= completed_ns)
        return flags


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case in which an invariant did not hold: the reason in one sentence, and its rows."""

    because: str
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Breach:
    """Several cases with the same reason: a line of rows for each."""

    because: str
    rows: Ints

    def __len__(self) -> int:
        return len(self.rows)

    def case(self, number: int) -> Case:
        return Case(because=self.because, rows=tuple(self.rows[number].tolist()))


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence of an invariant on one topic: how often it was exercised, and how it broke."""

    judged: int
    breaches: tuple[Breach, ...] = ()

    def __add__(self, other: Evidence) -> Evidence:
        return Evidence(self.judged + other.judged, (*self.breaches, *other.breaches))

    @property
    def broken(self) -> int:
        return sum(map(len, self.breaches))


NOTHING = Evidence(0)


def found(judged: int, bad: Ints, because: str, rows: Callable[[Ints], Iterable[Any]]) -> Evidence:
    """The evidence of ``judged`` checks: those in ``bad`` broke.

    ``rows`` gives the events of all cases: an array of the first ones, of the second ones, and so on. A single row
    belongs to every case.
    """
    if not len(bad):
        return Evidence(judged)
    return Evidence(judged, (Breach(because, np.column_stack([np.broadcast_to(one, len(bad)) for one in rows(bad)])),))


class OutOfMemory(Exception):
    """There is not enough memory for a topic, which has ``events`` at least."""

    def __init__(self, identity: tuple[str, str, str], events: int) -> None:
        super().__init__(identity, events)
        self.identity, self.events = identity, events


def topics(batches: Iterable[pa.RecordBatch], setting: VerificationSetting) -> Iterator[TopicEvents]:
    """Cut a stream of rows in order into topics. One topic is read at a time, and the batch with its end.

    Raises:
        OutOfMemory: there is not enough memory for one.
    """
    collected = CollectedRows()
    try:
        yield from _cut(batches, setting, collected)
    except MemoryError as error:
        run, topic, cluster = ("", "", "") if collected.first is None else _identity(collected.first, 0)
        events = collected.number
        collected.clear()
        raise OutOfMemory((run, topic, cluster), events) from error
    finally:
        collected.clear()


def _cut(
    batches: Iterable[pa.RecordBatch], setting: VerificationSetting, collected: CollectedRows
) -> Iterator[TopicEvents]:
    """The same; ``collected``: the rows so far of the next topic."""
    for batch in batches:
        if not batch.num_rows:
            continue
        encoded = _encoded(batch)
        bounds = [0, *_bounds(encoded), batch.num_rows]
        if collected.first is not None and _identity(collected.first, 0) != _identity(encoded, 0):
            yield TopicEvents(collected.taken(), setting)
        for first, end in itertools.pairwise(bounds):
            if first:
                yield TopicEvents(collected.taken(), setting)
            collected.add(encoded.slice(first, end - first))
    if collected.number:
        yield TopicEvents(collected.taken(), setting)


def _encoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows with dictionaries for all columns of names, which Spark does not give."""
    columns = [column.dictionary_encode() if pa.types.is_string(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _bounds(batch: pa.RecordBatch) -> list[int]:
    """The rows of a batch at which a topic begins."""
    changes = np.zeros(batch.num_rows - 1, dtype=np.bool_)
    for name in IDENTITY:
        changes |= np.diff(_indices(batch.column(name))) != 0
    return [int(row) + 1 for row in np.flatnonzero(changes)]


def _identity(batch: pa.RecordBatch, row: int) -> tuple[Any, ...]:
    return tuple(batch.column(name)[row].as_py() for name in IDENTITY)


def _indices(column: pa.DictionaryArray) -> Ints:
    """The indices into the dictionary, -1 for null."""
    return pc.fill_null(column.indices, -1).to_numpy().astype(np.int64)  # type: ignore[no-any-return]


def _coded(column: pa.DictionaryArray, names: list[str]) -> npt.NDArray[np.int8]:
    """Each row's index among these names, -1 for another name."""
    meant = pc.fill_null(pc.index_in(column.dictionary, value_set=pa.array([str(name) for name in names])), -1)
    of_each: npt.NDArray[np.int8] = np.append(meant.to_numpy(), -1).astype(np.int8)  # the last one is for null
    return of_each[_indices(column)]


def differs_from_before(values: Ints) -> Flags:
    """Which values differ from the one before; never the first."""
    flags = np.empty(len(values), dtype=np.bool_)
    flags[:1] = False
    np.not_equal(values[1:], values[:-1], out=flags[1:])
    return flags
