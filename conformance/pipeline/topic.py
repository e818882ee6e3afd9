"""One topic's events as columns, in order: what every invariant is given.

A topic here is that of one run and one cluster, for each has a log of its own. The rows are sorted by position and,
there, by time, those without a position first, so that whatever concerns one message stands together. Positions become
*places* (an entry's rank) and *messages* (a message's rank), small numbers that arrays can be indexed by.

A topic is held in memory whole; nothing else is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from conformance.history.recorded import KILL, Kind, Outcome

Ints: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

NEVER = np.iinfo(np.int64).max
"""A time that does not come."""

UNKNOWN_TIME = -1
NO_POSITION = -2
"""Below the mark-delete that is before every entry, -1."""

IDENTITY = ("run", "topic", "cluster")
"""What makes a topic of its own."""

_KINDS = {kind: code for code, kind in enumerate(Kind)}
_OUTCOMES = {outcome: code for code, outcome in enumerate(Outcome)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault that concerned more than one topic: of a run, on one cluster or (None) on all."""

    run: str
    cluster: str | None
    name: str
    invoked_ns: int
    completed_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What holds for a whole verification.

    ``persisted_after_ns``: how long after an acknowledgment was confirmed a kill may still lose it; document 003's
    interval of a second, and the flush interval, by which a cursor at rest is persisted.
    """

    persisted_after_ns: int = 61_000_000_000
    faults: tuple[Fault, ...] = ()


class Topic:
    """The events of one topic; ``table`` has at least one row, all of one run, topic and cluster, in order."""

    def __init__(self, table: pa.Table, setting: Setting) -> None:
        self.table = table.combine_chunks()
        self.setting = setting
        self._cached: dict[str, Ints] = {}

    def __len__(self) -> int:
        return self.table.num_rows  # type: ignore[no-any-return]

    @property
    def identity(self) -> tuple[str, str, str]:
        """Run, topic and cluster."""
        run, topic, cluster = (self.table[name][0].as_py() for name in IDENTITY)
        return run, topic, cluster

    # ---------------------------------------------------------------------------------------------------------- columns

    def numbers(self, name: str, missing: int) -> Ints:
        """A column of numbers, with ``missing`` for null (the same one each time that a column is asked for)."""
        if name not in self._cached:
            column = pc.fill_null(pc.cast(self.table[name], pa.int64()), missing)
            self._cached[name] = column.to_numpy()
        return self._cached[name]

    def codes(self, name: str) -> Ints:
        """A column of names as small numbers, the same for the same name; -1 for null."""
        if name not in self._cached:
            encoded = pc.dictionary_encode(self.table[name].combine_chunks())
            self._cached[name] = pc.fill_null(encoded.indices, -1).to_numpy().astype(np.int64)
        return self._cached[name]

    def name(self, column: str, row: int) -> Any:
        """One value as Python has it."""
        return self.table[column][int(row)].as_py()

    def present(self, name: str) -> Flags:
        """Which rows say something in this column."""
        flags: Flags = self.table[name].is_valid().to_numpy()
        return flags

    def differ(self, name: str, these: Ints, those: Ints) -> Flags:
        """Row by row, whether two events say different things in a column; not where one of them is silent."""
        both = self.present(name)[these] & self.present(name)[those]
        is_text = pa.types.is_string(self.table.schema.field(name).type)
        values = self.codes(name) if is_text else self.numbers(name, 0)
        flags: Flags = both & (values[these] != values[those])
        return flags

    @property
    def invoked(self) -> Ints:
        """When each began, :data:`UNKNOWN_TIME` where that is not known; ns."""
        return self.numbers("invoked_ns", UNKNOWN_TIME)

    @property
    def completed(self) -> Ints:
        """When each ended; ns."""
        return self.numbers("completed_ns", UNKNOWN_TIME)

    # ------------------------------------------------------------------------------------------------------------- rows

    @cached_property
    def kinds(self) -> Ints:
        """The kinds as numbers; -1 for those that this suite does not know."""
        return _coded(self.table["kind"], list(_KINDS))

    @cached_property
    def outcomes(self) -> Ints:
        """The outcomes as numbers; -1 for those that this suite does not know."""
        return _coded(self.table["outcome"], list(_OUTCOMES))

    def rows(self, *kinds: Kind, outcomes: Iterable[Outcome] | None = None) -> Ints:
        """The rows of these kinds, in order; with an outcome of these, where any are named."""
        among = np.isin(self.kinds, [_KINDS[kind] for kind in kinds])
        if outcomes is not None:
            among &= np.isin(self.outcomes, [_OUTCOMES[outcome] for outcome in outcomes])
        rows: Ints = np.flatnonzero(among)
        return rows

    def subscriptions(self) -> Iterator[int]:
        """The codes of all subscriptions."""
        codes = np.unique(self.codes("subscription"))
        yield from codes[codes >= 0].tolist()

    def of(self, subscription: int, rows: Ints) -> Ints:
        """Those of the rows that are of a subscription."""
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
        return _differs_from_before(ledger) | _differs_from_before(entry)

    @cached_property
    def place(self) -> Ints:
        """Each row's entry, numbered in order."""
        numbers: Ints = np.cumsum(self._begins_a_place)
        return numbers

    @cached_property
    def message(self) -> Ints:
        """Each row's message, numbered in order; a batch's messages follow one another."""
        numbers: Ints = np.cumsum(self._begins_a_place | _differs_from_before(self.numbers("batch_index", -1)))
        return numbers

    @property
    def messages(self) -> int:
        """One more than the highest number of a message."""
        return int(self.message[-1]) + 1

    # ------------------------------------------------------------------------------------------------- what was settled

    @cached_property
    def read_back(self) -> int | None:
        """The row of the last reading of the whole log; None where there was none."""
        rows = self.rows(Kind.LOG_END, outcomes=[Outcome.OK])
        return int(rows[np.argmax(self.invoked[rows])]) if len(rows) else None

    @cached_property
    def is_deduplicated(self) -> bool:
        """Whether deduplication was on from the first event to the last."""
        rows = self.rows(Kind.TOPIC)
        return bool(len(rows)) and bool(np.all(self.numbers("deduplication", 0)[rows] == 1))

    @cached_property
    def faults(self) -> tuple[tuple[str, int, int], ...]:
        """The faults that concerned this topic: name, when invoked and when completed, in ns."""
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

    def may_be_lost(self, rows: Ints) -> Flags:
        """Which rows tell of a cursor's state that a kill may have undone: from the bound before it to its end."""
        flags = np.zeros(len(rows), dtype=np.bool_)
        for name, invoked_ns, completed_ns in self.faults:
            if name == KILL:
                earliest_ns = invoked_ns - self.setting.persisted_after_ns
                flags |= (self.completed[rows] >= earliest_ns) & (self.invoked[rows] <= completed_ns)
        return flags


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One time that an invariant did not hold: why, in one sentence, and the rows that show it."""

    because: str
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What an invariant says of one topic: how often it was put to the test, how often it broke, and a few cases."""

    judged: int
    broken: int = 0
    cases: tuple[Case, ...] = ()

    def __add__(self, other: Found) -> Found:
        cases = (*self.cases, *other.cases)[:CASES_AT_MOST]
        return Found(judged=self.judged + other.judged, broken=self.broken + other.broken, cases=cases)


