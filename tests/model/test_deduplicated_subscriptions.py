"""Topics with deduplication follow the rules of subscriptions as far as the answers show what is stored."""

from __future__ import annotations

import random

import pytest

from conformance.lockstep.lockstep import Lockstep
from model.events import AllReceived, CursorRead, Delivery, Done, ReceivedMessages, Refused, Subscribed
from model.example import Example
from model.judgement import Allowed, Broken
from model.log import Position
from model.operations import CreateTopic, OpenProducer, Send
from model.subscription_operations import CreateSubscription, ReadCursor, Receive, ReceiveAll, SkipAll, Subscribe
from model.vocabulary import Entry, Message
from tests.lockstep.simulated.world import SimulatedPerformer
from tests.notation import steps
from tests.verdicts import Happened, broken_by, judged

OTHERS = "q opens -1; q sends 1-2@1"
"""Another producer's entry, which is stored behind all that was written before it."""
CRASHED = "p sends 1; p crashes ~ p ?"


def rule_broken(history: str) -> str | None:
    """The rule that is broken by what happened to a topic that has a producer."""
    answer = judged(*steps(f"t on; p opens -1; {history}"))
    return answer.rule if isinstance(answer, Broken) else None


def test_a_duplicate_is_not_stored_so_the_next_entry_has_the_next_position() -> None:
    assert rule_broken("p sends 1@0 1=dup; p sends 2@1; c subscribes; c gets p1@0") is None
    assert rule_broken("p sends 1@0 1=dup; p sends 2@2; c subscribes; c gets p1@0") == "ACK-06"


def test_an_entry_refused_while_no_write_fails_is_not_stored() -> None:
    assert rule_broken("p sends 1@0 1=UnknownStatus; c subscribes; c gets p2@1") == "ACK-06"


@pytest.mark.parametrize(("code", "rule"), [("UnknownStatus", "ACK-06"), ("PersistenceError", None)])
def test_while_writes_may_fail_only_an_entry_of_unknown_status_is_surely_not_stored(
    code: str, rule: str | None
) -> None:
    history = f"c subscribes; t fails-late; p sends 1@0 1={code}; t cleared"
    assert rule_broken(f"{history}; c gets p1@0 p1@1") == rule


def test_a_message_that_was_never_stored_is_not_delivered() -> None:
    assert rule_broken("p sends 1@0; c subscribes; c gets p2@0") == "ACK-06"


def test_chunks_of_one_message_are_in_the_log_in_their_order_though_they_share_a_sequence_id() -> None:
    assert rule_broken("p sends 1a0@0 1a1@1 1a2@2; c subscribes; c gets p1@3") == "ACK-06"
    again = "p sends 1a0=dup 1a1=dup 1a2=dup"
    assert rule_broken(f"p sends 1a0@0 1a1@1 1a2@2; {again}; c subscribes; c gets p1@3") == "ACK-06"


def test_but_not_if_it_is_unknown_which_of_them_are_stored() -> None:
    deviates = {"chunk-only-last-deduplicated"}
    again = "p sends 1a0@0 1a1@1 1a2@2; p sends 1a0@3 1a1@4 1a2=dup; c subscribes; c gets p1@2:3"
    assert isinstance(judged(*steps(f"t on; p opens -1; {again}"), known=deviates), Allowed)


def test_a_log_is_unknown_if_different_entries_in_flight_share_a_sequence_id() -> None:
    assert rule_broken("p sends 1@0 1-2=UnknownStatus; c subscribes; c gets p2@0") is None


def test_nothing_is_said_of_subscriptions_while_a_write_may_be_in_flight() -> None:
    assert rule_broken(f"c subscribes; {CRASHED}; c gets p1@3") is None


def test_a_log_that_was_read_back_is_known_again() -> None:
    settled = f"c subscribes; {CRASHED}; p opens 1; {OTHERS}; log p:1 q:1-2"
    assert rule_broken(f"{settled}; c gets p1@0") is None
    assert rule_broken(f"{settled}; c gets p1@3") == "ACK-06"


@pytest.mark.parametrize("happened", [CRASHED, f"{CRASHED}; p opens 1", f"{CRASHED}; {OTHERS}"])
def test_but_not_while_more_may_be_written(happened: str) -> None:
    assert rule_broken(f"c subscribes; {happened}; log p:1; c gets p1@3") is None


