"""Histories for the pipeline's tests: any events at all, small enough that everything meets everything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
from hypothesis import strategies as st

from conformance.history.parquet import in_order, table_of
from conformance.history.recorded import KILL, Kind, Outcome, Recorded
from conformance.pipeline.invariants import INVARIANTS
from conformance.pipeline.judging import NEEDED, judge_batches
from conformance.pipeline.topic import Setting
from tests.pipeline.plain import PLAIN

SETTING = Setting(persisted_after_ns=3)
"""Times of these histories are small numbers, and so is the bound of a kill."""

LATEST_NS = 12

some_position = st.tuples(st.integers(0, 1), st.integers(0, 1), st.sampled_from((-1, -1, -1, 0, 1)))
some_times = st.tuples(st.integers(0, LATEST_NS), st.integers(0, 3))
SUBSCRIBED = {
    Kind.DISPATCH,
    Kind.ACK,
    Kind.ACK_CUMULATIVE,
    Kind.NACK,
    Kind.REDELIVER,
    Kind.UNSUBSCRIBE,
    Kind.BEGIN,
    Kind.SEEK,
    Kind.SKIP,
    Kind.CURSOR,
    Kind.DRAINED,
}

RELEVANT: dict[str, tuple[Kind, ...]] = {
    "stored twice": (Kind.LOG,),
    "falsely confirmed": (Kind.SEND, Kind.LOG),
    "out of order": (Kind.LOG,),
    "lost": (Kind.SEND, Kind.LOG),
    "missed": (Kind.LOG, Kind.DISPATCH, Kind.DISPATCH),
    "chunks agree": (Kind.LOG,),
    "delivered whole": (Kind.LOG, Kind.SEND, Kind.DISPATCH),
    "stored once in order": (Kind.LOG,),
    "mark delete over a hole": (*4 * (Kind.LOG, Kind.CURSOR, Kind.ACK), Kind.ACK_CUMULATIVE, Kind.SEEK, Kind.SKIP),
    "mark delete back": (*8 * (Kind.CURSOR,), Kind.SEEK, Kind.FAULT),
    "positions rise": (Kind.SEND,),
    "delivered again": (*4 * (Kind.DISPATCH, Kind.ACK), Kind.ACK_CUMULATIVE, Kind.SEEK, Kind.FAULT),
    "one consumer at a time": (
        *6 * (Kind.DISPATCH,),
        Kind.ACK,
        Kind.NACK,
        Kind.UNSUBSCRIBE,
        Kind.REDELIVER,
        Kind.FAULT,
    ),
}
"""The kinds of events that an invariant looks at: histories of these alone, in a frame, come to its corners."""

LATER_NS = 2 * LATEST_NS

FRAME = (
    Recorded(run="r", lane="w", topic="t", kind=Kind.TOPIC, deduplication=True, invoked_ns=0, completed_ns=0),
    Recorded(
        run="r",
        lane="w",
        topic="t",
        kind=Kind.BEGIN,
        subscription="s",
        ledger=-1,
        entry=-1,
        invoked_ns=0,
        completed_ns=0,
    ),
    Recorded(
        run="r",
        lane="w",
        topic="t",
        kind=Kind.DRAINED,
        subscription="s",
        ledger=1,
        entry=1,
        invoked_ns=LATER_NS,
        completed_ns=LATER_NS,
    ),
    Recorded(run="r", lane="w", topic="t", kind=Kind.LOG_END, invoked_ns=LATER_NS, completed_ns=LATER_NS),
)
"""What invariants ask for before they judge: deduplication, a subscription begun and drained, the log read."""


@st.composite
def framed(draw: st.DrawFn, name: str) -> list[Recorded]:
    """A history of what one invariant looks at."""
    inside = draw(st.lists(events(RELEVANT[name]), min_size=4, max_size=14))
    outside = [one for one in FRAME if draw(st.integers(0, 9))]
    return [*outside, *inside]


@st.composite
def events(draw: st.DrawFn, kinds: Sequence[Kind] = tuple(Kind)) -> Recorded:
    """One event of any kind, with what its kind has."""
    kind = draw(st.sampled_from(kinds))
    invoked_ns, took_ns = draw(some_times)
    told: dict[str, Any] = {"kind": kind, "invoked_ns": invoked_ns, "completed_ns": invoked_ns + took_ns}
    outcome = draw(st.sampled_from((*5 * (Outcome.OK,), Outcome.DUPLICATE, Outcome.UNKNOWN)))
    told["outcome"] = outcome
    if kind in SUBSCRIBED:
        told |= {"subscription": draw(st.sampled_from("ssst")), "consumer": draw(st.sampled_from(("c", "d", None)))}
    if kind in SUBSCRIBED - {Kind.REDELIVER, Kind.UNSUBSCRIBE} or kind is Kind.LOG:
        told |= _at(draw(some_position))
    match kind:
        case Kind.TOPIC:
            told["deduplication"] = draw(st.sampled_from((True, True, False)))
        case Kind.SEND | Kind.LOG:
            told |= draw(_message())
            if kind is Kind.SEND and outcome is Outcome.OK:
                told |= _at(draw(some_position))
        case Kind.DISPATCH:
            told |= {"subscription_type": draw(st.sampled_from(("Key_Shared", "Shared")))}
            told |= draw(_message())
            told |= {"chunk_id": None, "key": draw(st.sampled_from(("k", "l", None)))}
            told["invoked_ns"] = draw(st.sampled_from((invoked_ns, None)))
        case Kind.FAULT:
            told["fault"] = draw(st.sampled_from((KILL, "unload")))
        case _:
            pass
    return Recorded(run="r", lane="w", topic="t", **told)


@st.composite
def _message(draw: st.DrawFn) -> dict[str, Any]:
    told = {
        "producer": draw(st.sampled_from(("p", "p", "q", None))),
        "sequence_id": draw(st.sampled_from((1, 2, 3, None))),
        "digest": draw(st.sampled_from((7, 7, 8, None))),
    }
    if draw(st.sampled_from((True, False, False))):
        told |= {"chunk_uuid": draw(st.sampled_from("uv")), "chunk_id": draw(st.integers(0, 2))}
        told["chunks"] = draw(st.sampled_from((2, 2, 3)))
    return told


def _at(position: tuple[int, int, int]) -> dict[str, int]:
    return dict(zip(("ledger", "entry", "batch_index"), position, strict=True))


def sorted_events(history: Sequence[Recorded]) -> list[Recorded]:
    """The events in the order of the files."""
    return [msgspec.convert(row, Recorded) for row in in_order(table_of(history)).to_pylist()]


def judged(
    history: Sequence[Recorded], *, setting: Setting = SETTING, rows_of_a_batch: int = 7
) -> dict[str, tuple[int, int]]:
    """What the pipeline says without Spark: for each invariant how often it was judged, and broken."""
    batches = in_order(table_of(history)).select(NEEDED).to_batches(max_chunksize=rows_of_a_batch)
    return counted(judge_batches(batches, setting, INVARIANTS).to_pylist())


def counted(rows: Sequence[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    """Accounts by the name of the invariant, those of several partitions added up."""
    found: dict[str, tuple[int, int]] = {}
    for row in rows:
        number, broken = found.get(row["invariant"], (0, 0))
        found[row["invariant"]] = (number + row["judged"], broken + row["broken"])
    return found


def broken_in(accounts: dict[str, tuple[int, int]]) -> set[str]:
    """The names of the invariants that are broken."""
    return {name for name, (_, broken) in accounts.items() if broken}


def plainly_broken(history: Sequence[Recorded], setting: Setting = SETTING) -> set[str]:
    """The same as the plain functions have it."""
    in_their_order = sorted_events(history)
    return {name for name, is_broken in PLAIN.items() if is_broken(in_their_order, setting)}


def table_needed(history: Sequence[Recorded]) -> pa.Table:
    """The columns that the pipeline reads, in order."""
    return in_order(table_of(history)).select(NEEDED)
