"""The internal errors that releases answer with by known deviations (SERVE-01), each only where its cause is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec.structs import replace as replace_struct

from model.deviations import EXPLANATIONS
from model.events import (
    Abandoned,
    Acknowledged,
    Created,
    CursorReset,
    Delivery,
    Done,
    ReceivedMessages,
    Refused,
    Sent,
    Stored,
    Subscribed,
    Terminated,
    Trimmed,
)
from model.example import Example
from model.log import Position
from model.operations import (
    AnyOperation,
    CreateTopic,
    ReadSnapshot,
    Send,
    SetDeduplication,
    Terminate,
    Trim,
    Unload,
)
from model.reader_operations import OpenReader
from model.service.unexpected import ANSWERED, ErrorAnswer, Silence
from model.subscription_operations import (
    Acknowledge,
    CloseConsumer,
    CreateSubscription,
    Expire,
    PeekMessage,
    Permit,
    ReadCursor,
    Receive,
    ResetCursor,
    Seek,
    Skip,
    Subscribe,
    Unsubscribe,
)
from model.vocabulary import Entry, Message, SubscriptionId
from tests.model.service.test_reasons import (
    CREATED,
    OPENED,
    STATS_FAIL,
    SUBSCRIPTION,
    Happened,
    after,
    knowing_all,
    met,
    unexcused,
)
from tests.verdicts import deviation_of


def test_a_missing_current_ledger_fails_requests_of_a_terminated_topic_only() -> None:
    terminated: Happened = Terminate("t0"), Done()
    unload: Happened = Unload("t0"), Done()
    history = (CREATED, OPENED, SUBSCRIPTION, terminated, unload)
    no_ledger = replace_struct(STATS_FAIL, message='LedgerHandle.getId() because "this.currentLedger" is null')
    read, given_up = ReadCursor("t0", "s0"), Abandoned("500")
    assert unexcused(after(*history), read, given_up, no_ledger) == "terminated-topic-without-current-ledger"
    assert met(knowing_all(*history), read, given_up, no_ledger) == ("terminated-topic-without-current-ledger",)
    others: list[tuple[Example, ErrorAnswer]] = [
        (knowing_all(CREATED, OPENED, terminated), no_ledger),
        (knowing_all(CREATED, OPENED, unload), no_ledger),
        (knowing_all(*history), replace_struct(no_ledger, topic="t1")),
        (knowing_all(*history), replace_struct(no_ledger, message="another reason")),
    ]
    for state, error in others:
        assert unexcused(state, read, given_up, error) is None
    of_message = replace_struct(
        no_ledger, request="GET subscription/s0/position/1 of topic t0", message='because "currentLedger" is null'
    )
    peek, refused = PeekMessage("t0", "s0", 1), Refused("500", "--- An unexpected error occurred in the server ---")
    known = frozenset({"terminated-topic-without-current-ledger"})
    knowing = replace(after(*history), known=known)
    of_expiry = replace_struct(of_message, request="POST subscription/s0/expireMessages of topic t0")
    busy = Refused("409", "Expire message by position not issued")
    assert met(knowing, Expire("t0", "s0", "b1"), busy, of_expiry) == ("terminated-topic-without-current-ledger",)
    reset, of_reset = ResetCursor("t0", "s0", None, by_time=True), "POST subscription/s0/resetcursor/0 of topic t0"
    for error in (
        replace_struct(of_message, request=of_reset),
        replace_struct(of_message, request=of_reset, message="null"),
    ):
        assert met(knowing, reset, refused, error) == ("terminated-topic-without-current-ledger",) * 2
    assert unexcused(knowing, reset, refused, replace_struct(of_message, request=of_reset, message="no")) is None
    assert met(knowing, peek, refused, of_message) == ("terminated-topic-without-current-ledger",) * 2
    assert (
        unexcused(replace(after(CREATED, OPENED, SUBSCRIPTION, unload), known=known), peek, refused, of_message) is None
    )


def test_a_missing_current_ledger_fails_a_skip_only_in_a_terminated_topic_without_entries() -> None:
    terminated, unload = (Terminate("t0"), Done()), (Unload("t0"), Done())
    history: tuple[Happened, ...] = (CREATED, OPENED, SUBSCRIPTION, terminated, unload)
    skip, refused = Skip("t0", "s0", 8), Refused("500", "--- An unexpected error occurred in the server ---")
    error = ErrorAnswer("admin", "POST subscription/s0/skip/8 of topic t0", "500", "null", "t0", is_last=False)
    name = "terminated-topic-without-current-ledger"
    assert unexcused(after(*history), skip, refused, error) == name
    assert met(replace(after(*history), known=frozenset({name})), skip, refused, error) == (name, name)
    sent: Happened = Send("s1", (Entry((Message(1, "b1"),)),)), Sent((Stored(Position(1, 0)),))
    with_an_entry = (CREATED, OPENED, SUBSCRIPTION, sent, terminated, unload)
    for state in (knowing_all(*with_an_entry), knowing_all(*history[:-1]), knowing_all(*history[:3], unload)):
        assert unexcused(state, skip, refused, error) is None
    assert unexcused(knowing_all(*history), skip, refused, replace_struct(error, message="another reason")) is None


def test_a_skip_fails_only_in_a_topic_without_entries_in_its_current_ledger() -> None:
    name, skip = "skip-of-empty-topic-fails", Skip("t0", "s0", 4)
    why = "ManagedLedgerException: Invalid mark deleted position"
    refused, other = Refused("500", f"An unexpected error: {why}"), Refused("500", "An unexpected error")
    error = ErrorAnswer("admin", "POST subscription/s0/skip/4 of topic t0", "500", why, "t0", is_last=False)
    empty = (CREATED, OPENED, SUBSCRIPTION)
    assert unexcused(after(*empty), skip, refused, error) == name
    assert met(replace(after(*empty), known=frozenset({name})), skip, refused, error) == (name, name)
    sent: Happened = Send("s1", (Entry((Message(1, "b1"),)),)), Sent((Stored(Position(1, 0)),))
    assert unexcused(knowing_all(*empty, sent), skip, refused, error) is None
    assert unexcused(knowing_all(*empty), skip, other) is None
    reloaded = (*empty, sent, (Unload("t0"), Done()), OPENED)
    assert met(knowing_all(*reloaded), skip, refused, error) == (name, name)
    more: Happened = Send("s1", (Entry((Message(2, "b2"),)),)), Sent((Stored(Position(2, 0)),))
    assert unexcused(knowing_all(*reloaded, more), skip, refused, error) is None


def test_topic_policies_may_load_late_only_while_the_topic_is_loaded() -> None:
    name, switch = "topic-policies-load-late", SetDeduplication("t0", "topic", on=True)
    error = ErrorAnswer("admin", "POST deduplicationEnabled of topic t0", "412", "Policies cache have not init", "t0")
    assert unexcused(after(CREATED), switch, Abandoned("412"), error) == name
    assert met(knowing_all(CREATED), switch, Abandoned("412"), error) == (name,)
    assert unexcused(knowing_all(CREATED, OPENED), switch, Abandoned("412"), error) is None
    other = replace_struct(error, message="another reason")
    assert unexcused(knowing_all(CREATED), switch, Abandoned("412"), other) is None


def test_stats_fail_only_where_a_recently_joined_consumer_may_change() -> None:
    def joined(*names: str, draining: bool) -> tuple[Happened, ...]:
        created = Created(deduplication=False, snapshot_room=6, has_draining_hashes=draining)
        steps: list[Happened] = [(CREATED[0], created), SUBSCRIPTION]
        for name in names:
            steps += [(Subscribe(name, "t0", "s0", "Key_Shared"), Subscribed()), (Permit(name, 5), Done())]
        return tuple(steps)

    name, close = "stats-race-with-recently-joined", CloseConsumer("c2")
    error = replace_struct(STATS_FAIL, message="null")
    both = joined("c1", "c2", draining=False)
    assert unexcused(after(*both), close, Done(), error) == name
    assert met(replace(after(*both), known=frozenset({name})), close, Done(), error) == (name,)
    for others in (joined("c2", draining=False), joined("c1", "c2", draining=True)):
        assert unexcused(knowing_all(*others), close, Done(), error) is None
    assert unexcused(knowing_all(*both), close, Done(), replace_struct(error, message="not ready")) is None


def test_only_the_last_message_id_of_a_topic_without_entries_is_answered_twice_by_a_deviation() -> None:
    name, read = "last-message-id-answered-twice", ReadSnapshot("t0")
    why = "Failed to get batch size for entry org.apache.bookkeeper.mledger.ManagedLedgerException"
    error = ErrorAnswer("binary", f"the last message id of topic t0 {ANSWERED}", "MetadataError", why, "t0")
    empty = (CREATED, OPENED, SUBSCRIPTION)
    assert unexcused(after(*empty), read, Done(), error) == name
    assert met(replace(after(*empty), known=frozenset({name})), read, Done(), error) == (name,)
    sent: Happened = Send("s1", (Entry((Message(1, "b1"),)),)), Sent((Stored(Position(1, 0)),))
    assert unexcused(knowing_all(*empty, sent), read, Done(), error) is None
    first = replace_struct(error, request="the last message id of topic t0")
    other = replace_struct(error, request=f"a seek {ANSWERED}", message="not ready")
    for wrong in (first, other):
        assert unexcused(knowing_all(*empty), read, Done(), wrong) is None


def test_only_a_skip_of_a_topic_that_was_terminated_and_reloaded_is_not_answered_by_a_deviation() -> None:
    terminated, unload = (Terminate("t0"), Done()), (Unload("t0"), Done())
    history: tuple[Happened, ...] = (CREATED, OPENED, SUBSCRIPTION, terminated, unload)
    skip, given_up = Skip("t0", "s0", 8), Abandoned("no answer")
    silence = Silence("admin", "Skip", "POST subscription/s0/skip/8 does not answer", "t0")
    assert unexcused(after(*history), skip, given_up, silence) == "skip-past-terminated-end-loops"
    assert met(knowing_all(*history), skip, given_up, silence) == ("skip-past-terminated-end-loops",)
    for state in (knowing_all(*history[:-1]), knowing_all(CREATED, OPENED, SUBSCRIPTION, unload)):
        assert unexcused(state, skip, given_up, silence) is None
    for other in (replace_struct(silence, topic="t1"), replace_struct(silence, request="ReadCursor")):
        assert unexcused(knowing_all(*history), skip, given_up, other) is None


@pytest.mark.parametrize(
    ("operation", "request_sent"),
    [
        (PeekMessage("t0", "s0", 1), "GET subscription/s0/position/1"),
        (ResetCursor("t0", "s0", "b8", by_time=True), "POST subscription/s2/resetcursor/1795816106224"),
    ],
    ids=["peek", "reset to a time"],
)
def test_looking_for_an_entry_fails_only_on_a_terminated_topic_that_was_reloaded(
    operation: AnyOperation, request_sent: str
) -> None:
    terminated, unload = (Terminate("t0"), Done()), (Unload("t0"), Done())
    history: tuple[Happened, ...] = (CREATED, OPENED, SUBSCRIPTION, terminated, unload)
    peek, why = operation, "Incorrect parameter input error code: -14"
    refused = Refused("500", "--- An unexpected error occurred in the server ---")
    answer = ErrorAnswer("admin", f"{request_sent} of topic t0", "500", why, "t0", is_last=False)
    assert deviation_of(after(*history), peek, refused, answer) == "terminated-last-ledger-not-skipped"
    assert set(met(knowing_all(*history), peek, refused, answer)) == {"terminated-last-ledger-not-skipped"}
    for state in (knowing_all(*history[:-1]), knowing_all(CREATED, OPENED, SUBSCRIPTION, unload)):
        assert deviation_of(state, peek, refused, answer) is None
    another = replace_struct(answer, message="another reason")
    assert deviation_of(knowing_all(*history), peek, refused, another) is None


def test_a_seek_to_a_time_fails_only_on_a_terminated_topic_that_was_reloaded() -> None:
    history: tuple[Happened, ...] = (CREATED, OPENED, SUBSCRIPTION, (Terminate("t0"), Done()), (Unload("t0"), Done()))
    joined: Happened = (Subscribe("c", "t0", "s0", kind="Exclusive"), Subscribed())
    seek, why = Seek("c", "b8", by_time=True), "Reset subscription to publish time error: Incorrect parameter input"
    refused = Refused("UnknownError", why)
    assert unexcused(after(*history, joined), seek, refused) == "terminated-last-ledger-not-skipped"
    assert "terminated-last-ledger-not-skipped" in met(knowing_all(*history, joined), seek, refused)
    assert unexcused(knowing_all(*history[:-1], joined), seek, refused) is None, "it was not reloaded"
    assert unexcused(knowing_all(*history, joined), replace_struct(seek, by_time=False), refused) is None
    assert unexcused(knowing_all(*history, joined), seek, Refused("UnknownError", "another reason")) is None


def test_only_a_new_topic_may_be_unknown_to_one_of_several_brokers() -> None:
    set_policy, late = SetDeduplication("t0", "topic", on=True), Abandoned("refused")
    request = "POST deduplicationEnabled of topic t0"
    unknown = ErrorAnswer("admin", request, "404", "Topic topic t0 not found", "t0", is_of_several=True)
    new, used = knowing_all(CREATED), knowing_all(CREATED, OPENED)
    assert met(new, set_policy, late, unknown) == ("new-topic-unknown-to-other-broker",)
    assert unexcused(after(CREATED), set_policy, late, unknown) == "new-topic-unknown-to-other-broker"
    assert unexcused(used, set_policy, late, unknown) is None
    assert unexcused(new, set_policy, late, replace_struct(unknown, is_of_several=False)) is None
    assert unexcused(new, set_policy, late, replace_struct(unknown, code="500")) is None


def test_new_subscriptions_are_refused_only_on_a_terminated_topic_without_messages() -> None:
    terminated, unload = (Terminate("t0"), Done()), (Unload("t0"), Done())
    empty: tuple[Happened, ...] = (CREATED, OPENED, terminated, unload)
    sent: Happened = Send("s1", (Entry((Message(1, "b1"),)),)), Sent((Stored(Position(1, 0)),))
    name = "terminated-empty-topic-refuses-subscriptions"
    subscribe, refused, given_up = (
        Subscribe("c1", "t0", "s1", kind="Shared"),
        Refused("UnknownError", ""),
        Abandoned(""),
    )
    silences: tuple[tuple[AnyOperation, Silence], ...] = (
        (subscribe, Silence("binary", "Subscribe of c1", "no answer in time", "t0")),
        (CreateSubscription("t0", "s1"), Silence("admin", "CreateSubscription", "no answer in time", "t0")),
    )
    assert deviation_of(after(*empty), subscribe, refused) == name
    assert met(knowing_all(*empty), subscribe, refused) == (name,)
    for operation, silence in silences:
        assert met(knowing_all(*empty), operation, given_up, silence) == (name,)
    not_reloaded = (CREATED, OPENED, terminated)
    for history in ((CREATED, OPENED, sent, terminated, unload), (CREATED, OPENED, unload), not_reloaded):
        assert deviation_of(knowing_all(*history), subscribe, refused) is None
        for operation, silence in silences:
            assert unexcused(knowing_all(*history), operation, given_up, silence) is None
    another = replace_struct(refused, message="another reason")
    assert deviation_of(knowing_all(*empty), subscribe, another) is None


@pytest.mark.parametrize(
    ("is_trimmed", "acknowledged", "end", "is_explained"),
    [
        (True, True, Position(2, -1), True),
        (False, True, Position(2, -1), False),
        (True, False, Position(2, -1), False),
        (True, True, Position(1, 0), False),
    ],
)
def test_readers_are_refused_where_no_message_was_kept_when_a_topic_was_terminated_at_an_empty_ledger(
    is_trimmed: bool, acknowledged: bool, end: Position, is_explained: bool
) -> None:
    created = CreateTopic("t0", persistence="every-ack", is_trimmed=is_trimmed)
    history: list[Happened] = [
        (created, Created(deduplication=False, snapshot_room=6)),
        OPENED,
        (CreateSubscription("t0", "s0", "earliest"), Done()),
        (Send("s1", (Entry((Message(1, "b1"),)),)), Sent((Stored(Position(1, 0)),))),
        (Skip("t0", "s0", 1 if acknowledged else 0), Done()),
        (Unload("t0"), Done()),
        (Terminate("t0"), Terminated(end)),
        (Unload("t0"), Done()),
    ]
    name = "terminated-empty-topic-refuses-subscriptions"
    opens = OpenReader("r", "t0", "earliest"), Refused("UnknownError", "")
    assert deviation_of(after(*history), *opens) == (name if is_explained else None)
    if is_explained:
        assert met(knowing_all(*history), *opens) == (name,)


def test_a_skip_fails_only_on_a_terminated_topic_whose_ledgers_were_all_deleted() -> None:
    terminated, unload = (Terminate("t0"), Done()), (Unload("t0"), Done())
    sent: Happened = Send("s1", (Entry((Message(1, "b1"),)),)), Sent((Stored(Position(1, 0)),))
    trimmed, not_trimmed = (Trim("t0"), Trimmed(())), (Trim("t0"), Trimmed((1,)))
    skip, failed = Skip("t0", "s0", 5), Refused("500", "--- An unexpected error occurred in the server ---")
    answer = ErrorAnswer("admin", "POST subscription/s0/skip/5 of topic t0", "500", "null", "t0", is_last=False)
    name, before = "skip-after-all-trimmed-fails", (CREATED, OPENED, sent)
    failing = (*before, terminated, trimmed, unload)
    assert set(met(replace(after(*failing), known=frozenset({name})), skip, failed, answer)) == {name}
    assert deviation_of(after(*failing), skip, failed) == name
    for history in (
        (*before, terminated, not_trimmed, unload),
        (*before, trimmed, unload),
        (*before, terminated, trimmed),
        (CREATED, OPENED, terminated, trimmed, unload),
    ):
        assert unexcused(replace(after(*history), known=frozenset({name})), skip, failed, answer) != name
        assert deviation_of(replace(after(*history), known=frozenset({name})), skip, failed) != name


@pytest.mark.parametrize(
    ("to", "by_time", "reloads", "may_deviate"),
    [("b3", True, True, True), ("b3", False, True, False), ("b3", True, False, False), ("b1", True, True, False)],
)
def test_only_a_reset_to_a_time_in_the_last_ledger_of_a_terminated_topic_goes_to_its_first_message(
    to: str, by_time: bool, reloads: bool, may_deviate: bool
) -> None:
    at = {"b1": Position(1, 0), "b2": Position(2, 0), "b3": Position(2, 1)}
    entries = tuple(Entry((Message(number, name),)) for number, name in enumerate(at, 1))
    sent: Happened = Send("s1", entries), Sent(tuple(Stored(position) for position in at.values()))
    ending: list[Happened] = [(Terminate("t0"), Done()), (Unload("t0"), Done())]
    reset: Happened = ResetCursor("t0", "sub", to, by_time=by_time), CursorReset(at[to])
    state = after(CREATED, OPENED, SUBSCRIPTION, sent, *(ending if reloads else ending[:1]), reset)
    alternatives = EXPLANATIONS["terminated-last-ledger-not-skipped"].alternatives
    assert alternatives is not None
    assert state.past is not None
    others = [one.consumption.cursors[SubscriptionId("t0", "sub")] for one in alternatives(state, state.past.step)]
    early = [one.mark_delete for other in others for one in other.possible]
    assert early == ([at["b1"]] if may_deviate else [])


@pytest.mark.parametrize(("has_receipt", "is_explained"), [(False, True), (True, False)])
def test_only_a_subscription_deleted_at_its_first_acks_may_not_be_created_again(
    has_receipt: bool, is_explained: bool
) -> None:
    entry = Entry((Message(1, "b1"),))
    received = Delivery(Position(1, 0), business_id="b1")
    history: tuple[Happened, ...] = (
        CREATED,
        OPENED,
        (Send("s1", (entry,)), Sent((Stored(Position(1, 0)),))),
        (Subscribe("c1", "t0", "sub", kind="Exclusive", start="earliest"), Subscribed()),
        (Receive("c1", 1), ReceivedMessages((received,), settled=True)),
        (Acknowledge("c1", (0,)), Acknowledged((received,), receipt=has_receipt)),
        (Unsubscribe("c1"), Done()),
    )
    create = CreateSubscription("t0", "sub", "earliest")
    refused = Refused("412", "Unable to find position …: unable to persist readPosition for cursor reset 1:-1")
    name = "deleted-cursor-updates-metadata"
    assert unexcused(after(*history), create, refused) == (name if is_explained else None)
    if is_explained:
        assert met(knowing_all(*history), create, refused) == (name,)
        assert unexcused(knowing_all(*history), create, replace_struct(refused, message="another reason")) is None
