"""STICKY consumers receive what they claim and nothing else, and claims that overlap are refused (KEY-15)."""

from __future__ import annotations

import pytest

from model.events import ConsumerRead, Refused, Subscribed
from model.judgement import Allowed, Broken
from model.key_shared.hashes import STICKY_HASHES, key_of_message, keys_of, sticky_hash
from model.log import Position
from model.subscription_operations import CrashConsumer, Subscribe
from model.vocabulary import HashRange, SubscriptionType
from tests.model.key_shared.test_order import broken, classic, fails, gathers, leaves, more, sent, share
from tests.verdicts import Happened, exercised, judged

LOW, GAP, HIGH = (0, 9_999), (20_000, 29_999), (40_000, 65_535)
IN_LOW, IN_GAP, IN_HIGH = (next(keys_of(HashRange(*one), within=STICKY_HASHES)) for one in (LOW, GAP, HIGH))
SENT = sent(IN_LOW, IN_GAP, IN_HIGH)
ALL_KNOWN = frozenset(
    {"claim-of-one-hash-paired", "gap-between-claims-assigned", "own-claims-overlap", "key-shared-policies-mixed"}
)
BUSY = Refused("ConsumerAssignError", "Range conflict with consumer c")


def claims(name: str, *ranges: tuple[int, int], kind: SubscriptionType = "Key_Shared") -> Happened:
    return Subscribe(name, "t", "s", kind=kind, sticky=ranges), Subscribed()


def refused(name: str, *ranges: tuple[int, int]) -> Happened:
    return claims(name, *ranges)[0], BUSY


def deviation(*happened: Happened) -> str | None:
    answer = judged(*happened)
    return answer.deviation if isinstance(answer, Broken) else None


def test_a_consumer_receives_what_it_claims_and_nothing_else() -> None:
    low = [*SENT, claims("c", LOW)]
    assert "KEY-15" in exercised(*low, gathers(share("c", 1)))
    assert broken(*low, gathers(share("c", 1, 3))) == "KEY-15"
    assert broken(*low, gathers(share("c", 2))) == "KEY-15"


def test_a_message_without_a_key_is_judged_by_the_hash_that_it_has() -> None:
    own = sticky_hash(key_of_message(producer="p", sequence_id=1), STICKY_HASHES)
    assert broken(*sent(None), claims("c", (own, own)), gathers(share("c", 1))) is None
    assert broken(*sent(None), claims("c", (own + 1, 65_535)), gathers(share("c", 1))) == "KEY-15"


def test_who_claims_all_hashes_exercises_nothing() -> None:
    assert "KEY-15" not in exercised(*SENT, claims("c", (0, 65_535)), gathers(share("c", 1, 2, 3)))


def test_a_hash_between_two_claims_of_a_consumer_is_nobodys_but_by_a_deviation() -> None:
    both = [*SENT, claims("c", LOW, HIGH)]
    assert broken(*both, gathers(share("c", 1, 2, 3))) == "KEY-15"
    assert deviation(*both, gathers(share("c", 1, 2, 3))) == "gap-between-claims-assigned"
    assert broken(*both, gathers(share("c", 1, 2, 3)), known=ALL_KNOWN) is None


def test_who_claims_the_hash_between_two_claims_does_not_wait_for_the_consumer_that_has_it() -> None:
    joined = [*sent(IN_LOW, IN_GAP, IN_HIGH, IN_GAP), claims("c", LOW, HIGH), gathers(share("c", 1, 2, 3))]
    joined = [*joined, claims("d", GAP)]
    both = gathers(share("c"), share("d", 4))
    found = judged(*joined, both, known=ALL_KNOWN)
    assert isinstance(found, Allowed)
    assert "KEY-01" in found.excused
    before = judged(*joined, known=ALL_KNOWN)
    assert isinstance(before, Allowed)
    assert "KEY-01" not in before.excused


def test_a_gap_in_which_another_consumer_has_a_claim_is_nobodys() -> None:
    """The deviation takes the nearest bounds: here they are of two consumers."""
    in_it = [*SENT, claims("c", LOW, HIGH), claims("d", (30_000, 30_009))]
    assert broken(*in_it, gathers(share("c", 1, 2), share("d")), known=ALL_KNOWN) == "KEY-15"
    assert broken(*in_it, leaves("d"), gathers(share("c", 1, 2)), known=ALL_KNOWN) is None


@pytest.mark.parametrize("overlap", [(9_999, 9_999), (0, 65_535), (5, 10_005)])
def test_ranges_of_another_consumer_are_refused(overlap: tuple[int, int]) -> None:
    low = [*SENT, claims("c", LOW)]
    assert "KEY-15" in exercised(*low, refused("d", overlap))
    assert broken(*low, claims("d", overlap), known=ALL_KNOWN) == "KEY-15"
    assert broken(*low, claims("d", GAP, overlap), known=ALL_KNOWN) == "KEY-15"
    assert broken(*low, (CrashConsumer("c"), Subscribed()), claims("d", overlap)) is None


