"""Random histories for the pipeline's tests: any events, in a space so small that they interact."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
from hypothesis import strategies as st

from conformance.history.parquet import in_order, table_of
from conformance.history.recorded import KILL, CallOutcome, Kind, Recorded
from conformance.pipeline.invariants.catalogue import INVARIANTS
from conformance.pipeline.results import NEEDED, TOPICS, judge_batches
from conformance.pipeline.topic import VerificationSetting
from tests.pipeline.oracle import ORACLE
from tests.pipeline.oracle.clusters import ORACLE_OF_CLUSTERS

SETTING = VerificationSetting(persisted_after_ns=3, on_its_way_ns=1, stuck_after_ns=4, follows_within_ns=8)
"""Times in these histories are small numbers, and so are the settings for kills and stalls."""

LATEST_NS = 12

some_position = st.tuples(st.integers(0, 1), st.integers(0, 1), st.sampled_from((-1, -1, -1, 0, 1)))
some_times = st.tuples(st.integers(0, LATEST_NS), st.integers(0, 3))
SUBSCRIBED = {
    Kind.DISPATCH,
    Kind.ACK,
    Kind.ACK_CUMULATIVE,
    Kind.NACK,
    Kind.REDELIVER,
    Kind.SUBSCRIBE,
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
    "forgotten": (*4 * (Kind.SEND,), Kind.FAULT),
    "chunks in order": (Kind.LOG,),
    "stored whole": (Kind.SEND, Kind.LOG, Kind.LOG),
    "given in order": (*6 * (Kind.DISPATCH,), Kind.FAULT),
    "keys in order": (*9 * (Kind.DISPATCH,), Kind.NACK, Kind.REDELIVER),
    "shared one at a time": (*6 * (Kind.DISPATCH,), Kind.ACK, Kind.NACK, Kind.UNSUBSCRIBE, Kind.REDELIVER),
    "stuck": (*3 * (Kind.SEND, Kind.LOG, Kind.CURSOR, Kind.SUBSCRIBE), Kind.DISPATCH, Kind.ACK),
    "keys stuck": (*2 * (Kind.SEND, Kind.LOG, Kind.CURSOR, Kind.SUBSCRIBE), Kind.DISPATCH, *4 * (Kind.UNSUBSCRIBE,)),
    "sent by nobody": (*3 * (Kind.SEND,), Kind.LOG),
    "refused but stored": (Kind.SEND, Kind.LOG),
    "delivered otherwise": (Kind.LOG, Kind.DISPATCH),
    "read before sent": (Kind.SEND, Kind.LOG, Kind.DISPATCH),
    "beyond the end": (Kind.LOG, Kind.DISPATCH, Kind.CURSOR, Kind.LOG_END),
    "from another cluster": (*4 * (Kind.LOG,), Kind.TOPIC),
    "delivered before beginning": (*4 * (Kind.DISPATCH,), Kind.BEGIN, Kind.SEEK),
    "chunked missed": (*3 * (Kind.LOG,), Kind.DISPATCH, Kind.ACK_CUMULATIVE),
    "chunked missed by all": (*6 * (Kind.LOG,), Kind.DISPATCH),
    "lost in part": (Kind.SEND, *3 * (Kind.LOG,)),
    "mark delete late": (*2 * (Kind.LOG, Kind.ACK, Kind.CURSOR), Kind.ACK_CUMULATIVE),
    "redelivered without request": (*8 * (Kind.DISPATCH,), Kind.ACK, Kind.NACK, Kind.UNSUBSCRIBE, Kind.REDELIVER),
    "one active consumer": (*8 * (Kind.DISPATCH,), Kind.SUBSCRIBE, Kind.UNSUBSCRIBE),
    "keys stay": (*8 * (Kind.DISPATCH,), Kind.SUBSCRIBE, Kind.UNSUBSCRIBE),
    "from no cluster": (Kind.LOG,),
    "without original": (Kind.LOG,),
    "not replicated": (*3 * (Kind.LOG,), Kind.PASSED_ON),
    "replicated twice": (Kind.LOG,),
    "replicated out of order": (Kind.LOG,),
    "replicated otherwise": (Kind.LOG,),
    "ahead": (*4 * (Kind.LOG, Kind.CURSOR, Kind.ACK), Kind.ACK_CUMULATIVE, Kind.SEEK, Kind.SKIP),
    "left behind": (*2 * (Kind.LOG,), *5 * (Kind.CURSOR,)),
    "missed everywhere": (*4 * (Kind.LOG,), *2 * (Kind.DISPATCH,), Kind.ACK),
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
"""The kinds of events that an invariant reads: histories of these alone, in a frame, reach its corner cases."""

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
"""The preconditions of invariants: deduplication, a subscription that was created and drained, the log read back."""


OF_TYPE = {
    "given in order": "Exclusive",
    "keys in order": "Key_Shared",
    "shared one at a time": "Shared",
    "stuck": "Exclusive",
    "keys stuck": "Key_Shared",
    "redelivered without request": "Shared",
    "one active consumer": "Exclusive",
    "keys stay": "Key_Shared",
    "chunked missed": "Exclusive",
}
"""Invariants of one type of subscription: most of the drawn events are of that type."""

WAITING = (
    msgspec.structs.replace(FRAME[0], kind=Kind.SEND, deduplication=None, ledger=1, entry=1),
    msgspec.structs.replace(FRAME[0], kind=Kind.LOG, deduplication=None, ledger=1, entry=1),
    msgspec.structs.replace(FRAME[1], kind=Kind.DISPATCH, ledger=0, entry=0),
    msgspec.structs.replace(FRAME[1], kind=Kind.ACK, ledger=0, entry=0),
)
"""A message that a subscription has not received."""

a_later_look = st.integers(LATEST_NS // 2, LATER_NS).map(
    lambda at_ns: msgspec.structs.replace(
        FRAME[1], kind=Kind.CURSOR, ledger=0, entry=0, invoked_ns=at_ns, completed_ns=at_ns
    )
)
"""A later reading that shows that it is still undelivered."""


@st.composite
def framed(draw: st.DrawFn, name: str) -> list[Recorded]:
    """A history of the events that one invariant reads."""
    if name in ORACLE_OF_CLUSTERS:
        history = draw(replicated(RELEVANT[name]))
        history += FOLLOWING if name == "left behind" else ()
        return [as_replicated(one) for one in history] if draw(st.integers(0, 4)) else history
    inside = draw(st.lists(events(RELEVANT[name]), min_size=4, max_size=14))
    if name in OF_TYPE and draw(st.integers(0, 4)):
        inside = [
            msgspec.structs.replace(one, subscription_type=OF_TYPE[name]) if one.subscription_type else one
            for one in inside
        ]
    frame = list(FRAME)
    if name in ("stuck", "keys stuck"):
        join = msgspec.structs.replace(FRAME[1], kind=Kind.SUBSCRIBE, consumer="c", subscription_type=OF_TYPE[name])
        frame += [*WAITING, join, draw(a_later_look)]
    outside = [one for one in frame if draw(st.integers(0, 9))]
    return [*outside, *inside]


FOLLOWING = (
    msgspec.structs.replace(WAITING[1], cluster="a", ledger=0, entry=0, producer="p", sequence_id=1),
    *(
        msgspec.structs.replace(
            FRAME[2], kind=Kind.CURSOR, cluster=cluster, ledger=ledger, entry=0, invoked_ns=at_ns, completed_ns=at_ns
        )
        for cluster, ledger, at_ns in (("a", 0, LATER_NS - 7), ("a", 1, LATER_NS - 6), ("b", 0, LATER_NS))
    ),
)
"""A message in one cluster, later readings of a subscription there, and a much later one in the other cluster."""


def as_replicated(one: Recorded) -> Recorded:
    """A log entry as a message of the first cluster, or its copy in the second."""
    if one.kind is not Kind.LOG:
        return one
    source = None if one.cluster == "a" else "a"
    return msgspec.structs.replace(
        one, producer="p", replicated_from=source, chunk_uuid=None, chunk_id=None, chunks=None
    )


@st.composite
def replicated(draw: st.DrawFn, kinds: Sequence[Kind] = tuple(Kind)) -> list[Recorded]:
    """A history of a topic in two clusters, usually replicated, and its subscription."""
    inside = draw(st.lists(events(kinds, clusters="ab"), min_size=4, max_size=14))
    frame = [msgspec.structs.replace(one, cluster=name) for name in "ab" for one in FRAME]
    framed = [
        msgspec.structs.replace(one, replicated=True) if one.kind in (Kind.TOPIC, Kind.BEGIN) else one for one in frame
    ]
    outside = [one for one in framed if draw(st.integers(0, 9))]
    return [*outside, *inside]


@st.composite
def events(draw: st.DrawFn, kinds: Sequence[Kind] = tuple(Kind), clusters: Sequence[str] = ("",)) -> Recorded:
    """One event of any kind, with the fields of its kind."""
    kind = draw(st.sampled_from(kinds))
    invoked_ns, took_ns = draw(some_times)
    drawn: dict[str, Any] = {"kind": kind, "invoked_ns": invoked_ns, "completed_ns": invoked_ns + took_ns}
    outcome = draw(
        st.sampled_from((*5 * (CallOutcome.OK,), CallOutcome.DUPLICATE, CallOutcome.FAILED, CallOutcome.UNKNOWN))
    )
    drawn["outcome"] = outcome
    if kind in SUBSCRIBED:
        drawn |= {"subscription": draw(st.sampled_from("ssst")), "consumer": draw(st.sampled_from(("c", "d", None)))}
    if kind in SUBSCRIBED - {Kind.REDELIVER, Kind.SUBSCRIBE, Kind.UNSUBSCRIBE} or kind in (Kind.LOG, Kind.PASSED_ON):
        drawn |= _at(draw(some_position))
    match kind:
        case Kind.TOPIC:
            drawn["deduplication"] = draw(st.sampled_from((True, True, False)))
            drawn["replicated"] = draw(st.sampled_from((True, False, None)))
        case Kind.BEGIN:
            drawn["replicated"] = draw(st.sampled_from((True, None, None)))
        case Kind.SEND | Kind.LOG:
            drawn |= draw(_message())
            if kind is Kind.LOG:
                drawn["replicated_from"] = draw(st.sampled_from((None, None, *clusters, "elsewhere")))
            drawn["key"] = draw(st.sampled_from((None, "k", "l")))
            if kind is Kind.SEND:
                drawn["lane"] = draw(st.sampled_from("wwx"))
            if kind is Kind.SEND and outcome is CallOutcome.OK and draw(st.integers(0, 4)):
                drawn |= _at(draw(some_position))
        case Kind.LOG_END:
            drawn |= _at(draw(some_position))
        case Kind.DISPATCH:
            drawn |= {"subscription_type": draw(st.sampled_from(("Key_Shared", "Key_Shared", "Shared", "Exclusive")))}
            drawn |= draw(_message())
            drawn |= {"chunk_id": None, "key": draw(st.sampled_from(("k", "l", None)))}
            drawn["invoked_ns"] = draw(st.sampled_from((invoked_ns, None)))
            drawn["delayed"] = draw(st.sampled_from((None, None, None, True)))
        case Kind.SUBSCRIBE:
            drawn["subscription_type"] = draw(st.sampled_from(("Key_Shared", "Shared")))
        case Kind.FAULT:
            drawn["fault"] = draw(st.sampled_from((KILL, "unload")))
        case _:
            pass
    return Recorded(**{"run": "r", "lane": "w", "cluster": draw(st.sampled_from(clusters)), "topic": "t"} | drawn)


@st.composite
def _message(draw: st.DrawFn) -> dict[str, Any]:
    message = {
        "producer": draw(st.sampled_from(("p", "p", "q", None))),
        "sequence_id": draw(st.sampled_from((1, 2, 3, None))),
        "digest": draw(st.sampled_from((7, 7, 8, None))),
    }
    if draw(st.sampled_from((True, False, False))):
        message |= {"chunk_uuid": draw(st.sampled_from("uv")), "chunk_id": draw(st.integers(0, 2))}
        message["chunks"] = draw(st.sampled_from((2, 2, 3)))
    return message


def _at(position: tuple[int, int, int]) -> dict[str, int]:
    return dict(zip(("ledger", "entry", "batch_index"), position, strict=True))


def sorted_events(history: Sequence[Recorded]) -> list[Recorded]:
    """The events in the order of the files."""
    return [msgspec.convert(row, Recorded) for row in in_order(table_of(history)).to_pylist()]


def read(folder: Path) -> list[Recorded]:
    """All events of a history."""
    paths = sorted(folder.glob("bucket-*/*.parquet"))
    return [msgspec.convert(row, Recorded) for path in paths for row in pq.read_table(path).to_pylist()]


def judged(
    history: Sequence[Recorded], *, setting: VerificationSetting = SETTING, rows_of_a_batch: int = 7
) -> dict[str, tuple[int, int]]:
    """The counts of the pipeline without Spark: for each invariant how often it was judged, and broken."""
    return counted(_judged(history, setting, rows_of_a_batch))


def results(
    history: Sequence[Recorded], *, setting: VerificationSetting = SETTING, rows_of_a_batch: int = 7
) -> dict[str, dict[str, Any]]:
    """The result of each invariant, of a history of one run."""
    assert len({one.run for one in history}) == 1
    return {row["invariant"]: row for row in _judged(history, setting, rows_of_a_batch)}


def _judged(history: Sequence[Recorded], setting: VerificationSetting, rows_of_a_batch: int) -> list[dict[str, Any]]:
    batches = in_order(table_of(history)).select(NEEDED).to_batches(max_chunksize=rows_of_a_batch)
    rows: list[dict[str, Any]] = judge_batches(batches, setting, INVARIANTS).to_pylist()
    return rows


def counted(rows: Sequence[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    """Accounts by the name of the invariant, added up over several partitions."""
    found: dict[str, tuple[int, int]] = {}
    for row in (row for row in rows if row["invariant"] != TOPICS):
        number, broken = found.get(row["invariant"], (0, 0))
        found[row["invariant"]] = (number + row["judged"], broken + row["broken"])
    return found


def broken_in(results: dict[str, tuple[int, int]]) -> set[str]:
    """The names of the invariants that are broken."""
    return {name for name, (_, broken) in results.items() if broken}


def broken_by_oracle(history: Sequence[Recorded], setting: VerificationSetting = SETTING) -> set[str]:
    """The names of the invariants that are broken, according to the oracle."""
    in_their_order = sorted_events(history)
    parts = [[one for one in in_their_order if one.cluster == name] for name in {one.cluster for one in history}]
    alone = {name for name, is_broken in ORACLE.items() if any(is_broken(part, setting) for part in parts)}
    return alone | {name for name, is_broken in ORACLE_OF_CLUSTERS.items() if is_broken(in_their_order, setting)}
