"""States of a cursor that several deviations lead to, together or each alone, and those of other releases."""

from __future__ import annotations

from itertools import combinations

import pytest

from conformance.known import shipped
from model.events import Acknowledged, AllReceived, Delivery, Done, ReceivedMessages
from model.excuses.cursors import BATCH_INDEX_ACKS_NOT_RECOVERED, BATCH_INDEX_ACKS_OVERWRITTEN
from model.judgement import Allowed, Broken
from model.subscription_operations import AckById, CloseConsumer, Receive, ReceiveAll, Skip
from tests.model.test_subscriptions import (
    UNLOADED,
    acknowledged,
    at,
    judged,
    part,
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


def acks(*numbers: int) -> tuple[Happened, ...]:
    """Each of these entries is acknowledged alone."""
    return tuple((AckById("c1", (f"b{n + 1}",)), Acknowledged((single(n),), receipt=True)) for n in numbers)


def skips(count: int) -> Happened:
    return Skip("t0", "s0", count), Done()


def receives(*messages: Delivery, permits: int) -> Happened:
    return Receive("c1", permits), ReceivedMessages(messages, settled=True)


def all_of(*messages: Delivery) -> Happened:
    return ReceiveAll("t0", "s0"), AllReceived(messages)


@pytest.mark.parametrize("known", [BATCH_INDEX_ACKS_NOT_RECOVERED, BATCH_INDEX_ACKS_OVERWRITTEN])
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
    both = ("all-ranges-counted", BATCH_INDEX_ACKS_NOT_RECOVERED)
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
