"""When a delayed message is due, and that it has no place in the order of its key."""

from __future__ import annotations

from functools import partial

import pytest
from msgspec.structs import replace

from model.deviations.key_shared.delayed_waits_for_replay_queue import keeps_queue
from model.events import Created, RedeliveryRequested
from model.judgement import Allowed, Broken
from model.key_shared.liveness import Open, Receiver, due
from model.log import Position
from model.operations import Send
from model.subscription_operations import Nack
from model.vocabulary import Entry, HashRange, LookAhead
from tests.model.key_shared.test_classic import HIGH, LOW, look
from tests.model.key_shared.test_look_ahead import waiting
from tests.model.key_shared.test_order import (
    ALL,
    A,
    B,
    broken,
    classic,
    fails,
    gathers,
    joins,
    message,
    more,
    permits,
    sent,
    share,
)
from tests.model.key_shared.test_stalls import halves
from tests.notation import DELAY_TICK_MS, steps
from tests.verdicts import Happened, broken_by, judged

SENT = "t off; p opens -1; p sends 1+500ms@0 2@1"
"""A delayed message, and one that is not. With 100 ms for each step the first is due at 820 ms, with two ticks."""


def verdict(text: str, *, step_ms: float = 100.0) -> str | None:
    """The rule that a history breaks, if any."""
    return getattr(judged(*steps(text), step_ms=step_ms), "rule", None)


def test_a_delayed_message_is_missed_only_after_its_time() -> None:
    assert verdict(f"{SENT}; c subscribes; c gets-all p2@1") is None
    assert verdict(f"{SENT}; c subscribes; c gets-all p2@1; c gets-all p1@0") is None
    waits = "; ".join(["c gets-all"] * 4)
    assert verdict(f"{SENT}; c subscribes; c gets-all p2@1; {waits}") is None
    assert verdict(f"{SENT}; c subscribes; c gets-all p2@1; {waits}; c gets-all") == "SERVE-03"


def test_a_message_without_a_delay_is_missed_at_once() -> None:
    assert verdict(f"{SENT}; c subscribes; c gets-all p1@0") == "SERVE-03"


def test_early_delivery_breaks_no_rule() -> None:
    assert verdict(f"{SENT}; c subscribes; c gets-all p1@0 p2@1") is None


@pytest.mark.parametrize("begin", [SENT.replace("off", "off at-once"), f"{SENT}; t unloads"])
def test_a_delay_counts_from_the_send_and_only_where_the_broker_has_delays(begin: str) -> None:
    since_then = verdict(f"{begin}; c subscribes; c gets-all p2@1")
    assert since_then == ("SERVE-03" if "at-once" in begin else None)


def test_an_exclusive_consumer_receives_delayed_messages_at_once() -> None:
    assert verdict(f"{SENT}; c subscribes Exclusive; c gets-all p1@0 p2@1") is None
    assert broken_by(*steps(f"{SENT}; c subscribes Exclusive; c gets-all p2@1"), step_ms=100.0).rule == "SERVE-03"


def test_a_message_whose_receipt_was_lost_is_delayed_as_well() -> None:
    lost = "t off; p opens -1; p sends 1+500ms; p crashes ~ p ?; p opens 1; p sends 2@1; log p:1+500ms p:2"
    assert verdict(f"{lost}; c subscribes; c gets-all p2@1") is None
    assert verdict(f"{lost}; c subscribes; c gets-all p2@1", step_ms=200.0) == "SERVE-03"


def test_history_without_times_expects_no_delayed_message() -> None:
    assert not hasattr(judged(*steps(f"{SENT}; c subscribes; c gets-all p2@1; c gets-all; c gets-all")), "rule")


# ---------------------------------------------------------------------------------------------------------- Key_Shared


def delayed(begin: list[Happened], *, number: int = 1) -> list[Happened]:
    """The same topic, with a delay of this message."""
    (create, created), *others, (send, outcome) = (one[:2] for one in begin)
    assert isinstance(created, Created)
    assert isinstance(send, Send)
    late = replace(send.entries[number - 1].messages[0], delay_ms=500)
    entries = (*send.entries[: number - 1], Entry((late,)), *send.entries[number:])
    return [
        (create, replace(created, delay_tick_ms=DELAY_TICK_MS)),
        *others,
        (replace(send, entries=entries), outcome),
    ]