def test_ranges_that_overlap_one_another_are_refused_but_by_a_deviation() -> None:
    assert broken(*SENT, refused("c", LOW, (5, 10_005))) is None
    assert deviation(*SENT, claims("c", LOW, (5, 10_005))) == "own-claims-overlap"
    assert broken(*SENT, claims("c", LOW, (5, 10_005)), known=ALL_KNOWN) is None


def test_nobody_is_refused_whose_ranges_are_free() -> None:
    low = [*SENT, claims("c", LOW)]
    assert broken(*low, claims("d", GAP)) is None
    assert broken(*low, refused("d", GAP)) == "KEY-17"
    assert broken(*low, leaves("c"), refused("d", LOW)) == "KEY-17"


def test_the_stats_show_what_a_consumer_claims() -> None:
    low = [*SENT, claims("c", LOW)]
    right, wrong = (HashRange(*LOW),), (HashRange(0, 10_000),)
    assert broken(*low, gathers(share("c", 1, ranges=right))) is None
    assert broken(*low, gathers(share("c", 1, ranges=wrong))) == "KEY-15"


def test_consumers_with_and_without_claims_are_not_let_in_together_but_by_a_deviation() -> None:
    for first, second in ((claims("c", LOW), claims("d")), (claims("c"), claims("d", LOW))):
        assert broken(*SENT, first, (second[0], BUSY)) is None
        assert broken(*SENT, first, second) == "KEY-17"
        assert deviation(*SENT, first, second) == "key-shared-policies-mixed"


def test_who_is_let_in_although_its_policy_is_another_one_is_treated_like_the_others() -> None:
    mixed = [*SENT, claims("c"), claims("d", LOW)]
    assert broken(*mixed, gathers(share("c", 1), share("d", 2, 3)), known=ALL_KNOWN) is None


def test_a_consumer_of_another_type_is_refused_although_policies_are_mixed() -> None:
    shared = claims("d", kind="Shared")
    assert broken(*SENT, claims("c", LOW), shared, known=ALL_KNOWN) == "SERVE-05"


ONE = (5, 5)


def stats(name: str, *ranges: tuple[int, int]) -> ConsumerRead:
    return share(name, ranges=tuple(HashRange(*one) for one in ranges))


def test_the_stats_show_what_consumers_claim_but_pairs_of_bounds_by_a_deviation() -> None:
    claimed = [*SENT, claims("c", ONE, HIGH)]
    assert broken(*claimed, gathers(stats("c", ONE, HIGH))) is None
    assert deviation(*claimed, gathers(stats("c", (5, 40_000)))) == "claim-of-one-hash-paired"
    assert broken(*claimed, gathers(stats("c", (5, 40_000))), known=ALL_KNOWN) is None
    both = [*SENT, claims("c", ONE), claims("d", GAP)]
    assert deviation(*both, gathers(stats("c"), stats("d", GAP))) == "claim-of-one-hash-paired"


def test_ranges_in_the_stats_that_pairs_of_bounds_do_not_explain_break_a_rule() -> None:
    one = [*SENT, claims("c", ONE, HIGH)]
    assert broken(*one, gathers(stats("c", HIGH)), known=ALL_KNOWN) == "KEY-15"
    assert broken(*SENT, claims("c", LOW, HIGH), gathers(stats("c", (0, 40_000))), known=ALL_KNOWN) == "KEY-15"


def test_the_stats_of_a_consumer_without_a_pair_show_what_they_showed_before() -> None:
    before, later = (26_207, 47_230), ((0, 21_917), (32_713, 47_229))
    both = [*SENT, claims("c", (26_207, 26_207), (47_230, 65_535)), claims("d", *later)]
    assert deviation(*both, gathers(stats("c", before), stats("d", later[0]))) == "claim-of-one-hash-paired"
    assert broken(*both, gathers(stats("c", before), stats("d", later[1])), known=ALL_KNOWN) == "KEY-15"


def test_an_entry_that_is_read_twice_is_dispatched_to_no_consumer_that_does_not_claim_its_hash() -> None:
    known = "send-in-progress-cleared-early"
    begin = [*classic(IN_LOW), claims("c", LOW), gathers(share("c", 1)), claims("d", HIGH)]
    begin += [more(Position(1, 1), 2, IN_HIGH), fails("c", 1)]
    assert broken(*begin, gathers(share("c", 1, 1, again=True), share("d")), known=known) is None
    assert broken(*begin, gathers(share("c", 1, again=True), share("d", 1, again=True)), known=known) == "KEY-15"
