"""The catalogue of mutations: one event of a sound history is changed, and some invariant must report it.

A mutation that no invariant reports says why nobody can tell. Each is made at three places of each history that has
such an event: a generated one, a recorded soak, and one of two clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec.structs import replace

from conformance.history.recorded import Kind, Recorded
from tests.pipeline.histories.anomalies import History, after_the_log, changed, without

Select = Callable[[Recorded], bool]
Change = Callable[[History, Recorded], History]

LONG_NS: Final = 200 * 10**9
SOMETHING_ELSE: Final = 10**6
QUIET_NS: Final = 4 * 10**9


@dataclass(frozen=True, kw_only=True)
class Mutation:
    """``found_by``: the invariants of which at least one must report it; empty if nobody can tell, and ``why``.

    ``among``: whether it can be detected at an event of a history. ``not_in``: histories in which it cannot.
    """

    name: str
    select: Select
    change: Change
    found_by: tuple[str, ...] = ()
    why: str = ""
    among: Callable[[Sequence[Recorded], Recorded], bool] = lambda _history, _one: True
    not_in: Mapping[str, str] = field(default_factory=dict)


# ------------------------------------------------------------------------------------------------------------ selecting


def _is(*kinds: Kind, subscription_type: str | None = None, has: tuple[str, ...] = (), lacks: str = "") -> Select:
    """Events of these kinds with a position."""

    def select(one: Recorded) -> bool:
        is_right_type = subscription_type is None or one.subscription_type == subscription_type
        return (
            one.kind in kinds
            and one.outcome == "ok"
            and is_right_type
            and all(getattr(one, name) is not None for name in has)
            and not (lacks and getattr(one, lacks) is not None)
        )

    return select


def _both(one: Select, other: Select) -> Select:
    return lambda event: one(event) and other(event)


SEND, LOG, DISPATCH = (_is(kind, has=("ledger",), lacks="chunks") for kind in (Kind.SEND, Kind.LOG, Kind.DISPATCH))
OWN_LOG = _both(LOG, lambda one: one.replicated_from is None)
COPY = _is(Kind.LOG, has=("replicated_from",))
CHUNK = _is(Kind.LOG, has=("chunk_uuid",))
CURSOR = _is(Kind.CURSOR, has=("ledger",))


def _chunk(number: int) -> Select:
    return _both(CHUNK, lambda one: one.chunk_id == number)


def _dispatch(subscription_type: str, *has: str) -> Select:
    return _is(Kind.DISPATCH, subscription_type=subscription_type, has=("ledger", *has), lacks="chunks")


# ------------------------------------------------------------------------------------------------------------- changing


def _set(**fields: Any) -> Change:
    """Other fields; a function gets the value."""

    def change(history: History, one: Recorded) -> History:
        values = {name: to(getattr(one, name)) if callable(to) else to for name, to in fields.items()}
        return changed(history, one, **values)

    return change


def _drop(history: History, one: Recorded) -> History:
    return without(history, one)


def _more(number: int | None) -> int:
    return (number or 0) + SOMETHING_ELSE


def _to_the_end(history: History, one: Recorded) -> History:
    return changed(history, one, **after_the_log(history))


def _again(**fields: Any) -> Change:
    def change(history: History, one: Recorded) -> History:
        values = {name: to(getattr(one, name)) if callable(to) else to for name, to in fields.items()}
        return [*history, replace(one, **values)]

    return change


def _again_at_the_end(history: History, one: Recorded) -> History:
    return [*history, replace(one, **after_the_log(history))]


def _taken_from(*fields: str, kind: Kind | None = None) -> Change:
    """The fields of another event of the same kind, far away in the history."""

    def change(history: History, one: Recorded) -> History:
        same = [
            other
            for other in history
            if other.kind is (kind or one.kind)
            and (other.cluster, other.subscription or one.subscription) == (one.cluster, one.subscription)
            and other.ledger is not None
            and other.chunks is None
        ]
        differing = [other for other in same if any(getattr(other, name) != getattr(one, name) for name in fields)]
        donor = differing[len(differing) // 2]
        return changed(history, one, **{name: getattr(donor, name) for name in fields})

    return change


def _swapped_with_next(*fields: str, apart: int = 1) -> Change:
    def change(history: History, one: Recorded) -> History:
        same = [
            other
            for other in history
            if (other.kind, other.cluster, other.subscription, other.producer)
            == (one.kind, one.cluster, one.subscription, one.producer)
            and other.ledger is not None
            and other.chunks is None
        ]
        same.sort(key=lambda other: (other.ledger or 0, other.entry or 0, other.batch_index))
        index = same.index(one)
        other = same[index + apart] if index + apart < len(same) else same[index - apart]
        there = {name: getattr(other, name) for name in fields}
        back = {name: getattr(one, name) for name in fields}
        return changed(changed(history, one, **there), other, **back)

    return change


def _at(at_ns: Callable[[History, Recorded], int], *, lasting_ns: int = 0) -> Change:
    def change(history: History, one: Recorded) -> History:
        begun_ns = at_ns(history, one)
        return changed(history, one, invoked_ns=begun_ns, completed_ns=begun_ns + lasting_ns)

    return change


def _after_everything(history: History, _: Recorded) -> int:
    return max(one.completed_ns for one in history) + LONG_NS


def _before_its_send(history: History, one: Recorded) -> int:
    return min(_sends_of(history, one), key=lambda send: send.invoked_ns or 0).invoked_ns - 2  # type: ignore[operator]


def _sends_of(history: History, one: Recorded) -> list[Recorded]:
    at = (one.cluster, one.ledger, one.entry, one.batch_index)
    return [
        send
        for send in history
        if send.kind is Kind.SEND and (send.cluster, send.ledger, send.entry, send.batch_index) == at
    ]


def _refused(history: History, one: Recorded) -> History:
    return changed(history, one, outcome="failed", ledger=None, entry=None, batch_index=-1)


def _confirmed_nowhere(history: History, one: Recorded) -> History:
    """Confirmed without a position, and not in the log."""
    at = (one.cluster, one.ledger, one.entry, one.batch_index)
    gone = [
        log for log in history if log.kind is Kind.LOG and (log.cluster, log.ledger, log.entry, log.batch_index) == at
    ]
    return changed(without(history, *gone), one, ledger=None, entry=None, batch_index=-1)


def _to_another_consumer(history: History, one: Recorded) -> History:
    others = sorted(
        {
            other.consumer
            for other in history
            if other.subscription == one.subscription and other.consumer not in (None, one.consumer)
        }
    )
    return changed(history, one, consumer=(others or ["another"])[0])


def _begins_in_the_middle(history: History, one: Recorded) -> History:
    given = [other for other in history if other.kind is Kind.DISPATCH and other.subscription == one.subscription]
    middle = sorted(given, key=lambda other: (other.ledger or 0, other.entry or 0))[len(given) // 2]
    return changed(history, one, ledger=middle.ledger, entry=middle.entry)


def _at_the_end_of_all(history: History, one: Recorded) -> History:
    last = max(
        (other for other in history if other.kind is Kind.LOG and other.cluster == one.cluster),
        key=lambda other: (other.ledger or 0, other.entry or 0),
    )
    return changed(history, one, ledger=last.ledger, entry=last.entry)


def _one_entry_back(history: History, one: Recorded) -> History:
    at = (one.ledger or 0, one.entry or 0)
    places = sorted({(log.ledger or 0, log.entry or 0) for log in history if log.kind is Kind.LOG})
    before = [place for place in places if place < at]
    ledger, entry = before[-1]
    return changed(history, one, ledger=ledger, entry=entry)


def _is_confirmed(history: Sequence[Recorded], one: Recorded) -> bool:
    """Whether the ack of a message was confirmed."""
    return any(
        ack.kind is Kind.ACK
        and ack.outcome == "ok"
        and ack.subscription == one.subscription
        and _place(ack) == _place(one)
        for ack in history
    )


def _is_acknowledged_once(history: Sequence[Recorded], one: Recorded) -> bool:
    """Whether no other cluster has an ack of the message, and a later reading covers it."""
    places = {_place(log) for log in history if log.kind is Kind.LOG and log.digest == _digest(history, one)}
    acks = [
        ack for ack in history if ack.kind in (Kind.ACK, Kind.ACK_CUMULATIVE) and ack.subscription == one.subscription
    ]
    is_alone = sum(ack.kind is Kind.ACK_CUMULATIVE or _place(ack) in places for ack in acks) == 1
    return is_alone and any(
        reading.kind is Kind.CURSOR
        and (reading.cluster, reading.subscription) == (one.cluster, one.subscription)
        and (reading.ledger or 0, reading.entry or 0) >= (one.ledger or 0, one.entry or 0)
        and reading.completed_ns > one.completed_ns
        for reading in history
    )


def _digest(history: Sequence[Recorded], one: Recorded) -> int | None:
    return next((log.digest for log in history if log.kind is Kind.LOG and _place(log) == _place(one)), None)


def _has_advanced(history: Sequence[Recorded], one: Recorded) -> bool:
    """Whether an earlier reading is after the first entry."""
    return any(
        reading.kind is Kind.CURSOR
        and (reading.cluster, reading.subscription) == (one.cluster, one.subscription)
        and reading.completed_ns < (one.invoked_ns or 0)
        and (reading.entry or 0) > 0
        for reading in history
    )


def _is_quiet(history: Sequence[Recorded], one: Recorded) -> bool:
    """Whether no consumer joined or left shortly before, and none may have left without a sign of its return."""
    given = [other for other in history if other.kind is Kind.DISPATCH and other.subscription == one.subscription]
    before_ns = [other.invoked_ns for other in given if (other.invoked_ns or 0) < (one.invoked_ns or 0)]
    since_ns = max((ns for ns in before_ns if ns is not None), default=0) - QUIET_NS
    return since_ns > 0 and not any(
        (
            other.kind is Kind.SUBSCRIBE
            and since_ns <= other.completed_ns
            and (other.invoked_ns or 0) <= one.completed_ns
        )
        or (other.kind is Kind.UNSUBSCRIBE and other.completed_ns <= one.completed_ns)
        or (other.kind is Kind.FAULT and other.completed_ns <= one.completed_ns)
        for other in history
        if other.subscription in (None, one.subscription)
    )


def _place(one: Recorded) -> tuple[str, int | None, int | None, int]:
    return one.cluster, one.ledger, one.entry, one.batch_index


REPLICATED: Final = {"clusters": "other clusters change a replicated subscription"}
ACKNOWLEDGED: Final = {"clusters": "the ack of a replicated subscription shows that some consumer received it"}

CATALOGUE: Final = (
    # ----------------------------------------------------------------------------------------------------------- sends
    Mutation(
        name="a send has another payload", select=SEND, change=_set(digest=_more), found_by=("lost", "delivered whole")
    ),
    Mutation(
        name="a send has another key",
        select=_both(SEND, lambda one: one.key is not None),
        change=_set(key="other"),
        found_by=("lost",),
    ),
    Mutation(
        name="a send has no key",
        select=_both(SEND, lambda one: one.key is not None),
        change=_set(key=None),
        found_by=("lost",),
    ),
    Mutation(name="a send is of another producer", select=SEND, change=_set(producer="other"), found_by=("lost",)),
    Mutation(name="a send has another sequence id", select=SEND, change=_set(sequence_id=_more), found_by=("lost",)),
    Mutation(
        name="a send is confirmed at another message's position",
        select=SEND,
        change=_taken_from("ledger", "entry", "batch_index"),
        found_by=("lost", "positions rise"),
    ),
    Mutation(name="a send is confirmed after the end of the log", select=SEND, change=_to_the_end, found_by=("lost",)),
    Mutation(
        name="a send is confirmed with a batch index that the log lacks",
        select=SEND,
        change=_set(batch_index=99),
        found_by=("lost",),
    ),
    Mutation(
        name="two sends are confirmed at each other's positions",
        select=SEND,
        change=_swapped_with_next("ledger", "entry", "batch_index", apart=2),
        found_by=("lost", "positions rise"),
    ),
    Mutation(name="a send was never made", select=SEND, change=_drop, found_by=("sent by nobody",)),
    Mutation(
        name="a send begins after its message was received",
        select=SEND,
        change=_at(_after_everything),
        found_by=("read before sent",),
    ),
    Mutation(
        name="a send is refused, and its message is in the log",
        select=SEND,
        change=_refused,
        found_by=("refused but stored",),
    ),
    Mutation(
        name="a send is confirmed without a position and is not in the log",
        select=SEND,
        change=_confirmed_nowhere,
        found_by=("lost",),
    ),
    Mutation(
        name="a send announces another number of chunks",
        select=_is(Kind.SEND, has=("chunks", "ledger")),
        change=_set(chunks=_more),
        found_by=("chunks agree",),
    ),
    Mutation(
        name="a send announces one chunk more",
        select=_is(Kind.SEND, has=("chunks", "ledger")),
        change=_set(chunks=lambda number: number + 1),
        found_by=("chunks agree",),
    ),
    Mutation(
        name="a chunked send has another payload",
        select=_is(Kind.SEND, has=("chunks", "ledger")),
        change=_set(digest=_more),
        found_by=("delivered whole",),
    ),
    Mutation(
        name="a send is confirmed at the first of its chunks",
        select=_is(Kind.SEND, has=("chunks", "ledger")),
        change=_set(entry=lambda entry: entry - 2),
        found_by=("lost", "lost in part", "chunks agree", "chunked missed", "read before sent", "positions rise"),
    ),
    # ------------------------------------------------------------------------------------------------------------- log
    Mutation(
        name="a message is not in the log", select=OWN_LOG, change=_drop, found_by=("lost", "delivered otherwise")
    ),
    Mutation(
        name="the log has another payload",
        select=OWN_LOG,
        change=_set(digest=_more),
        found_by=("lost", "sent by nobody"),
    ),
    Mutation(
        name="the log has another key",
        select=_both(OWN_LOG, lambda one: one.key is not None),
        change=_set(key="other"),
        found_by=("lost", "sent by nobody"),
    ),
    Mutation(
        name="the log has no key",
        select=_both(OWN_LOG, lambda one: one.key is not None),
        change=_set(key=None),
        found_by=("lost", "sent by nobody"),
    ),
    Mutation(name="the log has another producer", select=OWN_LOG, change=_set(producer="other"), found_by=("lost",)),
    Mutation(
        name="the log has another sequence id",
        select=OWN_LOG,
        change=_set(sequence_id=_more),
        found_by=("lost", "sent by nobody"),
    ),
    Mutation(name="the log has another batch index", select=OWN_LOG, change=_set(batch_index=99), found_by=("lost",)),
    Mutation(
        name="a message is after the end of the log",
        select=OWN_LOG,
        change=_to_the_end,
        found_by=("lost", "beyond the end"),
    ),
    Mutation(
        name="a message is in the log again, after its end",
        select=LOG,
        change=_again_at_the_end,
        found_by=("beyond the end", "stored twice"),
    ),
    Mutation(
        name="a message nobody sent is after the end of the log",
        select=LOG,
        change=lambda history, one: [*history, replace(one, producer="other", **after_the_log(history))],
        found_by=("beyond the end",),
    ),
    Mutation(
        name="two messages of a producer are exchanged in the log",
        select=OWN_LOG,
        change=_swapped_with_next("ledger", "entry", "batch_index"),
        found_by=("lost", "out of order"),
    ),
    Mutation(
        name="two payloads are exchanged in the log",
        select=OWN_LOG,
        change=_swapped_with_next("digest"),
        found_by=("lost", "sent by nobody"),
    ),
    Mutation(
        name="a message is read in the log before it was sent",
        select=OWN_LOG,
        change=_at(_before_its_send),
        found_by=("read before sent",),
    ),
    Mutation(
        name="a message of an unknown cluster is in the log",
        select=OWN_LOG,
        change=_set(replicated_from="elsewhere"),
        found_by=("from no cluster", "from another cluster"),
    ),
    # ---------------------------------------------------------------------------------------------------------- chunks
    Mutation(
        name="a first chunk is not in the log",
        select=_chunk(0),
        change=_drop,
        found_by=("delivered whole", "chunks in order", "lost in part", "stored whole"),
    ),
    Mutation(
        name="a middle chunk is not in the log",
        select=_chunk(1),
        change=_drop,
        found_by=("delivered whole", "chunks in order", "lost in part", "stored whole", "lost"),
    ),
    Mutation(
        name="a last chunk is not in the log",
        select=_both(CHUNK, lambda one: one.chunk_id == (one.chunks or 0) - 1),
        change=_drop,
        found_by=("delivered whole", "lost", "delivered otherwise"),
    ),
    Mutation(
        name="a chunk has another uuid",
        select=CHUNK,
        change=_set(chunk_uuid="other"),
        found_by=("chunks in order", "delivered whole", "delivered otherwise"),
    ),
    Mutation(
        name="a chunk has another number of chunks", select=CHUNK, change=_set(chunks=_more), found_by=("chunks agree",)
    ),
    Mutation(
        name="a chunk has another chunk id",
        select=CHUNK,
        change=_set(chunk_id=lambda number: number + 1),
        found_by=("chunks agree", "chunks in order", "stored once in order", "delivered whole"),
    ),
    Mutation(
        name="a chunk has another producer", select=CHUNK, change=_set(producer="other"), found_by=("chunks agree",)
    ),
    Mutation(
        name="a chunk has another sequence id", select=CHUNK, change=_set(sequence_id=_more), found_by=("chunks agree",)
    ),
    Mutation(
        name="a chunk is after the end of the log", select=CHUNK, change=_to_the_end, found_by=("beyond the end",)
    ),
    Mutation(
        name="a chunk has another payload",
        select=_both(CHUNK, lambda one: one.digest is not None),
        change=_set(digest=_more),
        why="digests of a whole sent message and of stored chunks do not compare; a dispatch shows the damage",
    ),
    # ------------------------------------------------------------------------------------------------------ dispatches
    *(
        Mutation(
            name=f"a {type_} subscription receives {what}",
            select=_dispatch(type_, *needs),
            change=change,
            found_by=found_by,
        )
        for type_ in ("Exclusive", "Failover", "Shared", "Key_Shared")
        for what, needs, change, found_by in (
            ("another payload", ("digest",), _set(digest=_more), ("delivered otherwise",)),
            ("another key", ("key",), _set(key="other"), ("delivered otherwise",)),
            ("no key", ("key",), _set(key=None), ("delivered otherwise",)),
            ("a message of another producer", ("producer",), _set(producer="other"), ("delivered otherwise",)),
            ("a batch index that the log lacks", (), _set(batch_index=99), ("delivered otherwise",)),
            ("a message after the end of the log", (), _to_the_end, ("delivered otherwise", "beyond the end")),
            ("the payload of another message", ("digest",), _taken_from("digest"), ("delivered otherwise",)),
            (
                "another message in the place of one",
                (),
                _taken_from("ledger", "entry", "batch_index"),
                ("delivered otherwise", "missed"),
            ),
            ("a message before it was sent", (), _at(_before_its_send), ("read before sent",)),
        )
    ),
    Mutation(
        name="a subscription receives another sequence id",
        select=_is(Kind.DISPATCH, has=("sequence_id", "ledger")),
        change=_set(sequence_id=_more),
        found_by=("delivered otherwise",),
    ),
    Mutation(
        name="a message is never received",
        select=DISPATCH,
        change=_drop,
        found_by=("missed", "missed everywhere"),
        not_in=ACKNOWLEDGED,
    ),
    Mutation(
        name="a message is received after its subscription was drained",
        select=DISPATCH,
        change=_at(_after_everything),
        found_by=("missed", "given in order", "keys in order", "delivered again"),
    ),
    Mutation(
        name="a message is received by another subscription",
        select=DISPATCH,
        change=_set(subscription="other"),
        found_by=("missed",),
        not_in=ACKNOWLEDGED,
    ),
    Mutation(
        name="a chunked message is never received",
        select=_is(Kind.DISPATCH, has=("chunks",)),
        change=_drop,
        found_by=("chunked missed", "chunked missed by all"),
    ),
    Mutation(
        name="a chunked message is received with another payload",
        select=_is(Kind.DISPATCH, has=("chunks",)),
        change=_set(digest=_more),
        found_by=("delivered whole",),
    ),
    Mutation(
        name="a chunked message is received with another uuid",
        select=_is(Kind.DISPATCH, has=("chunks",)),
        change=_set(chunk_uuid="other"),
        found_by=("delivered otherwise", "delivered whole"),
    ),
    Mutation(
        name="a chunked message is received with fewer chunks",
        select=_is(Kind.DISPATCH, has=("chunks",)),
        change=_set(chunks=lambda number: number - 1),
        found_by=("delivered otherwise",),
    ),
    Mutation(
        name="a chunked message is received of another producer",
        select=_is(Kind.DISPATCH, has=("chunks",)),
        change=_set(producer="other"),
        found_by=("delivered otherwise",),
    ),
    Mutation(
        name="an Exclusive subscription has two active consumers",
        select=_dispatch("Exclusive"),
        change=_to_another_consumer,
        found_by=("one active consumer",),
        among=_is_quiet,
    ),
    Mutation(
        name="a Failover subscription has two active consumers",
        select=_dispatch("Failover"),
        change=_to_another_consumer,
        found_by=("one active consumer",),
        among=_is_quiet,
    ),
    Mutation(
        name="a key is at two consumers",
        select=_dispatch("Key_Shared", "key"),
        change=_again(consumer="other", invoked_ns=lambda ns: ns + 1),
        found_by=("one consumer at a time",),
    ),
    Mutation(
        name="a message of a Shared subscription is at two consumers",
        select=_dispatch("Shared", "invoked_ns"),
        change=_again(consumer="other", invoked_ns=lambda ns: ns + 1),
        found_by=("shared one at a time",),
        not_in=REPLICATED,
    ),
    Mutation(
        name="a pending message is dispatched again to its consumer",
        select=_dispatch("Key_Shared", "invoked_ns"),
        change=_again(invoked_ns=lambda ns: ns + 1, completed_ns=lambda ns: ns + 1),
        found_by=("redelivered without request",),
    ),
    Mutation(
        name="an acknowledged message is dispatched again",
        select=_dispatch("Key_Shared", "invoked_ns"),
        change=_again(invoked_ns=lambda ns: ns + LONG_NS, completed_ns=lambda ns: ns + LONG_NS),
        found_by=("delivered again",),
        among=_is_confirmed,
    ),
    # ------------------------------------------------------------------------------------------- acks and subscriptions
    Mutation(
        name="an ack was never made",
        select=_is(Kind.ACK, has=("ledger",)),
        change=_drop,
        found_by=("mark delete over a hole", "ahead"),
        among=_is_acknowledged_once,
    ),
    Mutation(
        name="an ack is of another message",
        select=_is(Kind.ACK, has=("ledger",)),
        change=_to_the_end,
        found_by=("mark delete over a hole", "ahead"),
        among=_is_acknowledged_once,
    ),
    Mutation(
        name="an ack is of another subscription",
        select=_is(Kind.ACK, has=("ledger",)),
        change=_set(subscription="other"),
        found_by=("mark delete over a hole", "ahead"),
        among=_is_acknowledged_once,
    ),
    Mutation(
        name="an ack failed",
        select=_is(Kind.ACK, has=("ledger",)),
        change=_set(outcome="failed"),
        found_by=("mark delete over a hole", "ahead"),
        among=_is_acknowledged_once,
    ),
    Mutation(
        name="an ack begins after the last reading",
        select=_is(Kind.ACK, has=("ledger",)),
        change=_at(_after_everything),
        found_by=("mark delete over a hole", "ahead"),
        among=_is_acknowledged_once,
    ),
    Mutation(
        name="mark-delete is after the end of the log",
        select=CURSOR,
        change=_to_the_end,
        found_by=(
            "beyond the end",
            "ahead",
        ),
    ),
    Mutation(
        name="mark-delete jumps to the end",
        select=CURSOR,
        change=_at_the_end_of_all,
        found_by=("mark delete over a hole", "ahead", "mark delete back"),
    ),
    Mutation(
        name="mark-delete is at the beginning again",
        select=CURSOR,
        change=_set(ledger=-1, entry=-1),
        found_by=("mark delete back", "mark delete late", "left behind"),
        among=_has_advanced,
    ),
    Mutation(
        name="mark-delete is one entry back",
        select=CURSOR,
        change=_one_entry_back,
        found_by=("mark delete late", "mark delete back"),
        not_in={**REPLICATED, "soak": "pulsar-client does not tell whether an ack was confirmed"},
    ),
    Mutation(
        name="a subscription begins after half of its messages",
        select=_is(Kind.BEGIN),
        change=_begins_in_the_middle,
        found_by=("delivered before beginning",),
        not_in=REPLICATED,
    ),
    # -------------------------------------------------------------------------------------------------------- clusters
    Mutation(
        name="a copy is not in the log", select=COPY, change=_drop, found_by=("not replicated", "without original")
    ),
    Mutation(
        name="a copy has another payload", select=COPY, change=_set(digest=_more), found_by=("replicated otherwise",)
    ),
    Mutation(name="a copy has another key", select=COPY, change=_set(key="other"), found_by=("replicated otherwise",)),
    Mutation(name="a copy has no key", select=COPY, change=_set(key=None), found_by=("replicated otherwise",)),
    Mutation(
        name="a copy has another producer", select=COPY, change=_set(producer="other"), found_by=("not replicated",)
    ),
    Mutation(
        name="a copy has another sequence id", select=COPY, change=_set(sequence_id=_more), found_by=("not replicated",)
    ),
    Mutation(name="a copy is in the log again", select=COPY, change=_again_at_the_end, found_by=("replicated twice",)),
    Mutation(
        name="a copy is after the end of the log",
        select=COPY,
        change=_to_the_end,
        found_by=("replicated out of order", "beyond the end"),
    ),
    Mutation(
        name="a copy comes from an unknown cluster",
        select=COPY,
        change=_set(replicated_from="elsewhere"),
        found_by=("from no cluster",),
    ),
    Mutation(
        name="a copy comes from its own cluster",
        select=COPY,
        change=lambda history, one: changed(history, one, replicated_from=one.cluster),
        found_by=("from no cluster",),
    ),
    Mutation(
        name="a copy was first stored here",
        select=COPY,
        change=_set(replicated_from=None),
        found_by=("not replicated", "sent by nobody"),
    ),
    Mutation(
        name="an original is not in the log of its cluster",
        select=OWN_LOG,
        change=_drop,
        found_by=("lost", "without original"),
    ),
    # ------------------------------------------------------------------------------------------------ nobody can tell
    Mutation(
        name="a send is confirmed as a duplicate",
        select=SEND,
        change=_set(outcome="duplicate", ledger=None, entry=None, batch_index=-1),
        why="the client may have sent it twice, and lost the first answer with its connection",
    ),
    Mutation(
        name="an ack is of another consumer",
        select=_is(Kind.ACK, has=("ledger",)),
        change=_set(consumer="other"),
        why="the application says which consumer acknowledged; the broker takes the ack of any",
    ),
    Mutation(
        name="an ack is not confirmed",
        select=_is(Kind.ACK, has=("ledger",)),
        change=_set(outcome="unknown"),
        why="the ack may still have had its effect: less is known, and nothing is wrong",
    ),
    Mutation(
        name="a send has another size",
        select=SEND,
        change=_set(size_bytes=_more),
        why="the recorder computed it; the digest compares payloads",
    ),
    Mutation(
        name="a dispatch has another count of redeliveries",
        select=DISPATCH,
        change=_set(redeliveries=7),
        why="no rule says what the count is",
    ),
    Mutation(
        name="a dispatch is delayed",
        select=_dispatch("Key_Shared"),
        change=_set(delayed=True),
        why="the producer chose that, and the log does not have it",
    ),
    Mutation(
        name="the log was not read back",
        select=_is(Kind.LOG_END),
        change=_drop,
        why="what is not recorded is not judged: the rules count fewer checks",
    ),
    Mutation(
        name="a subscription's beginning is unknown",
        select=_is(Kind.BEGIN),
        change=_drop,
        why="what is not recorded is not judged: the rules count fewer checks",
    ),
    Mutation(
        name="a subscription was not drained",
        select=_is(Kind.DRAINED),
        change=_drop,
        why="what is not recorded is not judged: the rules count fewer checks",
    ),
    Mutation(
        name="a reading of mark-delete is missing",
        select=CURSOR,
        change=_drop,
        why="what is not recorded is not judged: the rules count fewer checks",
    ),
)
