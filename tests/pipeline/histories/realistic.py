"""Histories of a correct cluster, of any length: anomalies are planted in them, and speed is measured with them.

Each topic has four producers and, every hundredth entry, a message in three chunks; a Key_Shared subscription with
three consumers, which acknowledge individually, and an Exclusive one, which acknowledges cumulatively. Mark-delete is
read now and then, just after an ack; at the end both subscriptions are drained, and the log is read back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from conformance.history.parquet import SCHEMA
from conformance.history.recorded import Recorded
from conformance.pipeline.topic import Flags, Ints

PRODUCERS = 4
KEYS = 1_000
CONSUMERS = 3
ENTRIES_OF_A_LEDGER = 5_000
CURSOR_READ_EVERY = 50
STEP_NS = 100_000
KEYED, ORDERED = "keyed", "ordered"

_NAMED = pa.dictionary(pa.int32(), pa.string())
ENCODED = pa.schema([field.with_type(_NAMED) if pa.types.is_string(field.type) else field for field in SCHEMA])
"""The schema of the generated tables: names are dictionaries here, and strings in a file."""


def name_of(number: int) -> str:
    """The name of a topic; names are in the order of numbers."""
    return f"t{number:06d}"


def topic_table(number: int, *, entries: int, seed: int = 0) -> pa.Table:
    """All events of one topic with ``entries`` entries (a multiple of a hundred), in order: about five per entry."""
    random = np.random.default_rng((seed, number))
    table = pa.concat_tables(_Topic(number, entries, random).blocks()).unify_dictionaries().combine_chunks()
    ledger, entry, completed = (table[name].fill_null(-2).to_numpy() for name in ("ledger", "entry", "completed_ns"))
    return table.take(np.lexsort((completed, entry, ledger)))  # of one topic and without batches: in order, but quicker


def events(number: int, *, entries: int, seed: int = 0) -> list[Recorded]:
    """The same as values."""
    return as_events(topic_table(number, entries=entries, seed=seed))


def as_events(table: pa.Table) -> list[Recorded]:
    """A table's rows as values."""
    return [msgspec.convert(row, Recorded) for row in table.to_pylist()]


