"""States of a cursor that several deviations lead to, together or each alone, and those of other releases."""

from __future__ import annotations

from functools import partial
from itertools import combinations

import pytest

from conformance.known import shipped
from model.events import (
    Acknowledged,
    AllReceived,
    CursorRead,
    Delivery,
    Done,
    Persisted,
    Range,
    ReceivedMessages,
    RedeliveryTimes,
    Starved,
    Subscribed,
)
from model.judgement import Allowed, Broken
from model.operations import Kill
from model.subscription_operations import (
    AckById,
    Acknowledge,
    AwaitPersisted,
    CloseConsumer,
    CreateSubscription,
    NackRepeatedly,
    ReadCursor,
    Receive,
    ReceiveAll,
    Skip,
    Subscribe,
)
from tests import verdicts
from tests.model.test_subscriptions import (
    BEGINNING,
    UNLOADED,
    acknowledged,
    at,
    judged,
    part,
    read,
    single,
    subscribed,
    taken,
    topic,
)
from tests.verdicts import Happened

ENTRIES = 8
CASES = [(acked, count) for acked in combinations(range(ENTRIES - 1), 3) for count in (1, 2, 3, 4)]
SKIPPED_ONE_MORE = (1, 2, 5), 2
"""A case in which a release that counts all acknowledged ranges skips one entry too many."""


PERSISTED: Happened = (AwaitPersisted("t0", "s0"), Persisted(after_ms=0.0, entries=1))


def acks(*numbers: int) -> tuple[Happened, ...]:
    """Each of these entries is acknowledged alone."""
    return tuple((AckById("c1", (f"b{n + 1}",)), Acknowledged((single(n),), receipt=True)) for n in numbers)


def skips(count: int) -> Happened:
    return Skip("t0", "s0", count), Done()


def receives(*messages: Delivery, permits: int) -> Happened:
    return Receive("c1", permits), ReceivedMessages(messages, settled=True)


def all_of(*messages: Delivery) -> Happened:
    return ReceiveAll("t0", "s0"), AllReceived(messages)


@pytest.mark.parametrize("known", ["batch-index-acks-not-recovered", "batch-index-acks-overwritten"])
def test_either_of_two_deviations_explains_a_state_that_both_lead_to(known: str) -> None:
    """Releases before 2.11 have the first one only."""
    batch = [part(index, 4) for index in range(4)]
    lost = (*topic(4, kind="Exclusive"), taken(*batch), acknowledged(batch[3]), UNLOADED)
    again = (subscribed("c2", kind="Exclusive"), taken(*batch[:2], by="c2", settled=False))
    left = (acknowledged(batch[1], by="c2", cumulative=True), (CloseConsumer("c2"), Done()), all_of(*batch[2:]))
    allowed = judged(*lost, *again, *left, known=known)
    assert isinstance(allowed, Allowed)
    assert allowed.deviations == (known,)


def test_a_state_that_only_two_deviations_lead_to_requires_both() -> None:
    acked, count = SKIPPED_ONE_MORE
    batch = [Delivery(at(ENTRIES), index, 4, f"b{ENTRIES + 1 + index}", 0) for index in range(4)]
    lost = (
        *topic(*[1] * ENTRIES, 4),
        *acks(*acked),
        (AckById("c1", ("b12",)), Acknowledged((batch[3],), receipt=True)),
    )
    history = (*lost, UNLOADED, skips(count), all_of(single(6), single(7), *batch))
    both = ("all-ranges-counted", "batch-index-acks-not-recovered")
    allowed = judged(*history, known=both)
    assert isinstance(allowed, Allowed)
    assert sorted(allowed.deviations) == sorted(both)
    for known, unknown in (both, both[::-1]):
        broken = judged(*history, known=known)
        assert isinstance(broken, Broken)
        assert broken.deviation == unknown


