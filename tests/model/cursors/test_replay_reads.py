"""A replay read that is pending when the last consumer leaves: its messages come to the next one, others may not."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from model.events import (
    AllReceived,
    Confirmed,
    Consumed,
    Created,
    CursorReset,
    Delivery,
    Done,
    Sent,
    SourceEnded,
    SourceStarted,
    Starved,
    Stored,
    Stuck,
)
from model.operations import (
    AnyOperation,
    Consume,
    CreateTopic,
    Drain,
    FinishSource,
    Send,
    StartSource,
    Then,
)
from model.subscription_operations import CrashConsumer, ReadCursor, Receive, ReceiveAll, ResetCursor, SkipAll
from model.vocabulary import Client, Entry, Message, SubscriptionType
from tests.model.test_subscriptions import (
    STEP_MS,
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
from tests.verdicts import Happened, allowed_by


def test_a_replay_read_may_outlive_the_last_consumer_only_if_that_is_known() -> None:
    left: Happened = (CrashConsumer("c1"), Done())
    others = (subscribed("c2"), subscribed("c3"), taken(single(0), by="c2"))
    again = taken(single(0), by="c3")
    reading = (subscribed("c5", queue=5), left, (CrashConsumer("c5"), Done()))
    history = (*topic(1, 1), taken(single(0)), *reading, *others)
    assert deviation_met(*history, again, known="replay-read-outlives-consumers")
    assert rule_broken(*history, again, again, known="replay-read-outlives-consumers") == "ACK-12"
    to_another = ((CrashConsumer("c3"), Done()), subscribed("c4"), taken(single(0), by="c4"))
    assert deviation_met(*history, again, *to_another, known="replay-read-outlives-consumers")
    assert rule_broken(*history, again, *to_another[1:], known="replay-read-outlives-consumers") == "ACK-12"
    pending = (*topic(1, 1), taken(single(0)), left, *others)
    assert rule_broken(*pending, again, known="replay-read-outlives-consumers") == "ACK-12", "it was not to be replayed"
    after_unload = (*topic(1, 1), taken(single(0)), *reading, UNLOADED, *others)
    assert rule_broken(*after_unload, again, known="replay-read-outlives-consumers") == "ACK-12", (
        "the unload made a new dispatcher"
    )
    others_stay = (*topic(1, 1), subscribed("c2"), taken(single(0)), left, taken(single(0), by="c2"), subscribed("c3"))
    assert rule_broken(*others_stay, again, known="replay-read-outlives-consumers") == "ACK-12"


def test_a_message_on_its_way_during_a_skip_needs_no_replay_read_although_there_was_one() -> None:
    reading = (subscribed("c5", queue=5), (CrashConsumer("c1"), Done()), (CrashConsumer("c5"), Done()))
    skipped: Happened = (SkipAll("t0", "s0"), Done())
    history = (*topic(1, 1), taken(single(0)), *reading, subscribed("c2", queue=5), skipped)
    once = taken(single(0), by="c2")
    assert allowed_by(*history, once, step_ms=STEP_MS).deviations == ()
    assert rule_broken(*history, once, once) == "ACK-12"
    assert deviation_met(*history, once, once, known="replay-read-outlives-consumers")


def test_a_copy_from_a_replay_read_is_not_the_redelivery_that_a_nack_requested() -> None:
    reading = (subscribed("c5", queue=5), (CrashConsumer("c1"), Done()), (CrashConsumer("c5"), Done()))
    history = (*topic(1, 1), taken(single(0)), *reading, subscribed("c2"), taken(single(0), by="c2"))
    nacked = (*history, failed(single(0), by="c2"))
    copy, redelivered = taken(single(0), by="c2"), taken(single(0, redeliveries=1), by="c2")
    assert deviation_met(*nacked, copy, known="replay-read-outlives-consumers")
    assert deviation_met(*nacked, copy, redelivered, known="replay-read-outlives-consumers")
    assert rule_broken(*nacked, copy, copy, known="replay-read-outlives-consumers") == "ACK-13"


def test_a_replay_read_may_repeat_all_unacknowledged_messages_after_a_disconnect() -> None:
    took = (ReceiveAll("t0", "s0"), AllReceived((single(0), single(0), single(1))))
    several = (*topic(1, 1), subscribed("c2", queue=5), taken(single(0)), took)
    assert deviation_met(*several, known="replay-read-outlives-consumers")
    assert rule_broken(*topic(1, 1), taken(single(0)), took, known="replay-read-outlives-consumers") == "ACK-12"
    alone = (*topic(1, 1, kind="Exclusive"), taken(single(0)), took)
    assert rule_broken(*alone, known="replay-read-outlives-consumers") == "ACK-12"


def test_a_replay_read_may_outlive_a_reset_that_acknowledges_its_messages() -> None:
    reset: Happened = (ResetCursor("t0", "s0", "b3"), CursorReset(at(2)))
    late = (subscribed("c2"), taken(single(2), single(0), by="c2"))
    asking = (*topic(1, 1, 1), taken(single(0)), subscribed("c5", queue=5))
    assert deviation_met(*asking, reset, *late, known="replay-read-outlives-consumers")
    again = taken(single(0), by="c2")
    assert rule_broken(*asking, reset, *late, again, known="replay-read-outlives-consumers") == "ACK-12", (
        "it comes once"
    )
    pending = (*topic(1, 1, 1), taken(single(0)), reset, *late)
    assert rule_broken(*pending, known="replay-read-outlives-consumers") == "ACK-18", "it was not to be replayed"
    after_unload = (*asking, reset, UNLOADED, *late)
    assert rule_broken(*after_unload, known="replay-read-outlives-consumers") == "ACK-10", "it has a new dispatcher"
    alone = (*topic(1, 1, 1, kind="Exclusive"), taken(single(0)), reset, *late)
    assert rule_broken(*alone, known="replay-read-outlives-consumers") == "ACK-18"


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
    assert deviation_met(*delayed, *rest, *others, again, known="replay-read-outlives-consumers")
    next_one = ((CrashConsumer("c1"), Done()), subscribed("c2"), starved(Receive("c2", 5)))
    assert rule_broken(*delayed, *rest, *next_one, known="rewind-skipped-after-replay-read") == "SERVE-03", (
        "not just then"
    )
    plain = rule_broken(*topic(1, 1), *others, again, known="replay-read-outlives-consumers")
    assert plain in ("ACK-12", "SERVE-03"), "it has no delay"


def starved(doing: AnyOperation) -> Happened:
    return doing, Starved("2 entries that no consumer has are not delivered")


@pytest.mark.parametrize("wait", [starved(Receive("c3", 5)), starved(ReadCursor("t0", "s0"))], ids=["receive", "read"])
def test_a_skipped_rewind_starves_who_joins_after_a_replay_read_until_the_next_message(wait: Happened) -> None:
    name, owed = "rewind-skipped-after-replay-read", ("ACK-12", "SERVE-03")
    alone = (*topic(1, 1), taken(single(0)))
    gone = ((CrashConsumer("c1"), Done()), (CrashConsumer("c2"), Done()), subscribed("c3"))
    all_left = (*alone, subscribed("c2", queue=5), *gone)
    assert deviation_met(*all_left, wait, known=name)
    assert deviation_met(*all_left, taken(single(0), by="c3"), wait, known=name), "what was replayed came"
    later: Happened = (Send("p", (Entry((Message(9, "b9"),)),)), Sent((Stored(at(2)),)))
    assert rule_broken(*all_left, later, wait, known=name) in owed, "the next message makes the broker rewind"
    assert rule_broken(*all_left, UNLOADED, subscribed("c3"), wait, known=name) in owed, "it has a new dispatcher"
    assert rule_broken(*alone, gone[0], gone[2], wait, known=name) in owed, "nothing was replayed"


def test_a_skipped_rewind_starves_who_joins_after_all_consumers_were_disconnected_if_there_were_several() -> None:
    name, everything = "rewind-skipped-after-replay-read", starved(ReceiveAll("t0", "s0", "Shared"))
    alone = (*topic(1, 1), taken(single(0)))
    assert deviation_met(*alone, subscribed("c2", queue=5), everything, known=name)
    gone = ((CrashConsumer("c1"), Done()), (CrashConsumer("c2"), Done()))
    assert deviation_met(*alone, subscribed("c2", queue=5), *gone, everything, known=name), "they had left before"
    assert rule_broken(*alone, everything, known=name) == "SERVE-03", "nothing was replayed"
    in_order = (*topic(1, 1, kind="Failover"), taken(single(0)), subscribed("c2", kind="Failover"))
    assert rule_broken(*in_order, everything, known=name) == "SERVE-03"


MESSAGE = Delivery(at(0), -1, 0, "b1")
STORED: tuple[Happened, ...] = (
    (CreateTopic("t0"), Created(deduplication=True, snapshot_room=10)),
    (StartSource("a0", "t0", (Entry((Message(1, "b1"),)),)), SourceStarted(-1)),
    (FinishSource("a0"), SourceEnded((Confirmed(1, at(0)),), left=0, came_back=0)),
)
WAITED = Stuck("1 entry that no consumer has is not delivered", (at(0),))


def consumed(
    by: str,
    *messages: Delivery,
    then: Then = "stays",
    kind: SubscriptionType = "Shared",
    client: Client = "official",
) -> Happened:
    doing = Consume(by, "t0", "s", 5, acks=(False,), then=then, kind=kind, client=client)
    return doing, Consumed(messages, ())


def test_an_application_may_starve_after_a_skipped_rewind_and_only_then() -> None:
    name, drained = "rewind-skipped-after-replay-read", (Drain("t0", "s", "Shared"), WAITED)
    both = (consumed("c0", MESSAGE), consumed("c1"))
    assert deviation_met(*STORED, *both, drained, known=name)
    assert deviation_met(*STORED, both[0], UNLOADED, both[1], drained, known=name), "pulsar-client reconnects"
    by_wire = consumed("c0", MESSAGE, client="wire")
    assert rule_broken(*STORED, by_wire, UNLOADED, both[1], drained, known=name) == "DEDUP-16", (
        "the wire client does not"
    )
    assert rule_broken(*STORED, both[0], drained, known=name) == "DEDUP-16", "nothing was replayed"
    not_let_in = (drained[0], Stuck("it is not let in"))
    assert rule_broken(*STORED, *both, not_let_in, known=name) == "DEDUP-16"
    in_order = [consumed(by, kind="Failover") for by in ("c0", "c1")]
    assert rule_broken(*STORED, *in_order, (Drain("t0", "s", "Failover"), WAITED), known=name) == "DEDUP-16"


def test_a_consumer_of_an_application_may_starve_after_a_skipped_rewind_until_the_next_message() -> None:
    name = "rewind-skipped-after-replay-read"
    left = (consumed("c0", MESSAGE), consumed("c1"), consumed("c0", then="crashes"), consumed("c1", then="crashes"))
    waits: Happened = (consumed("c2")[0], WAITED)
    assert deviation_met(*STORED, *left, waits, known=name)
    assert deviation_met(*STORED, *left, waits, waits, known=name), "it still waits"
    assert rule_broken(*STORED, *left, waits, UNLOADED, waits, known=name) == "DEDUP-16"
    assert rule_broken(*STORED, *left, UNLOADED, waits, known=name) == "DEDUP-16", "it has a new dispatcher"
    sent = (StartSource("a1", "t0", (Entry((Message(1, "c1"),)),)), SourceStarted(-1))
    assert rule_broken(*STORED, *left, sent, waits, known=name) == "DEDUP-16", "a new message makes the broker rewind"
    assert rule_broken(*STORED, *left[:1], *left[2:3], waits, known=name) == "DEDUP-16", "nothing was replayed"