def test_a_delayed_message_is_not_due_before_its_time_and_blocks_no_later_one_of_its_key() -> None:
    receivers = [Receiver("c", 1, (HashRange(0, 65535),))]
    entries = [Open(Position(1, 0), 7, None, is_not_due=True), Open(Position(1, 1), 7, None)]
    assert due(entries, receivers) == {Position(1, 1): "c"}
    assert due(entries, receivers, look_ahead=LookAhead(1, 0)) == {}, "it may be in the replay queue"
    assert due([Open(Position(1, 0), 7, None), entries[1]], receivers) == {Position(1, 0): "c"}


def test_a_delayed_message_has_no_place_in_the_order_of_its_key() -> None:
    in_time = [*delayed(sent(A, A, B)), *joins("c", "d"), permits("c"), permits("d")]
    overtaken = gathers(share("c", 2, ranges=ALL), share("d"))
    assert broken(*in_time, overtaken) is None
    assert broken(*sent(A, A, B), *joins("c", "d"), permits("c"), permits("d"), overtaken) == "KEY-02"
    late = gathers(share("c", 1, ranges=ALL), share("d"))
    assert broken(*in_time, overtaken, late) is None
    assert broken(*delayed(sent(A, A, B), number=2), *joins("c", "d"), permits("c"), permits("d"), overtaken) is None


def test_a_delayed_message_may_be_on_its_way_when_all_messages_are_requested_again() -> None:
    nack_all: Happened = (Nack("c", None), RedeliveryRequested((message(2),)))
    came = [*joins("c"), permits("c"), gathers(share("c", 2, permits=9))]
    twice = gathers(share("c", 1, 1, 2, again=True))
    assert broken(*delayed(sent(A, B)), *came, nack_all, twice) is None
    assert broken(*sent(A, B), *came, nack_all, twice) is not None


def test_a_delayed_message_is_replayed_so_it_may_come_twice_beside_new_messages_only_if_that_is_known() -> None:
    known = "send-in-progress-cleared-early"
    joined, nothing = joins("c"), gathers(share("c"))
    begin = [*delayed(sent(A)), more(Position(1, 1), 2, B)]
    news = [*begin[:-2], *joined, nothing, *begin[-2:]]
    twice = gathers(share("c", 1, 1, 2))
    assert broken(*news, twice) == "ACK-12"
    assert broken(*news, twice, known=known) is None
    assert broken(*news, gathers(share("c", 1, 2, 2)), known=known) == "ACK-12", "it is a new message"
    assert broken(*begin, *joined, gathers(share("c", 2)), twice, known=known) == "ACK-12", "there are no new messages"


@pytest.mark.parametrize("is_waiting", [True, False])
def test_a_message_without_a_consumer_keeps_delayed_messages_waiting_although_the_broker_reads(
    *, is_waiting: bool
) -> None:
    """Of two entries, the second one is delayed, and has a consumer with permits."""
    late = Position(1, 1)

    def is_stalled(first: HashRange, permits: int) -> bool:
        receivers = [Receiver("c", 1, (HashRange(20, 30),)), Receiver("d", permits, (first,))]
        entries = [Open(Position(1, 0), 7, None), Open(late, 25, None)]
        return keeps_queue(entries, receivers, {}, is_waiting=is_waiting)

    assert is_stalled(HashRange(40, 50), 0), "nobody claims the first one"
    assert is_stalled(HashRange(0, 10), 0) == is_waiting, "it waits for permits"
    assert not is_stalled(HashRange(0, 10), 1), "it does not wait"