class _Topic:
    """One topic while it is generated."""

    def __init__(self, number: int, entries: int, random: np.random.Generator) -> None:
        self._number = number
        index = np.arange(entries)
        self._ledger, self._entry = 10 * number + index // ENTRIES_OF_A_LEDGER, index % ENTRIES_OF_A_LEDGER
        self._chunk = np.where(index % 100 >= 97, index % 100 - 97, -1)
        self._whole = np.flatnonzero(self._chunk < 0)
        self._last = np.flatnonzero((self._chunk < 0) | (self._chunk == 2))  # the positions of messages
        self._producer = np.where(self._chunk < 0, random.integers(0, PRODUCERS, entries), PRODUCERS)
        self._sequence = _counted(self._producer, index // 100)
        self._key = random.integers(0, KEYS, entries)
        self._digest = random.integers(-(2**62), 2**62, entries)
        self._sent = index * STEP_NS
        self._given = self._sent + 20 * STEP_NS + random.integers(0, STEP_NS, entries)
        self._acked = self._given + 10 * STEP_NS
        self._end = int(self._acked[-1]) + 1_000 * STEP_NS

    def blocks(self) -> Iterator[pa.Table]:
        """The events, kind by kind."""
        yield self._block("topic", 1, 0, 1, deduplication=True, replicated=False)
        sent = self._at(self._last) | self._message(self._last) | {"key": self._keys(self._last)}
        sent |= {"chunks": self._chunks(self._last)["chunks"]}
        yield self._block("send", len(self._last), self._sent[self._last], 8 * STEP_NS, **sent)
        everything = np.arange(len(self._ledger))
        log = self._at(everything) | self._message(everything) | self._chunks(everything)
        log |= {"key": self._keys(everything), "digest": pa.array(self._digest, mask=self._chunk >= 0)}
        yield self._block("log", len(everything), self._end, STEP_NS, **log)
        for subscription, kind in ((KEYED, "Key_Shared"), (ORDERED, "Exclusive")):
            yield from self._subscription(subscription, kind)
        yield self._block("log-end", 1, self._end, 1, **self._at(everything[-1:]))

    def _subscription(self, subscription: str, kind: str) -> Iterator[pa.Table]:
        consuming: dict[str, Any] = {"subscription": subscription, "subscription_type": kind}
        last = self._last
        who = self._key[last] % CONSUMERS if subscription == KEYED else np.zeros(len(last), dtype=np.int64)
        consumers = _named("c", who)
        yield self._block("begin", 1, 0, 1, **consuming, ledger=-1, entry=-1)
        joining = np.arange(int(who.max()) + 1)
        yield self._block("subscribe", len(joining), 0, 1, **consuming, consumer=_named("c", joining))
        given = consuming | self._at(last) | self._message(last) | {"key": self._keys(last), "consumer": consumers}
        given |= {"chunk_uuid": self._chunks(last)["chunk_uuid"], "chunks": self._chunks(last)["chunks"]}
        yield self._block("dispatch", len(last), self._given[last], 5 * STEP_NS, **given)
        if subscription == KEYED:
            acks = consuming | self._at(last) | {"consumer": consumers}
            yield self._block("ack", len(last), self._acked[last], STEP_NS, **acks)
        else:
            tenth = last[9::10]
            yield self._block("ack-cumulative", len(tenth), self._acked[tenth], STEP_NS, **consuming, **self._at(tenth))
        read = last[9::10][:: CURSOR_READ_EVERY // 10]
        yield self._block(
            "cursor", len(read), self._acked[read] + STEP_NS + 1, STEP_NS - 1, **consuming, **self._at(read)
        )
        yield self._block("drained", 1, self._end, 1, **consuming, **self._at(last[-1:]))

    def _at(self, index: Ints) -> dict[str, Any]:
        return {"ledger": self._ledger[index], "entry": self._entry[index]}

    def _message(self, index: Ints) -> dict[str, Any]:
        named = {"producer": _named("p", self._producer[index]), "sequence_id": self._sequence[index]}
        return named | {"digest": self._digest[index], "size_bytes": 100}

    def _keys(self, index: Ints) -> pa.Array:
        return _named("k", self._key[index])

    def _chunks(self, index: Ints) -> dict[str, Any]:
        alone = self._chunk[index] < 0
        return {
            "chunk_uuid": _named("u", index // 100, alone),
            "chunk_id": pa.array(self._chunk[index], pa.int32(), mask=alone),
            "chunks": pa.array(np.full(len(index), 3), pa.int32(), mask=alone),
        }

    def _block(self, kind: str, count: int, invoked: Any, took_ns: int, **columns: Any) -> pa.Table:
        values: dict[str, Any] = {
            "run": "r",
            "lane": "w",
            "topic": name_of(self._number),
            "kind": kind,
            "outcome": "ok",
        }
        began = np.broadcast_to(np.asarray(invoked, dtype=np.int64), (count,))
        values |= {"cluster": "", "batch_index": -1, "invoked_ns": began, "completed_ns": began + took_ns} | columns
        return pa.table([_column(values.get(field.name), count, field.type) for field in ENCODED], schema=ENCODED)


def _column(value: Any, count: int, type_: pa.DataType) -> pa.Array:
    if isinstance(value, pa.Array):
        return value
    if isinstance(value, np.ndarray):
        return pa.array(value, type_)
    if isinstance(value, str):
        return pa.DictionaryArray.from_arrays(np.zeros(count, dtype=np.int32), [value])
    return pa.nulls(count, type_) if value is None else pa.repeat(pa.scalar(value, type_), count)


def _named(letter: str, numbers: Ints, absent: Flags | None = None) -> pa.DictionaryArray:
    """Numbers as names, none where they are absent."""
    names = [f"{letter}{number}" for number in range(int(numbers.max()) + 1)]
    return pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int32(), mask=absent), names)


def _counted(producer: Ints, of_chunks: Ints) -> Ints:
    """Sequence ids: each producer counts from 1; the chunks of one message share theirs."""
    ids = np.empty(len(producer), dtype=np.int64)
    for one in range(PRODUCERS):
        own = np.flatnonzero(producer == one)
        ids[own] = np.arange(1, len(own) + 1)
    chunks = producer == PRODUCERS
    ids[chunks] = of_chunks[chunks] + 1
    return ids