def test_a_deviation_of_other_releases_excuses_no_starved_consumer() -> None:
    known = frozenset(one.name for one in shipped() if one.concerns("4.0.8"))
    assert "all-ranges-counted" not in known
    for acked, count in CASES:
        skipped = (*topic(*[1] * ENTRIES), *acks(*acked), skips(count))
        left = [single(number) for number in range(ENTRIES) if number not in acked][count:]
        assert isinstance(judged(*skipped, receives(*left, permits=ENTRIES), known=known), Allowed)
        for missing in left:
            rest = [one for one in left if one is not missing]
            starved = judged(*skipped, receives(*rest, permits=ENTRIES), known=known)
            assert isinstance(starved, Broken), (acked, count, missing)
            assert starved.rule == "SERVE-03" or starved.deviation is not None


def test_a_violation_that_an_unknown_deviation_explains_has_its_name() -> None:
    acked, count = SKIPPED_ONE_MORE
    history = (*topic(*[1] * ENTRIES), *acks(*acked), skips(count), receives(single(6), single(7), permits=ENTRIES))
    starved = judged(*history)
    assert isinstance(starved, Broken)
    assert starved.deviation == "all-ranges-counted"
    assert isinstance(judged(*history, known="all-ranges-counted"), Allowed)


def test_a_kill_brings_back_no_ack_of_a_part_that_an_unload_was_seen_to_lose() -> None:
    """Seen on 4.0.8: the message was delivered again after the unload, and after the kill."""
    parts, last = [part(index, 2) for index in range(2)], Delivery(at(1), -1, 0, "b3")
    lost = (*topic(2, 1), taken(*parts, last), acknowledged(parts[0]), UNLOADED, subscribed("c2"))
    again = (taken(*parts, last, by="c2"), acknowledged(last, by="c2"), PERSISTED, (Kill(), Done()))
    known = "batch-index-acks-not-recovered"
    assert isinstance(judged(*lost, *again, all_of(*parts), known=known), Allowed)
    assert isinstance(judged(*lost, *again, all_of(parts[1]), known=known), Broken), "the unload lost it"
    assert isinstance(judged(*lost, *again, all_of(*parts, last), known=known), Broken), "acks since then are not lost"


def test_an_unload_while_the_cursor_ledger_opens_may_persist_an_earlier_mark_delete_with_the_ranges_of_now() -> None:
    known, acked = "unload-while-cursor-ledger-opens", (acknowledged(single(1)), acknowledged(single(0)), UNLOADED)
    begun = (*topic(1, 1, 1), taken(*map(single, range(3))), *acked)
    quickly = partial(verdicts.judged, known=known, step_ms=10.0)
    assert isinstance(quickly(*begun, read(BEGINNING, backlog=3)), Allowed)
    ranges_of_then = read(BEGINNING, backlog=2, ranges=(Range(at(0), at(1)),))
    assert isinstance(quickly(*begun, ranges_of_then), Broken)


def test_acks_that_one_unload_may_have_lost_may_be_lost_by_the_next() -> None:
    """A client may have sent the lost ack again, so that the cursor looked as if nothing had been lost."""

    def acks_again(number: int) -> Happened:
        return AckById("c2", (f"b{number + 1}",)), Acknowledged((single(number),), receipt=True)

    known = "unload-while-cursor-ledger-opens"
    begun = (*topic(1, 1, 1), taken(*map(single, range(3))), acknowledged(single(0)), UNLOADED, subscribed("c2"))
    unloaded = (*begun, acks_again(0), read(at(0), backlog=2), acks_again(2), UNLOADED)
    only_last = read(BEGINNING, backlog=2, ranges=(Range(at(1), at(2)),))
    assert isinstance(verdicts.judged(*unloaded, only_last, known=known, step_ms=10.0), Allowed)
    neither = read(BEGINNING, backlog=3)
    assert isinstance(verdicts.judged(*unloaded, neither, known=known, step_ms=10.0), Broken)


def test_acks_of_many_subscriptions_are_lost_one_after_the_other() -> None:
    """Seen on 4.0.8. What explained the loss of one stays, when the steps are judged again for the next one."""
    names = [f"s{number}" for number in range(1, 6)]
    history: tuple[Happened, ...] = topic(1, 1)
    for name in names:
        history += ((CreateSubscription("t0", name), Done()),)
    for name in names:
        consumer = f"c-{name}"
        history += (
            (Subscribe(consumer, "t0", name, kind="Shared"), Subscribed()),
            taken(single(0), by=consumer),
            acknowledged(single(0), by=consumer),
            UNLOADED,
        )
    for name in reversed(names):
        history += ((ReadCursor("t0", name), CursorRead(BEGINNING, (), 2, 0)),)
    known = "unload-while-cursor-ledger-opens"
    allowed = verdicts.allowed_by(*history, known=known, step_ms=10.0)
    assert allowed.deviations == (known,) * len(names)