LOST = f"c subscribes; {CRASHED}; t skips"
"""Something is done to a subscription while the log is unknown."""
READ_BACK = f"p opens 1; {OTHERS}; log p:1 q:1-2"


def test_what_happened_to_a_subscription_meanwhile_is_not_known_so_it_is_not_tracked_any_more() -> None:
    assert rule_broken(f"{LOST}; {READ_BACK}; c gets p1@3") is None
    assert rule_broken(f"{LOST}; {READ_BACK}; c subscribes; c gets p1@3") is None


CREATED: tuple[Happened, ...] = ((CreateSubscription("t", "new"), Done()), (Subscribe("n", "t", "new"), Subscribed()))


def gets(position: int) -> Happened:
    return Receive("n", 1), ReceivedMessages((Delivery(Position(1, position), -1, 0, "p1"),))


def test_a_subscription_that_is_created_once_the_log_is_read_back_is_tracked_again() -> None:
    begin = steps(f"t on; p opens -1; {LOST}; {READ_BACK}")
    assert isinstance(judged(*begin, *CREATED, gets(0)), Allowed)
    assert broken_by(*begin, *CREATED, gets(3)).rule == "ACK-06"
    everything = (ReceiveAll("t", "new"), AllReceived(()))
    assert broken_by(*begin, *CREATED, everything).rule in ("ACK-18", "SERVE-03", "ACK-05")


def test_whether_a_consumer_may_subscribe_is_judged_only_where_the_others_are_tracked() -> None:
    begin = steps(f"t on; p opens -1; {LOST}; {READ_BACK}")
    refused = Refused("ConsumerBusy", "another type")
    assert isinstance(judged(*begin, (Subscribe("d", "t", "s", kind="Failover"), refused)), Allowed)
    tracked = (Subscribe("d", "t", "new"), refused)
    assert broken_by(*begin, *CREATED, tracked).rule == "SERVE-05"


def test_but_neither_while_the_log_is_unknown_nor_if_it_may_have_existed_before() -> None:
    unknown = steps(f"t on; p opens -1; {LOST}")
    assert isinstance(judged(*unknown, *CREATED, gets(3)), Allowed)
    existed: Happened = CreateSubscription("t", "new"), Refused("409", "it exists")
    known = steps(f"t on; p opens -1; {LOST}; {READ_BACK}")
    assert isinstance(judged(*known, existed, *CREATED[1:], gets(3)), Allowed)


def test_where_a_subscription_begins_that_is_created_at_latest_while_the_log_is_unknown_is_not_known() -> None:
    unknown = steps(f"t on; p opens -1; {LOST}")
    created: Happened = CreateSubscription("t", "new", start="latest"), Done()
    read: Happened = ReadCursor("t", "new"), CursorRead(Position(1, 0), (), backlog=1, unacknowledged=0)
    assert isinstance(judged(*unknown, created, *steps(READ_BACK), read), Allowed)
    known = steps(f"t on; p opens -1; {LOST}; {READ_BACK}")
    assert broken_by(*known, created, read).rule in ("ACK-18", "ACK-05")


def test_a_subscription_that_is_tracked_again_is_lost_with_its_log() -> None:
    *begin, sends, crashes = steps(f"t on; p opens -1; {LOST}; {READ_BACK}; p sends 2; p crashes ~ p ?")
    assert isinstance(judged(*begin, *CREATED, sends, crashes, gets(3)), Allowed)


def test_at_the_end_a_new_subscription_is_given_the_whole_log_where_others_are_not_tracked() -> None:
    lockstep = Lockstep(SimulatedPerformer(random.Random(1)), Example())
    lockstep.do(CreateTopic("t0", persistence="every-ack"))
    lockstep.do(OpenProducer("p1", "t0", "p"))
    lockstep.do(CreateSubscription("t0", "s0"))
    lockstep.do(Send("p1", (Entry((Message(1, "b1"),)),), wait=False))
    lockstep.do(SkipAll("t0", "s0"))
    lockstep.finish()
    assert [type(step.operation).__name__ for step in lockstep.steps[-3:]] == [
        "CreateSubscription",
        "ReadCursor",
        "ReceiveAll",
    ]
    outcome = lockstep.steps[-1].outcome
    assert isinstance(outcome, AllReceived)
    assert "b1" in [one.business_id for one in outcome.messages]
