"""A replay read that is pending when the last consumer leaves: its messages come to the next one."""

from __future__ import annotations

from msgspec.structs import replace

from model.deviations.cursors import REPLAY_READ_OUTLIVES_CONSUMERS
from model.events import AllReceived, Created, CursorReset, Done
from model.operations import Send
from model.subscription_operations import CrashConsumer, ReceiveAll, ResetCursor
from model.vocabulary import Entry
from tests.model.test_subscriptions import (
    UNLOADED,
    at,
    deviation_met,
    failed,
    rule_broken,
    single,
    subscribed,
    taken,
    topic,
)
from tests.verdicts import Happened


def test_a_replay_read_may_outlive_the_last_consumer_only_if_that_is_known() -> None:
    left: Happened = (CrashConsumer("c1"), Done())
    others = (subscribed("c2"), subscribed("c3"), taken(single(0), by="c2"))
    again = taken(single(0), by="c3")
    reading = (subscribed("c5", queue=5), left, (CrashConsumer("c5"), Done()))
    history = (*topic(1, 1), taken(single(0)), *reading, *others)
    assert deviation_met(*history, again, known=REPLAY_READ_OUTLIVES_CONSUMERS)
    assert rule_broken(*history, again, again, known=REPLAY_READ_OUTLIVES_CONSUMERS) == "ACK-12"
    to_another = ((CrashConsumer("c3"), Done()), subscribed("c4"), taken(single(0), by="c4"))
    assert deviation_met(*history, again, *to_another, known=REPLAY_READ_OUTLIVES_CONSUMERS)
    assert rule_broken(*history, again, *to_another[1:], known=REPLAY_READ_OUTLIVES_CONSUMERS) == "ACK-12"
    pending = (*topic(1, 1), taken(single(0)), left, *others)
    assert rule_broken(*pending, again, known=REPLAY_READ_OUTLIVES_CONSUMERS) == "ACK-12", "it was not to be replayed"
    after_unload = (*topic(1, 1), taken(single(0)), *reading, UNLOADED, *others)
    assert rule_broken(*after_unload, again, known=REPLAY_READ_OUTLIVES_CONSUMERS) == "ACK-12", (
        "the unload made a new dispatcher"
    )
    others_stay = (*topic(1, 1), subscribed("c2"), taken(single(0)), left, taken(single(0), by="c2"), subscribed("c3"))
    assert rule_broken(*others_stay, again, known=REPLAY_READ_OUTLIVES_CONSUMERS) == "ACK-12"


def test_a_copy_from_a_replay_read_is_not_the_redelivery_that_a_nack_requested() -> None:
    reading = (subscribed("c5", queue=5), (CrashConsumer("c1"), Done()), (CrashConsumer("c5"), Done()))
    history = (*topic(1, 1), taken(single(0)), *reading, subscribed("c2"), taken(single(0), by="c2"))
    nacked = (*history, failed(single(0), by="c2"))
    copy, redelivered = taken(single(0), by="c2"), taken(single(0, redeliveries=1), by="c2")
    assert deviation_met(*nacked, copy, known=REPLAY_READ_OUTLIVES_CONSUMERS)
    assert deviation_met(*nacked, copy, redelivered, known=REPLAY_READ_OUTLIVES_CONSUMERS)
    assert rule_broken(*nacked, copy, copy, known=REPLAY_READ_OUTLIVES_CONSUMERS) == "ACK-13"


def test_a_replay_read_may_repeat_all_unacknowledged_messages_after_a_disconnect() -> None:
    took = (ReceiveAll("t0", "s0"), AllReceived((single(0), single(0), single(1))))
    several = (*topic(1, 1), subscribed("c2", queue=5), taken(single(0)), took)
    assert deviation_met(*several, known=REPLAY_READ_OUTLIVES_CONSUMERS)
    assert rule_broken(*topic(1, 1), taken(single(0)), took, known=REPLAY_READ_OUTLIVES_CONSUMERS) == "ACK-12"
    alone = (*topic(1, 1, kind="Exclusive"), taken(single(0)), took)
    assert rule_broken(*alone, known=REPLAY_READ_OUTLIVES_CONSUMERS) == "ACK-12"


def test_a_replay_read_may_outlive_a_reset_that_acknowledges_its_messages() -> None:
    reset: Happened = (ResetCursor("t0", "s0", "b3"), CursorReset(at(2)))
    late = (subscribed("c2"), taken(single(2), single(0), by="c2"))
    asking = (*topic(1, 1, 1), taken(single(0)), subscribed("c5", queue=5))
    assert deviation_met(*asking, reset, *late, known=REPLAY_READ_OUTLIVES_CONSUMERS)
    again = taken(single(0), by="c2")
    assert rule_broken(*asking, reset, *late, again, known=REPLAY_READ_OUTLIVES_CONSUMERS) == "ACK-12", "it comes once"
    pending = (*topic(1, 1, 1), taken(single(0)), reset, *late)
    assert rule_broken(*pending, known=REPLAY_READ_OUTLIVES_CONSUMERS) == "ACK-01", "it was not to be replayed"
    after_unload = (*asking, reset, UNLOADED, *late)
    assert rule_broken(*after_unload, known=REPLAY_READ_OUTLIVES_CONSUMERS) == "ACK-10", "it has a new dispatcher"
    alone = (*topic(1, 1, 1, kind="Exclusive"), taken(single(0)), reset, *late)
    assert rule_broken(*alone, known=REPLAY_READ_OUTLIVES_CONSUMERS) == "ACK-01"


def test_a_delayed_message_may_be_in_a_replay_read_although_its_consumer_has_nothing_in_flight() -> None:
    (create, created), opened, (send, sent), *rest = (one[:2] for one in topic(1, 1))
    assert isinstance(created, Created)
    assert isinstance(send, Send)
    late = Entry((replace(send.entries[1].messages[0], delay_ms=60_000),))
    delayed = (
        (create, replace(created, delay_tick_ms=20.0)),
        opened,
        (replace(send, entries=(send.entries[0], late)), sent),
    )
    others = (taken(single(0)), (CrashConsumer("c1"), Done()), subscribed("c2"), taken(single(1), by="c2"))
    again = taken(single(1), by="c2")
    assert deviation_met(*delayed, *rest, *others, again, known=REPLAY_READ_OUTLIVES_CONSUMERS)
    plain = rule_broken(*topic(1, 1), *others, again, known=REPLAY_READ_OUTLIVES_CONSUMERS)
    assert plain in ("ACK-12", "SERVE-03"), "it has no delay"
