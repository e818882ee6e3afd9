"""The broker that lanes share is bounced once all examples have come to that, and none begins meanwhile."""

from __future__ import annotations

from conformance.engine.lanes.rendezvous import Rendezvous
from model.operations import Kill, Restart


def of(*lanes: int) -> Rendezvous:
    """These lanes are in an example each."""
    one = Rendezvous()
    for lane in lanes:
        one.begins(lane)
    assert one.may_begin() == list(lanes)
    return one


def test_the_broker_is_left_alone_until_every_example_waits() -> None:
    one = of(1, 2)
    one.wants(1, Kill())
    assert one.agree() is None
    one.wants(2, Kill())
    assert one.agree() == (Kill(), [1, 2])


def test_it_is_bounced_once_when_every_lane_is_ready() -> None:
    one = of(1, 2)
    one.wants(1, Kill())
    one.wants(2, Kill())
    one.agree()
    one.arrives(1)
    assert one.due() is None
    one.arrives(2)
    assert one.due() == (Kill(), [1, 2])
    assert one.due() is None


def test_what_most_lanes_want_is_done_and_the_others_ask_again() -> None:
    one = of(1, 2, 3)
    one.wants(1, Restart())
    one.wants(2, Kill())
    one.wants(3, Restart())
    assert one.agree() == (Restart(), [1, 2, 3])
    for lane in (1, 2, 3):
        one.arrives(lane)
    assert one.due() == (Restart(), [1, 2, 3])
    assert one.agree() is None
    one.wants(2, Kill())
    assert one.agree() is None, "the others have gone on"
    one.leaves(1)
    one.leaves(3)
    assert one.agree() == (Kill(), [2])


def test_an_example_that_ends_keeps_nobody_waiting() -> None:
    one = of(1, 2)
    one.wants(1, Kill())
    one.leaves(2)
    assert one.agree() == (Kill(), [1])


def test_a_lane_that_ends_between_agreement_and_bounce_is_not_waited_for() -> None:
    one = of(1, 2)
    one.wants(1, Kill())
    one.wants(2, Kill())
    one.agree()
    one.leaves(2)
    one.arrives(1)
    assert one.due() == (Kill(), [1])


def test_no_example_begins_while_the_broker_is_about_to_be_bounced() -> None:
    one = of(1)
    one.wants(1, Kill())
    one.agree()
    one.begins(2)
    assert one.may_begin() == []
    one.arrives(1)
    one.due()
    assert one.may_begin() == [2]


def test_while_others_wait_a_lane_may_begin_one_example_and_no_more() -> None:
    one = of(1, 2)
    one.wants(1, Kill())
    one.leaves(2)
    one.begins(2)
    assert one.may_begin() == [2]
    one.leaves(2)
    one.begins(2)
    assert one.may_begin() == []
    assert one.agree() == (Kill(), [1])


def test_a_lane_that_prepares_itself_is_waited_for() -> None:
    one = of(1)
    one.enters(2)
    one.wants(1, Kill())
    assert one.agree() is None
    one.leaves(2)
    assert one.agree() == (Kill(), [1])


def test_after_all_lanes_have_left_nothing_is_done() -> None:
    one = of(1)
    one.wants(1, Kill())
    one.agree()
    one.leaves(1)
    assert one.due() is None
    assert not one.is_imminent


def test_a_lane_that_has_not_agreed_with_the_others_does_nothing_to_the_broker() -> None:
    one = of(1, 2)
    assert not one.arrives(1)
    assert one.due() is None