CASES_AT_MOST = 5
"""How many cases of one invariant in one topic are shown; all are counted."""

NOTHING = Found(judged=0)


def found(judged: int, bad: Ints, because: str, rows: Callable[[Any], Iterable[Any]]) -> Found:
    """What was found of ``judged`` things: those in ``bad`` broke, and ``rows`` says which events show one of them."""
    cases = tuple(Case(because=because, rows=tuple(map(int, rows(one)))) for one in bad[:CASES_AT_MOST])
    return Found(judged=judged, broken=len(bad), cases=cases)


def topics(batches: Iterable[pa.RecordBatch], setting: Setting) -> Iterator[Topic]:
    """Cut a stream of rows in order into topics; one is held at a time, and the batch that it ends in."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        bounds = [0, *_bounds(batch), batch.num_rows]
        if held and _identity(held[-1], held[-1].num_rows - 1) != _identity(batch, 0):
            yield Topic(pa.Table.from_batches(held), setting)
            held = []
        for first, behind in itertools.pairwise(bounds):
            if first:
                yield Topic(pa.Table.from_batches(held), setting)
                held = []
            held.append(batch.slice(first, behind - first))
    if held:
        yield Topic(pa.Table.from_batches(held), setting)


def _bounds(batch: pa.RecordBatch) -> list[int]:
    """Where in a batch another topic begins."""
    changes = np.zeros(batch.num_rows - 1, dtype=np.bool_)
    for name in IDENTITY:
        column = batch.column(name)
        changes |= pc.not_equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
    return [int(row) + 1 for row in np.flatnonzero(changes)]


def _identity(batch: pa.RecordBatch, row: int) -> tuple[Any, ...]:
    return tuple(batch.column(name)[row].as_py() for name in IDENTITY)


def _coded(column: pa.ChunkedArray, names: list[str]) -> Ints:
    found = pc.index_in(column.combine_chunks(), value_set=pa.array([str(name) for name in names]))
    return pc.fill_null(found, -1).to_numpy().astype(np.int64)  # type: ignore[no-any-return]


def _differs_from_before(values: Ints) -> Flags:
    flags = np.empty(len(values), dtype=np.bool_)
    flags[:1] = False
    np.not_equal(values[1:], values[:-1], out=flags[1:])
    return flags
