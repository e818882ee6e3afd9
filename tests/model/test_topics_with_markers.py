"""A topic at home is judged by the rules of all documents, although clusters write markers into its log."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from model.cluster_events import ReplicatorStalled
from model.cluster_operations import AWAY, HOME
from model.cursors import acked
from model.cursors.acked import Acked
from model.cursors.info import info_of, state_of
from model.cursors.log import TopicLog, appended
from model.events import (
    Acknowledged,
    AllReceived,
    Answer,
    Created,
    CursorRead,
    CursorReset,
    Delivery,
    Done,
    LoggedEntry,
    LogRead,
    MessagePeeked,
    Opened,
    Range,
    Sent,
    SnapshotRead,
    Starved,
    Stored,
    Unknown,
)
from model.judgement import Allowed, Broken
from model.log import EARLIEST, Position
from model.operations import OpenProducer, ReadLog, ReadSnapshot, Send
from model.subscription_operations import (
    Acknowledge,
    CreateSubscription,
    Expire,
    PeekMessage,
    ReadCursor,
    ReceiveAll,
    ResetCursor,
    Skip,
)
from model.vocabulary import Entry, Message
from tests.notation import steps
from tests.verdicts import Happened, allowed_by, broken_by, deviates, exercised, judged

ROOM = 5
MESSAGES_AMONG_MARKERS = st.lists(st.booleans(), max_size=40)
"""Of each entry of a log, whether it is a message."""
THREE = (*steps("t off at-home; p opens -1; p sends 1@0 2@2 3@4"), (CreateSubscription("t", "s"), Done()))
"""Three messages, each after a marker but the first, and a subscription of all of them."""
AT_2 = Delivery(Position(1, 2), -1, 0, "p2")


def log_of(are_messages: Sequence[bool]) -> TopicLog:
    log = TopicLog(ROOM, has_markers=True)
    for position in messages_in(are_messages):
        longer = appended(log, position, (str(position),))
        assert not isinstance(longer, Broken), longer
        log = longer
    return log


def messages_in(are_messages: Sequence[bool]) -> list[Position]:
    return [Position(*divmod(index, ROOM)) for index, is_message in enumerate(are_messages) if is_message]


@given(MESSAGES_AMONG_MARKERS)
def test_a_log_with_markers_is_that_of_its_messages(are_messages: list[bool]) -> None:
    log, messages = log_of(are_messages), messages_in(are_messages)
    assert list(log.all_after(EARLIEST)) == messages
    assert (log.first, log.last) == ((messages[0], messages[-1]) if messages else (EARLIEST, EARLIEST))
    for index, is_message in enumerate(are_messages):
        position = Position(*divmod(index, ROOM))
        later = [message for message in messages if message > position]
        assert (position in log) == is_message
        assert log.after(position) == (later[0] if later else None)
        assert log.count_after(position) == len(later)
        assert log.at_or_before(position) == max((one for one in messages if one <= position), default=EARLIEST)


@given(MESSAGES_AMONG_MARKERS)
def test_markers_are_counted_up_to_the_last_message_of_their_ledger(are_messages: list[bool]) -> None:
    log, messages = log_of(are_messages), messages_in(are_messages)
    last = {message.ledger: message.entry for message in messages}
    markers = [
        position
        for position in (Position(*divmod(index, ROOM)) for index in range(len(are_messages)))
        if position not in messages and position.entry < last.get(position.ledger, -1)
    ]
    for position in (EARLIEST, *markers, *messages):
        assert log.markers_after(position) == len([marker for marker in markers if marker > position])


@given(MESSAGES_AMONG_MARKERS, st.data())
def test_a_state_is_the_same_whether_its_markers_are_acknowledged_or_not(
    are_messages: list[bool], data: st.DataObject
) -> None:
    log, messages = log_of(are_messages), messages_in(are_messages)
    chosen = data.draw(st.permutations(messages).map(lambda some: some[: len(some) // 2]))
    state = Acked()
    for position in chosen:
        state = acked.acknowledge(state, log, position)
    assert set(state.unacknowledged(log)) == set(messages) - set(chosen)
    assert state.count_left(log) == len(messages) - len(chosen)
    assert state_of(info_of(state), log) == state


def test_an_entry_may_not_be_stored_at_the_place_of_another_one() -> None:
    broken = appended(log_of([True, False, True]), Position(0, 2), ("again",))
    assert isinstance(broken, Broken)
    assert broken.rule == "ACK-06"


def test_only_where_clusters_write_markers_may_positions_be_left_out() -> None:
    assert exercised(*steps("t on at-home; p opens -1; p sends 1@0 2@3"))
    assert broken_by(*steps("t on; p opens -1; p sends 1@0 2@3")).rule == "ACK-06"


# ---------------------------------------------------------------------------------------------------------- replication


def replica(*words: str, is_deduplicated: bool = False, has_reconnected: bool = False) -> Happened:
    entries = [LoggedEntry(Position(9, n), "p", Entry((Message(n, word),))) for n, word in enumerate(words)]
    read = LogRead(tuple(entries), is_deduplicated=is_deduplicated, has_reconnected=has_reconnected)
    return ReadLog("t", cluster=AWAY), read


def test_the_other_cluster_has_the_same_messages_in_the_same_order() -> None:
    assert "REPL-01" in exercised(*THREE, replica("p1", "p2", "p3"))


@pytest.mark.parametrize("words", [("p1", "p2"), ("p1", "p3"), ("p1", "p3", "p2"), ("p1", "p2", "p3", "p3"), ()])
def test_a_message_that_the_other_cluster_lacks_or_has_elsewhere_breaks_repl_01(words: tuple[str, ...]) -> None:
    assert broken_by(*THREE, replica(*words)).rule == "REPL-01"


@pytest.mark.parametrize("words", ["p1 p2 p2 p3", "p1 p2 p1 p2 p3", "p1 p2 p3 p3", "p1 p1 p2 p3 p1 p2 p3 p2 p3"])
def test_a_replicator_that_reconnected_may_repeat_what_was_in_flight(words: str) -> None:
    assert "REPL-01" in exercised(*THREE, replica(*words.split(), has_reconnected=True))
    assert broken_by(*THREE, replica(*words.split())).rule == "REPL-01"
    deduplicated = replica(*words.split(), is_deduplicated=True, has_reconnected=True)
    assert broken_by(*THREE, deduplicated).rule == "REPL-01"


@pytest.mark.parametrize(
    "words", ["p1 p2", "p1 p3", "p1 p2 p3 p1", "p1 p2 p1 p3", "p1 p2 p1", "p2 p1 p2 p3", "p1 p2 p3 p4"]
)
def test_but_it_repeats_everything_after_that_and_leaves_out_nothing(words: str) -> None:
    assert broken_by(*THREE, replica(*words.split(), has_reconnected=True)).rule == "REPL-01"


def test_a_message_that_is_twice_at_home_is_twice_in_the_other_cluster() -> None:
    twice = steps("t off at-home; p opens -1; p sends 1@0 1@1 2@2")
    assert "REPL-01" in exercised(*twice, replica("p1", "p1", "p2"))
    assert "REPL-01" in exercised(*twice, replica("p1", "p1", "p1", "p2", has_reconnected=True))
    assert broken_by(*twice, replica("p1", "p2", has_reconnected=True)).rule == "REPL-01"


def test_a_connected_replicator_that_stalls_breaks_repl_01() -> None:
    stalled = (ReadLog("t", cluster=AWAY), ReplicatorStalled("A", AWAY, 31.0, ()))
    assert broken_by(*THREE, stalled).rule == "REPL-01"


def test_as_long_as_an_outcome_is_unknown_the_other_cluster_is_not_judged() -> None:
    unknown = steps("t off at-home; p opens -1; p sends 1@0 2=?")
    assert allowed_by(*unknown, replica("p1", "p2")).excused == ("REPL-01",)


ACKED = Acknowledge("c", (0, 1)), Acknowledged((Delivery(Position(1, 0), -1, 0, "p1"), AT_2), receipt=True)
ACKED_TWO = (*steps("t off at-home; p opens -1; p sends 1@0 2@2 3@4; c subscribes; c gets p1@0 p2@2 p3@4"), ACKED)
"""Three messages, of which the consumer of a subscription acknowledged two."""
REPLICATED = replica("p1", "p2", "p3")


def fails_over(*numbers: int, name: str = "p") -> Happened:
    """A consumer at the other cluster receives these messages."""
    received = tuple(Delivery(Position(9, n - 1), -1, 0, f"{name}{n}") for n in numbers)
    return ReceiveAll("t", "s", "Exclusive", cluster=AWAY), AllReceived(received)


@pytest.mark.parametrize("numbers", [(3,), (2, 3)])
def test_a_consumer_that_fails_over_receives_at_least_what_home_has_not_acknowledged(numbers: tuple[int, ...]) -> None:
    assert "REPL-14" in exercised(*ACKED_TWO, REPLICATED, fails_over(*numbers))
    assert "REPL-14" not in exercised(*ACKED_TWO, REPLICATED, fails_over(1, 2, 3))


@pytest.mark.parametrize("numbers", [(1, 2), (1,)])
def test_if_it_misses_a_message_that_breaks_repl_14(numbers: tuple[int, ...]) -> None:
    broken = broken_by(*ACKED_TWO, REPLICATED, fails_over(*numbers))
    assert (broken.rule, broken.deviation) == ("REPL-14", None)


def test_a_message_that_home_acknowledged_individually_is_not_passed() -> None:
    second = Acknowledge("c", (1,)), Acknowledged((AT_2,), receipt=True)
    history = (*ACKED_TWO[:-1], second, REPLICATED)
    assert broken_by(*history, fails_over(3)).rule == "REPL-14"


def test_a_reset_at_home_does_not_return_what_the_other_cluster_has_acknowledged() -> None:
    reset = ResetCursor("t", "s", None), CursorReset(None)
    assert "REPL-14" in exercised(*ACKED_TWO, reset, REPLICATED, fails_over(3))


def test_it_receives_nothing_that_was_never_published() -> None:
    assert broken_by(*ACKED_TWO, REPLICATED, fails_over(3, 4)).rule == "REPL-01"
    assert broken_by(*ACKED_TWO, REPLICATED, fails_over(3, name="q")).rule == "REPL-01"


def test_messages_that_are_skipped_up_to_the_end_are_explained_by_an_update_that_creates_at_latest() -> None:
    assert deviates("update-creates-at-latest", *ACKED_TWO, REPLICATED, fails_over())
    left_out = broken_by(*ACKED_TWO, REPLICATED, fails_over(1, 2), known="update-creates-at-latest")
    assert (left_out.rule, left_out.deviation) == ("REPL-14", None)


def test_nothing_is_judged_by_a_log_that_has_grown_since_or_has_messages_twice() -> None:
    *before, grown = steps("t off at-home; p opens -1; p sends 1@0 2@2; c subscribes; c gets p1@0 p2@2; p sends 3@4")
    assert allowed_by(*before, ACKED, replica("p1", "p2"), grown, fails_over()).excused == ("REPL-14",)
    twice = replica("p1", "p2", "p2", "p3", has_reconnected=True)
    assert allowed_by(*ACKED_TWO, twice, fails_over()).excused == ("REPL-14",)


# ------------------------------------------------------------------------------------- producers at the other cluster


def remote(*numbers: int, answers: Sequence[Answer] | None = None) -> list[Happened]:
    """A producer at the other cluster opens, and sends these messages, which are stored there."""
    stored = [Stored(Position(8, number)) for number in numbers]
    entries = tuple(Entry((Message(number, f"r{number}"),)) for number in numbers)
    return [
        (OpenProducer("there", "t", "r", cluster=AWAY), Opened(-1)),
        (Send("there", entries), Sent(tuple(answers or stored))),
    ]


def log_of_both(words: str, *, ledger: int = 1, has_reconnected: bool = False) -> LogRead:
    """A log of these messages, each of the producer whose name it begins with; only the first ledger has markers."""
    numbered = enumerate(words.split())
    at = (
        Position(1, 2 * n) if n < 2 and ledger == 1 else Position(ledger + 1, n - 2)
        for n, _ in enumerate(words.split())
    )
    entries = (LoggedEntry(next(at), word[0], Entry((Message(int(word[1:]), word),))) for _, word in numbered)
    return LogRead(tuple(entries), has_reconnected=has_reconnected)


def home(words: str, *, has_reconnected: bool = False) -> Happened:
    """Home is read back once everything is replicated to it."""
    return ReadLog("t", cluster=HOME), log_of_both(words, has_reconnected=has_reconnected)


def away(words: str) -> Happened:
    return ReadLog("t", cluster=AWAY), log_of_both(words, ledger=8)


OFF = steps("t off at-home; p opens -1; p sends 1@0 2@2")
ON = steps("t on at-home; p opens -1; p sends 1@0 2@2")
BOTH = "p1 p2 r1 r2"


def test_home_has_the_messages_of_the_other_cluster_in_their_order() -> None:
    assert "REPL-01" in exercised(*OFF, *remote(1, 2), home(BOTH))
    assert "REPL-01" in exercised(*OFF, *remote(1), home("p1 p2 r1"), *remote(2)[1:], home(BOTH))


@pytest.mark.parametrize("words", ["p1 p2", "p1 p2 r1", "p1 p2 r2", "p1 p2 r2 r1", "p1 p2 r1 r1 r2", "p1 p2 r1 r2 r3"])
def test_a_message_of_the_other_cluster_that_home_lacks_or_has_elsewhere_breaks_repl_01(words: str) -> None:
    assert broken_by(*OFF, *remote(1, 2), home(words)).rule == "REPL-01"


def test_a_later_message_is_looked_for_after_what_had_come_before() -> None:
    *before, read = *OFF, *remote(1), home("p1 p2 r1")
    assert broken_by(*before, read, *remote(2)[1:], home("p1 p2 r1")).rule == "REPL-01"
    assert broken_by(*before, read, *remote(2)[1:], home("p1 p2 r1 r1 r2")).rule == "REPL-01"


def test_only_a_replicator_that_reconnected_repeats_them_and_only_without_deduplication() -> None:
    twice = home("p1 p2 r1 r1 r2", has_reconnected=True)
    assert "REPL-01" in exercised(*OFF, *remote(1, 2), twice)
    assert broken_by(*ON, *remote(1, 2), twice).rule == "REPL-01"


REPLICATOR = "pulsar.repl.B-->A"
CROWDED = LogRead(
    tuple(
        LoggedEntry(position, word[0], Entry((Message(int(word[1:]), word),)))
        for word, position in {
            "p1": Position(1, 0),
            "p2": Position(1, 2),
            "q1": Position(1, 3),
            "s1": Position(1, 4),
            "u1": Position(2, 0),
            "r1": Position(2, 1),
        }.items()
    )
)
"""A log of five producers, one of them at the other cluster."""


@pytest.mark.parametrize(
    "producers",
    [
        {},
        {"r": 1},
        {"r": 2},
        {f"{REPLICATOR}_LID": 8, f"{REPLICATOR}_EID": 1},
        {f"{REPLICATOR}_LID": 8, f"{REPLICATOR}_EID": 2, "r": 2},
    ],
)
def test_a_snapshot_has_of_them_an_id_or_a_position_at_their_source(producers: dict[str, int]) -> None:
    read = ReadSnapshot("t"), SnapshotRead(Position(2, 1), {"p": 2, **producers})
    assert "DEDUP-10" in exercised(*ON, *remote(1, 2), home(BOTH), read)


@pytest.mark.parametrize(
    ("entry", "producers"),
    [
        (1, {"r": 3}),
        (0, {"r": 2}),
        (0, {f"{REPLICATOR}_LID": 8, f"{REPLICATOR}_EID": 2}),
        (1, {f"{REPLICATOR}_LID": 9, f"{REPLICATOR}_EID": 1}),
        (1, {f"{REPLICATOR}_LID": 8}),
    ],
)
def test_but_none_that_is_not_stored_up_to_its_position(entry: int, producers: dict[str, int]) -> None:
    read = ReadSnapshot("t"), SnapshotRead(Position(2, entry), {"p": 2, **producers})
    assert broken_by(*ON, *remote(1, 2), home(BOTH), read).rule == "DEDUP-10"


def test_one_of_the_names_of_a_replicator_may_be_missing_only_if_there_are_more_names_than_a_snapshot_holds() -> None:
    half = {"p": 2, "q": 1, f"{REPLICATOR}_LID": 8}
    others = steps("q opens -1; q sends 1@3; s opens -1; s sends 1@4; u opens -1; u sends 1@2:0")
    history = (*ON, *others, *remote(1), (ReadLog("t", cluster=HOME), CROWDED))
    assert exercised(*history, (ReadSnapshot("t"), SnapshotRead(Position(2, 1), {**half, "s": 1, "u": 1})))
    wrong = {**half, f"{REPLICATOR}_LID": 7, "s": 1, "u": 1}
    assert broken_by(*history, (ReadSnapshot("t"), SnapshotRead(Position(2, 1), wrong))).rule == "DEDUP-10"


def test_the_name_of_a_replicator_is_in_no_snapshot_before_anything_was_replicated() -> None:
    read = ReadSnapshot("t"), SnapshotRead(Position(1, 2), {"p": 2, f"{REPLICATOR}_LID": 8, f"{REPLICATOR}_EID": 1})
    assert broken_by(*ON, read).rule == "DEDUP-10"


def test_its_subscriptions_dispatch_them() -> None:
    subscribed = (*OFF, (CreateSubscription("t", "s"), Done()), *remote(1), home("p1 p2 r1"), *steps("c subscribes"))
    assert exercised(*subscribed, *steps("c gets p1@0 p2@2 r1@2:0"))
    assert broken_by(*subscribed, *steps("c gets p1@0 p2@2 r2@2:0")).deviation is None


def test_until_home_is_read_back_nothing_is_judged_by_its_log() -> None:
    snapshot: Happened = ReadSnapshot("t"), SnapshotRead(Position(2, 0), {"p": 2, "r": 1})
    for log in ("p1 p2", "p1 p2 r1"):
        read: Happened = ReadLog("t"), log_of_both(log)
        assert "REPL-01" in exercised(*ON, *remote(1, 2), snapshot, read, home(BOTH))


def test_a_message_whose_confirmation_is_missing_may_be_there_or_not() -> None:
    unknown = remote(1, 2, answers=[Stored(Position(8, 1)), Unknown("no answer")])
    for log in ("p1 p2 r1", BOTH):
        assert allowed_by(*OFF, *unknown, home(log)).excused == ("REPL-01",)


@pytest.mark.parametrize("words", [BOTH, "r1 r2 p1 p2", "p1 r1 p2 r2", "r1 p1 p2 r2"])
def test_the_other_cluster_has_the_messages_of_both_in_any_order_of_the_two(words: str) -> None:
    assert "REPL-01" in exercised(*OFF, *remote(1, 2), home(BOTH), away(words))


@pytest.mark.parametrize("words", ["r1 r2 p2 p1", "r1 r2 p1", "r2 r1 p1 p2", "r1 p1 p2", "r1 r2 p1 p2 r1"])
def test_but_those_of_one_cluster_in_their_order_and_its_own_once(words: str) -> None:
    assert broken_by(*OFF, *remote(1, 2), home(BOTH), away(words)).rule == "REPL-01"


IN_TURN = "r1 p1 r2 p2"
"""The log of the other cluster."""


def fails_over_to_both(words: str) -> Happened:
    """A consumer at the other cluster receives these messages."""
    at = {one.entry.messages[0].business_id: one.position for one in log_of_both(IN_TURN, ledger=8).entries}
    received = tuple(Delivery(at[word], -1, 0, word) for word in words.split())
    return ReceiveAll("t", "s", "Exclusive", cluster=AWAY), AllReceived(received)


ACKED_ALL_BUT_ONE = (
    *OFF,
    (CreateSubscription("t", "s"), Done()),
    *remote(1, 2),
    home(BOTH),
    *steps("c subscribes; c gets p1@0 p2@2 r1@2:0 r2@2:1"),
    (
        Acknowledge("c", (0, 1, 2)),
        Acknowledged(
            (Delivery(Position(1, 0), -1, 0, "p1"), AT_2, Delivery(Position(2, 0), -1, 0, "r1")), receipt=True
        ),
    ),
    away(IN_TURN),
)


def test_a_consumer_that_fails_over_receives_the_messages_of_both_that_home_has_not_passed() -> None:
    for words in ("r2", "r2 p2", "p1 r2 p2"):
        assert "REPL-14" in exercised(*ACKED_ALL_BUT_ONE, fails_over_to_both(words))
    for words in ("p1 p2", "r1 p1 p2"):
        assert broken_by(*ACKED_ALL_BUT_ONE, fails_over_to_both(words)).rule == "REPL-14"


# ------------------------------------------------------------------------------------------------------------ snapshots


def test_the_name_in_markers_in_a_snapshot_is_a_deviation() -> None:
    reloaded = "t on at-home; p opens -1; p sends 1@0; t unloads; p opens 1; snapshot @2 p=1 pulsar.marker=0"
    assert deviates("marker-producer-in-snapshot", *steps(reloaded))


@pytest.mark.parametrize(
    "history",
    [
        "t on at-home; p opens -1; p sends 1@0; snapshot @2 p=1 pulsar.marker=0",
        "t on at-home; p opens -1; p sends 1@0; t unloads; p opens 1; snapshot @2 p=1 pulsar.marker=5",
        "t on at-home; p opens -1; p sends 1@0; t unloads; p opens 1; snapshot @2 p=1 q=0",
        "t on; p opens -1; p sends 1@0; t unloads; p opens 1; snapshot @2 p=1 pulsar.marker=0",
    ],
)
def test_only_the_name_in_markers_may_be_in_a_snapshot_and_only_after_a_reload(history: str) -> None:
    broken = broken_by(*steps(history), known="marker-producer-in-snapshot")
    assert (broken.rule, broken.deviation) == ("DEDUP-10", None)


# -------------------------------------------------------------------------------------------------------- subscriptions


def reads(backlog: int, *, mark_delete: int = -1, stored_after: int = 7, ranges: tuple[Range, ...] = ()) -> Happened:
    """The stats of the subscription in a log of seven entries: three messages, two markers among them, two after."""
    seen = CursorRead(Position(1, mark_delete), ranges, backlog, 0, stored_after=stored_after)
    return ReadCursor("t", "s"), seen


@pytest.mark.parametrize("markers", [1, 4])
def test_markers_that_nobody_has_read_count_in_the_backlog_by_a_deviation(markers: int) -> None:
    assert deviates("unread-markers-count", *THREE, reads(3 + markers))
    assert allowed_by(*THREE, reads(3)).deviations == ()


@pytest.mark.parametrize("backlog", [2, 8])
def test_the_backlog_has_no_more_than_the_markers_after_mark_delete(backlog: int) -> None:
    broken = broken_by(*THREE, reads(backlog), known="unread-markers-count")
    assert (broken.rule, broken.deviation) == ("SERVE-04", None)


def test_a_reset_may_miscount_markers_that_were_read_until_the_topic_is_reloaded() -> None:
    reset = (*THREE, (ResetCursor("t", "s", None), CursorReset(None)))
    assert deviates("reset-miscounts-backlog", *reset, reads(0))
    reloaded = (*reset, *steps("t unloads"))
    assert broken_by(*reloaded, reads(0), known="reset-miscounts-backlog").deviation is None


EXPIRES_FEWER = Expire("t", "s", "p2"), Starved("1 entry does not expire")


def test_an_expiry_finds_the_first_message_only_where_acknowledged_markers_may_follow_the_last_one() -> None:
    assert deviates("expiry-stops-at-acknowledged", *THREE, EXPIRES_FEWER)
    left = (*THREE, EXPIRES_FEWER, reads(2, mark_delete=1, stored_after=5))
    assert isinstance(judged(*left, known="expiry-stops-at-acknowledged"), Allowed)
    for wrong in (reads(3), reads(1, mark_delete=3, stored_after=3)):
        assert broken_by(*THREE, EXPIRES_FEWER, wrong, known="expiry-stops-at-acknowledged").deviation is None
    without = (*steps("t off; p opens -1; p sends 1@0 2@1"), (CreateSubscription("t", "s"), Done()))
    assert broken_by(*without, EXPIRES_FEWER, known="expiry-stops-at-acknowledged").deviation is None


def test_nothing_is_said_of_an_expiry_up_to_a_message_that_was_never_sent() -> None:
    never = Expire("t", "s", "p9"), Starved("1 entry does not expire")
    assert isinstance(judged(*THREE, never), Allowed)


def peeks(nth: int, position: int | None) -> Happened:
    return PeekMessage("t", "s", nth), MessagePeeked(None if position is None else Position(1, position))


@pytest.mark.parametrize(("nth", "position"), [(2, 1), (3, 2), (4, 3), (5, 4), (6, 5), (7, 6)])
def test_a_peek_counts_unread_markers_by_a_deviation(nth: int, position: int) -> None:
    assert deviates("unread-markers-count", *THREE, peeks(nth, position))


@pytest.mark.parametrize(("nth", "position"), [(1, 1), (1, 2), (2, 3), (3, 0), (2, None), (5, 2)])
def test_a_peek_is_wrong_that_no_number_of_unread_markers_explains(nth: int, position: int | None) -> None:
    assert broken_by(*THREE, peeks(nth, position), known="unread-markers-count").deviation is None


def skips(count: int) -> Happened:
    return Skip("t", "s", count), Done()


def test_a_skip_counts_unread_markers_by_a_deviation() -> None:
    after_two = reads(2, mark_delete=1, stored_after=5)
    assert deviates("unread-markers-count", *THREE, skips(2), after_two)
    assert allowed_by(*THREE, skips(2), reads(1, mark_delete=3, stored_after=3)).deviations == ()


def test_a_skip_of_one_message_too_few_is_found_where_no_marker_is_between() -> None:
    history = (*steps("t off at-home; p opens -1; p sends 1@0 2@1"), (CreateSubscription("t", "s"), Done()))
    after_one = reads(1, mark_delete=0, stored_after=3)
    assert broken_by(*history, skips(2), after_one, known="unread-markers-count").deviation is None


@pytest.mark.parametrize("mark_delete", [2, 3])
def test_mark_delete_passes_the_markers_between_acknowledged_messages(mark_delete: int) -> None:
    acks = (Acknowledge("c", (0, 1)), Acknowledged((Delivery(Position(1, 0), -1, 0, "p1"), AT_2), receipt=True))
    history = (*steps("t off at-home; p opens -1; p sends 1@0 2@2 3@4; c subscribes; c gets p1@0 p2@2 p3@4"), acks)
    assert "ACK-01" in exercised(*history, reads(1, mark_delete=mark_delete, stored_after=6 - mark_delete))
    assert broken_by(*history, reads(2, mark_delete=1, stored_after=5)).rule in {"ACK-01", "ACK-02"}


@pytest.mark.parametrize(("home", "rule"), [(" at-home", None), ("", "ACK-08")])
def test_acks_of_markers_may_have_been_persisted_before_the_first_ack_of_a_message(home: str, rule: str | None) -> None:
    (create, created, *_), *rest = steps(f"t off{home}; p opens -1; p sends 1@0 2@1 3@2; c subscribes; c gets p1@0")
    assert isinstance(created, Created)
    made: Happened = create, replace(created, persisted_per_s=1.0)
    acks: Happened = Acknowledge("c", (0,)), Acknowledged((Delivery(Position(1, 0), -1, 0, "p1"),), receipt=True)
    read: Happened = ReadCursor("t", "s"), CursorRead(Position(1, 0), (), 2, 0, written=6)
    found = judged(made, *rest, acks, read, step_ms=10)
    assert (found.rule if isinstance(found, Broken) else None) == rule