@pytest.mark.parametrize(
    ("after_ms", "library", "is_allowed"),
    [
        ((0.0, 18.0, 20.0), "rust:6.9.1", True),
        ((150.0, 18.0, 20.0), "rust:6.9.1", False),
        ((0.0, 18.0, 20.0), "java:4.0.8", False),
    ],
)
def test_only_a_redelivery_at_once_is_one_without_a_delay(
    after_ms: tuple[float, ...], library: str, is_allowed: bool
) -> None:
    nacked = NackRepeatedly("t0", times=3, library=library)
    redelivered = RedeliveryTimes(Delivery(at(0), business_id="b0"), 300.0, after_ms)
    judgement = judged(*topic(1), (nacked, redelivered), known=["nack-without-delay"])
    assert isinstance(judgement, Allowed) == is_allowed


@pytest.mark.parametrize(
    ("library", "nth", "mark_delete", "is_allowed"),
    [
        ("rust:6.9.1", 0, 0, True),
        ("rust:6.9.1", 2, 0, True),
        ("rust:6.9.1", 0, 1, False),
        ("java:4.0.8", 0, 0, False),
    ],
)
@pytest.mark.parametrize("cumulative", [False, True])
def test_an_ack_of_a_part_acknowledges_its_entry_and_no_other(
    library: str, nth: int, mark_delete: int, is_allowed: bool, cumulative: bool
) -> None:
    """Its performer lists only what a client with a tracker of batches would acknowledge: nothing."""
    messages = tuple(part(index, 3) for index in range(3))
    created = topic(3, 1, kind="Failover")[:-1]
    subscribe = Subscribe("c1", "t0", "s0", kind="Failover", client="official", library=library)
    history: tuple[Happened, ...] = (
        *created,
        (subscribe, Subscribed()),
        (Receive("c1", 3), ReceivedMessages(messages)),
        (Acknowledge("c1", (nth,), cumulative=cumulative), Acknowledged(())),
        (ReadCursor("t0", "s0"), CursorRead(at(mark_delete), (), 1 - mark_delete, 0)),
    )
    judgement = judged(*history, known=["ack-of-part-acknowledges-entry"])
    assert isinstance(judgement, Allowed) == is_allowed


@pytest.mark.parametrize(
    ("sizes", "library", "is_allowed"),
    [((3,), "rust:6.9.1", True), ((1,), "rust:6.9.1", False), ((3,), "java:4.0.8", False)],
)
def test_a_nacked_message_is_acknowledged_with_the_others_of_its_batch(
    sizes: tuple[int, ...], library: str, is_allowed: bool
) -> None:
    nacked = Delivery(at(0), 0 if sizes[0] > 1 else -1, business_id="b1")
    starved = Starved("its redelivery does not come within 10 s of the nack", (nacked,))
    history = *topic(*sizes), (NackRepeatedly("t0", times=3, library=library), starved)
    assert isinstance(judged(*history, known=["ack-of-part-acknowledges-entry"]), Allowed) == is_allowed


@pytest.mark.parametrize(
    ("after_ms", "library", "is_allowed"),
    [
        ((96.0, 298.0), "go:0.19.0", True),
        ((30.0, 298.0), "go:0.19.0", True),
        ((10.0, 298.0), "go:0.19.0", False),
        ((96.0, 298.0), "java:4.0.8", False),
    ],
)
def test_a_truncated_delay_of_go_is_less_than_256_ms_too_short(
    after_ms: tuple[float, ...], library: str, is_allowed: bool
) -> None:
    redelivered = RedeliveryTimes(Delivery(at(0), business_id="b0"), 300.0, after_ms)
    history = *topic(1), (NackRepeatedly("t0", times=2, library=library), redelivered)
    assert isinstance(judged(*history, known=["nack-delay-truncated"]), Allowed) == is_allowed
