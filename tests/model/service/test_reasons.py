"""What a broker does unasked breaks a rule unless there is a reason for exactly that."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec.structs import replace as replace_struct

from model.cluster_events import LinkCut, LinkHealed, ReplicationSettings
from model.cluster_operations import LoseCluster, RecoverCluster
from model.deviations import DEVIATIONS
from model.events import (
    Abandoned,
    Acknowledged,
    AnyOutcome,
    Cleared,
    Created,
    Delivery,
    Done,
    NetworkFaultsCleared,
    Opened,
    Refused,
    Sent,
    Starved,
    Stored,
    Subscribed,
)
from model.example import Example
from model.explain import judge
from model.judgement import Allowed, Broken
from model.log import Position
from model.operations import (
    AnyOperation,
    ClearFailpoints,
    ClearNetworkFaults,
    CloseProducer,
    CrashProducer,
    CreateTopic,
    InjectNetworkFault,
    Kill,
    OpenProducer,
    ReadLog,
    ReadSnapshot,
    Send,
    SetFailpoint,
    Terminate,
    Unload,
    UseProxy,
)
from model.service.unexpected import Closed, ErrorAnswer, Overdue, Silence, Unexpected
from model.subscription_operations import (
    AckById,
    Acknowledge,
    CreateSubscription,
    CutDuring,
    DeleteSubscription,
    ReadCursor,
    ReceiveAll,
    Subscribe,
    Unsubscribe,
)
from model.vocabulary import Client, CutAfter, CutAt, Entry, Message, SubscriptionType

STATS_FAIL = ErrorAnswer("admin", "GET stats of topic t0", "500", "currentLedger is null", "t0")
LOADING = ErrorAnswer(
    "binary", "opening producer p", "PersistenceError", "the topic is being loaded", "t0", is_last=False
)
FAILED_WRITE = ErrorAnswer("binary", "Subscribe of c1", "PersistenceError", "a write failed", "t0")
SILENT = Silence("binary", "Acknowledge of c1", "no answer in 10 s", "t0")
CLOSED = Closed("s1", "the broker closed the producer", "t0")

Happened = tuple[AnyOperation, AnyOutcome]
CREATED: Happened = (CreateTopic("t0", persistence="every-ack"), Created(deduplication=False, snapshot_room=6))
OPENED: Happened = (OpenProducer("s1", "t0", "p"), Opened(-1))


def after(*happened: Happened) -> Example:
    state = Example()
    for operation, outcome in happened:
        judged = judge(state, operation, outcome)
        assert isinstance(judged, Allowed), judged
        state = judged.state
    return state


def broken(state: Example, *observed: Unexpected, operation: AnyOperation | None = None) -> str | None:
    """The rule that is broken if a step has these beside its outcome."""
    judged = judge(state, operation or ReadSnapshot("t0"), Done(), unexpected=observed)
    return judged.rule if isinstance(judged, Broken) else None


def knowing_all(*happened: Happened) -> Example:
    return replace(after(*happened), known=frozenset(DEVIATIONS))


def unexcused(state: Example, operation: AnyOperation, outcome: AnyOutcome, *observed: Unexpected) -> str | None:
    """The deviation, if it has one, of a step that breaks SERVE-01."""
    judged = judge(state, operation, outcome, unexpected=observed)
    assert isinstance(judged, Broken)
    assert judged.rule == "SERVE-01"
    return judged.deviation


def met(state: Example, operation: AnyOperation, outcome: AnyOutcome, *observed: Unexpected) -> tuple[str, ...]:
    """The deviations of a step that breaks no rule."""
    judged = judge(state, operation, outcome, unexpected=observed)
    assert isinstance(judged, Allowed)
    return judged.deviations


@pytest.mark.parametrize(
    ("observed", "rule"),
    [
        (STATS_FAIL, "SERVE-01"),
        (FAILED_WRITE, "SERVE-01"),
        (SILENT, "SERVE-01"),
        (CLOSED, "SERVE-02"),
        (Overdue("SERVE-04", "the broker did not notice that a consumer was cut off"), "SERVE-04"),
        (Overdue("SERVE-02", "pulsar-client did not reconnect"), "SERVE-02"),
    ],
)
def test_without_a_reason_it_breaks_its_rule(observed: Unexpected, rule: str) -> None:
    assert broken(after(CREATED, OPENED), observed) == rule


def test_a_failpoint_that_cuts_connections_excuses_closed_ones_on_its_topic_until_a_write_is_confirmed_after_it() -> (
    None
):
    cutting = (CREATED, OPENED, (SetFailpoint("t0", "confirmation-lost"), Done()))
    assert broken(after(*cutting), CLOSED) is None
    assert broken(after(*cutting), replace_struct(CLOSED, topic="t1")) == "SERVE-02"
    assert broken(after(*cutting), SILENT) == "SERVE-01"
    cleared = (*cutting, (ClearFailpoints(), Cleared(())))
    assert broken(after(*cleared), CLOSED) is None
    confirmed = (Send("s1", (Entry((Message(1, "b1"),)),)), Sent((Stored(Position(1, 0)),)))
    assert broken(after(*cleared, confirmed), CLOSED) == "SERVE-02"


def test_a_topic_that_is_being_loaded_may_be_refused_until_the_time_for_that_is_over() -> None:
    loading = after(CREATED, OPENED, (Unload("t0"), Done()))
    assert broken(loading, LOADING) is None
    assert broken(loading, ErrorAnswer("binary", "opening producer p", "UnknownError", "", "t0", is_last=False))
    assert broken(loading, ErrorAnswer("binary", "opening producer p", "ServiceNotReady", "", "t0"))
    assert broken(loading, STATS_FAIL) == "SERVE-01"
    assert broken(after(CREATED, OPENED, (Unload("t0"), Done()), OPENED), LOADING) == "SERVE-01"


def test_writes_that_fail_explain_refusals_and_closed_producers_of_their_topic_and_nothing_else() -> None:
    other: Happened = (CreateTopic("t1", persistence="every-ack"), Created(deduplication=False, snapshot_room=6))
    failing = after(CREATED, other, OPENED, (SetFailpoint("t0", "write-fails"), Done()))
    assert broken(failing, FAILED_WRITE, CLOSED) is None
    assert broken(failing, Closed("s2", "the broker closed the producer", "t1")) == "SERVE-02"
    assert broken(failing, STATS_FAIL) == "SERVE-01"
    assert broken(failing, SILENT) == "SERVE-01"
    slow = after(CREATED, OPENED, (SetFailpoint("t0", "read-slow"), Done()))
    assert broken(slow, CLOSED) == "SERVE-02"


def test_a_snapshot_that_cannot_be_written_explains_why_the_admin_api_has_no_topic_while_it_is_loaded() -> None:
    not_saved: Happened = (SetFailpoint("t0", "snapshot-write-fails"), Done())
    failed = ErrorAnswer("admin", "GET internalStats of topic t0", "500", "the snapshot failed", "t0")
    loading = (CREATED, OPENED, (Unload("t0"), Done()))
    assert broken(after(*loading, not_saved), failed) is None
    assert broken(after(*loading, not_saved, OPENED), failed) == "SERVE-01", "it is loaded"
    assert broken(after(*loading), failed) == "SERVE-01"
    assert broken(after(*loading, not_saved), replace_struct(failed, topic="t1")) == "SERVE-01"


def test_the_network_explains_silence_on_the_wire_but_not_of_the_admin_api() -> None:
    disturbed = after(CREATED, OPENED, (UseProxy(), Done()), (InjectNetworkFault("t0", CutAt("SEND_RECEIPT")), Done()))
    assert broken(disturbed, SILENT, CLOSED) is None
    assert broken(disturbed, Silence("admin", "ReadLog", "no answer in 30 s", "t0")) == "SERVE-01"


def test_a_cut_by_the_network_explains_a_closed_producer_that_is_noticed_later_until_it_is_seen_to_be_connected() -> (
    None
):
    fault = (InjectNetworkFault("t0", CutAt("PRODUCER_SUCCESS")), Done())
    cut = (CREATED, (UseProxy(), Done()), fault, OPENED, (ClearNetworkFaults(), NetworkFaultsCleared(1)))
    assert broken(after(*cut), CLOSED) is None
    assert broken(after(*cut), replace_struct(CLOSED, actor="s2")) == "SERVE-02"
    confirmed = (Send("s1", (Entry((Message(1, "b1"),)),)), Sent((Stored(Position(1, 0)),)))
    assert broken(after(*cut, confirmed), CLOSED) == "SERVE-02"
    assert broken(after(*cut, OPENED), CLOSED) == "SERVE-02"
    not_fired = (*cut[:-1], (ClearNetworkFaults(), NetworkFaultsCleared(0)))
    assert broken(after(*not_fired), CLOSED) == "SERVE-02"


def test_a_terminated_topic_closes_its_producers() -> None:
    other = CreateTopic("t1", persistence="every-ack"), Created(deduplication=False, snapshot_room=6)
    state = after(CREATED, OPENED, other, (OpenProducer("s2", "t1", "p"), Opened(-1)))
    assert broken(state, CLOSED, operation=Terminate("t0")) is None
    assert broken(state, Closed("s2", "the broker closed the producer", "t1"), operation=Terminate("t0")) == "SERVE-02"
    assert broken(state, Closed("c1", "the broker closed the consumer", "t0"), operation=Terminate("t0")) == "SERVE-02"


def test_a_message_that_nobody_can_receive_breaks_the_counts_and_not_the_delivery() -> None:
    """A part of a history without the sends of a message does not show that it was lost."""
    sent: Happened = Send("s1", (Entry((Message(1, "b1"),)),)), Sent((Stored(Position(1, 0)),))
    subscribed: Happened = Subscribe("c1", "t0", "s0"), Subscribed()
    acked: Happened = AckById("c1", ("b1",)), Acknowledged((Delivery(Position(1, 0), -1, 0, "b1"),), receipt=True)
    read, missing = ReadCursor("t0", "s0"), Starved("1 entry that no consumer has is not delivered")
    all_of_it, came = (
        ReceiveAll("t0", "s0", "Shared"),
        Starved("1 entry is not", (Delivery(Position(1, 0), -1, 0, "b1"),)),
    )
    with_one = after(CREATED, OPENED, subscribed, sent)
    without = [after(CREATED, OPENED, subscribed), after(CREATED, OPENED, subscribed, sent, acked)]
    for operation in (read, all_of_it):
        assert rule(with_one, operation, missing) == "SERVE-03"
        assert [rule(state, operation, missing) for state in without] == ["SERVE-04"] * 2
    assert rule(with_one, all_of_it, came) == "SERVE-04", "it came"
    assert rule(after(CREATED, OPENED, sent), all_of_it, missing) == "SERVE-04", "there is no such subscription"


def rule(state: Example, operation: AnyOperation, outcome: AnyOutcome) -> str | None:
    judged = judge(state, operation, outcome)
    return judged.rule if isinstance(judged, Broken) else None


def test_only_a_rollover_excuses_a_topic_that_is_not_loaded_again() -> None:
    created = CREATED[0], replace_struct(CREATED[1], ledger_room=2)
    entries = tuple(Entry((Message(n, f"b{n}"),)) for n in (1, 2))
    full: Happened = Send("s1", entries), Sent((Stored(Position(1, 0)), Stored(Position(1, 1))))
    room: Happened = Send("s1", entries[:1]), Sent((Stored(Position(1, 0)),))
    unload: Happened = Unload("t0"), Done()
    version = ErrorAnswer("admin", "PUT unload of topic t0", "500", "BadVersionException: …", "t0", is_last=False)
    assert unexcused(after(created, OPENED, full, unload), *unload, version) == "unload-races-with-rollover"
    assert met(knowing_all(created, OPENED, full, unload), *unload, version) == ("unload-races-with-rollover",)
    loaded: Happened = OpenProducer("s2", "t0", "q"), Opened(-1)
    others: list[tuple[Example, ErrorAnswer]] = [
        (knowing_all(created, OPENED, room, unload), version),
        (knowing_all(created, OPENED, full), version),
        (knowing_all(created, OPENED, full, unload, loaded), version),
        (knowing_all(created, OPENED, full, unload), replace_struct(version, is_last=True)),
        (knowing_all(created, OPENED, full, unload), replace_struct(version, message="another reason")),
    ]
    for state, error in others:
        assert unexcused(state, *unload, error) is None


def test_only_a_rollover_excuses_a_fenced_managed_ledger() -> None:
    created = CREATED[0], replace_struct(CREATED[1], ledger_room=2)
    entries = tuple(Entry((Message(n, f"b{n}"),)) for n in (1, 2))
    full: Happened = Send("s1", entries), Sent((Stored(Position(1, 0)), Stored(Position(1, 1))))
    room: Happened = Send("s1", entries[:1]), Sent((Stored(Position(1, 0)),))
    terminated: Happened = Terminate("t0"), Done()
    fenced = ErrorAnswer("binary", "subscribing c1", "PersistenceError", "ManagedLedgerFencedException: …", "t0", False)
    version = ErrorAnswer("admin", "POST terminate of topic t0", "500", "BadVersionException: …", "t0", False)
    subscribe, terminate = subscribing("c1", "Shared"), Terminate("t0")
    before, after_it = after(created, OPENED, full), after(created, OPENED, full, terminated)
    unanswered: Happened = Send("s1", entries, wait=False), Sent(())
    shown: list[tuple[Example, AnyOperation, ErrorAnswer]] = [
        (after(created, OPENED, unanswered), terminate, version),
        (before, terminate, version),
        (after_it, subscribe, fenced),
        (after_it, ReadLog("t0"), replace_struct(fenced, message="Attempted to use a fenced managed ledger")),
    ]
    for state, operation, error in shown:
        judged = judge(state, operation, Done(), unexpected=(error,))
        assert isinstance(judged, Broken)
        assert (judged.rule, judged.deviation) == ("SERVE-01", "termination-races-with-rollover")
        known = replace(state, known=frozenset({"termination-races-with-rollover"}))
        assert broken(known, error, operation=operation) is None
        assert broken(known, replace_struct(error, is_last=True), operation=operation) == "SERVE-01"
        assert broken(known, replace_struct(error, message="another reason"), operation=operation) == "SERVE-01"
        assert broken(known, replace_struct(error, topic="t1"), operation=operation) == "SERVE-01"
    let_in: Happened = OpenProducer("s2", "t0", "q"), Opened(-1)  # the topic is loaded again
    known = replace(before, known=frozenset({"termination-races-with-rollover"}))
    refused = judge(
        known, terminate, Refused("500", "--- An unexpected error occurred in the server ---"), unexpected=(version,)
    )
    assert isinstance(refused, Allowed)
    assert broken(refused.state, fenced, operation=subscribe) is None
    assert broken(refused.state, CLOSED, operation=ReadLog("t0")) is None
    loaded = judge(refused.state, *let_in)
    assert isinstance(loaded, Allowed)
    assert broken(loaded.state, fenced, operation=subscribe) == "SERVE-01"
    others: list[tuple[Example, AnyOperation, ErrorAnswer]] = [
        (after(created, OPENED, room), terminate, version),
        (after(created, OPENED, room, terminated), subscribe, fenced),
        (before, subscribe, fenced),
        (after(created, OPENED, full, terminated, (Unload("t0"), Done()), let_in), subscribe, fenced),
    ]
    for state, operation, error in others:
        known = replace(state, known=frozenset({"termination-races-with-rollover"}))
        assert broken(known, error, operation=operation) == "SERVE-01"


def test_an_operation_that_was_given_up_is_not_judged_for_anything_else() -> None:
    state = after(CREATED)
    judged = judge(state, OpenProducer("s1", "t0", "p"), Abandoned("no answer"), unexpected=(SILENT,))
    assert isinstance(judged, Broken)
    assert judged.rule == "SERVE-01"
    excused = judge(after(CREATED), OpenProducer("s1", "t0", "p"), Abandoned("x"), unexpected=(LOADING,))
    assert excused == Allowed(state, excused=("SERVE-01",))


# ------------------------------------------------------------------------------------------------------------ refusals

SUBSCRIPTION: Happened = (CreateSubscription("t0", "sub"), Done())
BUSY = Refused("ConsumerBusy", "Exclusive consumer is already connected")


def subscribing(name: str, kind: SubscriptionType, client: Client = "wire") -> Subscribe:
    return Subscribe(name, "t0", "sub", kind=kind, client=client)


def answer(state: Example, operation: AnyOperation, outcome: AnyOutcome) -> str | tuple[str, ...]:
    """The rule that is broken, or those that are exercised."""
    judged = judge(state, operation, outcome)
    return judged.rule if isinstance(judged, Broken) else judged.exercised


@pytest.mark.parametrize(
    ("first", "second", "is_refused"),
    [
        ("Exclusive", "Exclusive", True),
        ("Exclusive", "Shared", True),
        ("Shared", "Exclusive", True),
        ("Shared", "Failover", True),
        ("Key_Shared", "Shared", True),
        ("Shared", "Shared", False),
        ("Failover", "Failover", False),
        ("Key_Shared", "Key_Shared", False),
    ],
)
def test_consumers_that_cannot_share_a_subscription_are_refused_and_no_others(
    first: SubscriptionType, second: SubscriptionType, is_refused: bool
) -> None:
    state = after(CREATED, SUBSCRIPTION, (subscribing("c1", first), Subscribed()))
    right, wrong = (BUSY, Subscribed()) if is_refused else (Subscribed(), BUSY)
    assert "SERVE-05" in answer(state, subscribing("c2", second), right)
    assert answer(state, subscribing("c2", second), wrong) == ("KEY-17" if second == "Key_Shared" else "SERVE-05")


def test_nobody_is_refused_where_nobody_is_connected() -> None:
    assert answer(after(CREATED, SUBSCRIPTION), subscribing("c1", "Exclusive"), BUSY) == "SERVE-05"


def test_a_producers_name_is_busy_while_another_session_has_it() -> None:
    busy = Refused("ProducerBusy", "Producer with name 'p' is already connected")
    again = OpenProducer("s2", "t0", "p")
    state = after(CREATED, OPENED)
    assert "SERVE-05" in answer(state, again, busy)
    assert answer(state, again, Opened(-1)) == "SERVE-05"
    assert answer(state, OpenProducer("s2", "t0", "q"), busy) == "SERVE-01"
    assert answer(after(CREATED, OPENED, (Unload("t0"), Done())), again, busy) == "SERVE-01"


@pytest.mark.parametrize(("lost", "rule"), [("A", None), ("B", "SERVE-05")])
def test_a_lost_cluster_has_no_producers_when_it_is_back(lost: str, rule: str | None) -> None:
    settings = ReplicationSettings(("A", "B"), 100, 2000, 3)
    created = CreateTopic("t0", clusters=2), Created(deduplication=False, snapshot_room=6, replication=settings)
    opened = OpenProducer("s1", "t0", "p", cluster="A"), Opened(-1)
    again = OpenProducer("s2", "t0", "p", cluster="A")
    back = after(created, opened, (LoseCluster(lost), LinkCut(1)), (RecoverCluster(lost), LinkHealed(2)))
    judged = judge(back, again, Opened(-1))
    assert (judged.rule if isinstance(judged, Broken) else None) == rule
    busy = judge(back, again, Refused("ProducerBusy", "Producer with name 'p' is already connected"))
    assert (busy.rule if isinstance(busy, Broken) else None) == (None if rule else "SERVE-01")


def test_a_refusal_that_names_no_reason_breaks_a_rule_unless_writes_fail() -> None:
    not_ready = Refused("ServiceNotReady", "the topic is being loaded")
    again = OpenProducer("s2", "t0", "q")
    assert answer(after(CREATED, OPENED), again, not_ready) == "SERVE-01"
    failing = after(CREATED, OPENED, (SetFailpoint("t0", "write-fails"), Done()))
    assert answer(failing, again, not_ready) != "SERVE-01"


def test_only_a_producer_that_comes_back_after_its_connection_ended_is_never_answered_by_a_deviation() -> None:
    again, abandoned = OpenProducer("s2", "t0", "p"), Abandoned("no answer in 10 s")
    silence = Silence("binary", "OpenProducer of s2", "no answer in 10 s", "t0")
    cut = (CREATED, OPENED, (CrashProducer("s1"), Done()))
    unload: Happened = Unload("t0"), Done()
    assert unexcused(after(*cut), again, abandoned, silence) == "reconnect-never-answered"
    assert met(knowing_all(*cut), again, abandoned, silence) == ("reconnect-never-answered",)
    others: list[tuple[Example, AnyOperation, Silence]] = [
        (knowing_all(CREATED, OPENED, (CloseProducer("s1"), Done())), again, silence),
        (knowing_all(*cut), OpenProducer("s2", "t0", "q"), silence),
        (knowing_all(*cut, unload), again, silence),
        (knowing_all(*cut), Subscribe("c1", "t0", "s0"), replace_struct(silence, request="Subscribe of c1")),
    ]
    for state, operation, missing in others:
        assert unexcused(state, operation, abandoned, missing) is None


def test_a_stack_overflow_is_a_deviation_only_where_a_producer_comes_back_after_its_connection_ended() -> None:
    overflow = Refused("UnknownError", "java.lang.StackOverflowError")
    again = OpenProducer("s2", "t0", "p")
    cut = (CREATED, OPENED, (CrashProducer("s1"), Done()))
    unload: Happened = Unload("t0"), Done()
    assert unexcused(after(*cut), again, overflow) == "reconnect-overflows-stack"
    assert met(knowing_all(*cut), again, overflow) == ("reconnect-overflows-stack",)
    others: list[tuple[Example, AnyOperation, Refused]] = [
        (knowing_all(CREATED, OPENED, (CloseProducer("s1"), Done())), again, overflow),
        (knowing_all(*cut), OpenProducer("s2", "t0", "q"), overflow),
        (knowing_all(*cut), again, Refused("UnknownError", "java.lang.NullPointerException")),
        (knowing_all(*cut, (again, Opened(-1)), (CloseProducer("s2"), Done())), again, overflow),
        (knowing_all(*cut, unload), again, overflow),
        (knowing_all(*cut, (Kill(), Done())), again, overflow),
    ]
    for state, operation, outcome in others:
        assert unexcused(state, operation, outcome) is None


def test_a_subscription_is_created_unless_it_exists_and_deleted_unless_it_is_used() -> None:
    create, delete = CreateSubscription("t0", "sub"), DeleteSubscription("t0", "sub")
    exists, used = Refused("409", "it exists"), Refused("412", "it has connected consumers")
    state = after(CREATED, SUBSCRIPTION)
    assert "SERVE-05" in answer(state, create, exists)
    assert answer(state, create, Done()) == "SERVE-05"
    assert answer(after(CREATED), create, exists) == "SERVE-01"
    assert answer(state, delete, used) == "SERVE-01"
    in_use = after(CREATED, SUBSCRIPTION, (subscribing("c1", "Shared"), Subscribed()))
    assert "SERVE-05" in answer(in_use, delete, used)
    assert answer(in_use, delete, Done()) == "SERVE-05"
    assert answer(in_use, delete, Refused("500", "internal")) == "SERVE-01"


@pytest.mark.parametrize("unsubscribes", [False, True])
def test_a_consumer_that_may_not_have_reconnected_protects_no_subscription(*, unsubscribes: bool) -> None:
    official: Happened = subscribing("c1", "Shared", client="official"), Subscribed()
    another: Happened = subscribing("c2", "Shared"), Subscribed()
    request = Unsubscribe("c2") if unsubscribes else DeleteSubscription("t0", "sub")
    for reloaded, rule in (((), True), (((Unload("t0"), Done()),), False)):
        before = (CREATED, SUBSCRIPTION, official, *reloaded, *((another,) if unsubscribes else ()))
        assert (answer(after(*before), request, Done()) == "SERVE-05") == rule


def test_after_a_load_a_topic_lets_its_clients_in_again() -> None:
    state = after(CREATED, OPENED, (Unload("t0"), Done()))
    assert "SERVE-02" in answer(state, OpenProducer("s1", "t0", "p"), Opened(-1))
    assert "SERVE-02" not in answer(after(CREATED, OPENED), OpenProducer("s2", "t0", "q"), Opened(-1))


def test_only_a_cumulative_ack_below_mark_delete_is_refused_by_a_deviation() -> None:
    marked = Refused("UnknownError", "ManagedCursorImpl$MarkDeletingMarkedPosition: Mark deleting an already ...")
    consumes: Happened = (Subscribe("c1", "t0", "s0", "Failover"), Subscribed())
    cumulative, individual = Acknowledge("c1", (0,), cumulative=True), Acknowledge("c1", (0,))
    unknown, known = after(CREATED, consumes), knowing_all(CREATED, consumes)
    assert unexcused(unknown, cumulative, marked) == "ack-below-mark-delete-refused"
    cut_off = CutDuring(cumulative, CutAfter(40))
    for refused in (cumulative, AckById("c1", ("b1",), cumulative=True), cut_off):
        assert met(known, refused, marked) == ("ack-below-mark-delete-refused",)
    for refused in (individual, AckById("c1", ("b1",)), CutDuring(individual, CutAfter(40))):
        assert unexcused(known, refused, marked) is None
    assert unexcused(known, cumulative, Refused("UnknownError", "IOException")) is None