def test_a_message_of_a_recently_joined_consumer_keeps_delayed_messages_waiting() -> None:
    """It waits until mark-delete passes what was read before, the delayed messages included."""
    late, receivers = Position(1, 0), [Receiver("c", 1, (HashRange(20, 30),)), Receiver("d", 9, (HashRange(0, 10),))]
    entries = [Open(late, 25, None), Open(Position(1, 1), 7, None)]
    for recent, is_stalled in (({"d": late}, True), ({"d": Position(1, 1)}, False), ({"c": late}, False), ({}, False)):
        assert keeps_queue(entries, receivers, recent, is_waiting=False) == is_stalled
    early = [Open(late, 25, None), Open(Position(1, 1), 7, None, is_not_due=True)]
    for is_waiting in (False, True):
        is_stalled = keeps_queue(early, receivers, {"d": late}, is_waiting=is_waiting)
        assert is_stalled != is_waiting, "the broker reads it again and again before its time has come"


def test_while_a_consumer_is_recently_joined_messages_without_permits_are_replayed_instead_of_delayed_ones() -> None:
    """Seen on 2.11.0: the broker did not wait, and the delayed message of the new consumer was not dispatched."""
    late, receivers = Position(1, 0), [Receiver("c", 1, (HashRange(20, 30),)), Receiver("d", 0, (HashRange(0, 10),))]
    entries = [Open(late, 25, None), Open(Position(1, 1), 7, None)]
    for recent, is_stalled in (({"c": Position(1, 1)}, True), ({}, False)):
        assert keeps_queue(entries, receivers, recent, is_waiting=False) == is_stalled
    alone = keeps_queue(entries[:1], receivers, {"c": Position(1, 1)}, is_waiting=False)
    assert not alone, "the replay queue is empty"


def test_a_blocked_delayed_message_may_make_the_dispatcher_look_ahead() -> None:
    """The replay queue has no hash of it, so the broker reads it, dispatches nothing and skips the next replay."""
    known = "look-ahead-skips-replay"
    begin = [*delayed(sent(LOW, HIGH)), *joins("c", "d"), permits("d"), waiting(halves(0, 9, d=(2,)), in_replay=0)]
    begin += [more(Position(1, 2), 3, HIGH), waiting(halves(0, 8, d=(3,))), fails("d", 3)]
    stalled = waiting(halves(0, 8), in_replay=1)
    late = partial(judged, *begin, step_ms=200.0)
    answer = late(stalled)
    assert isinstance(answer, Broken)
    assert answer.deviation == known
    assert isinstance(late(stalled, known=known), Allowed)
    assert isinstance(late(halves(0, 8), known=known), Broken), "the broker does not wait"
    plain = judged(*sent(LOW, HIGH), *begin[4:], stalled, step_ms=200.0, known=known)
    assert isinstance(plain, Broken), "the blocked message has no delay"


def test_a_delayed_message_waits_for_the_replay_queue_only_while_that_has_messages() -> None:
    """Old releases look at the tracker of delayed messages only if the replay queue is empty."""
    known = "delayed-waits-for-replay-queue"
    begin = [*delayed(classic(LOW, LOW, HIGH), number=3), *joins("c", "d")]
    stalled, first = waiting(look(permits=(0, 9))), waiting(look(c=(1,), permits=(0, 9)))
    late = partial(judged, *begin, first, step_ms=200.0)
    assert isinstance(late(), Allowed), "its time has not come"
    answer = late(stalled, stalled)
    assert isinstance(answer, Broken)
    assert (answer.rule, answer.deviation) == ("KEY-16", known)
    assert isinstance(late(stalled, stalled, known=known), Allowed)
    assert isinstance(late(stalled, look(permits=(0, 9)), known=known), Broken), "the broker does not wait"
    emptied = (permits("c"), waiting(look(c=(2,), permits=(0, 9))), stalled)
    assert isinstance(late(*emptied, known=known), Broken), "the replay queue is empty"
    again = (waiting(look(d=(3,), permits=(0, 9))), fails("d", 3), stalled)
    assert isinstance(late(*again, known=known), Broken), "it was delivered before"
    plain = judged(*classic(LOW, LOW, HIGH), *joins("c", "d"), first, step_ms=200.0, known=known)
    assert isinstance(plain, Broken), "it has no delay"
