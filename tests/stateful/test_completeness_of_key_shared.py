"""Completeness of document 004: a broker that differs is found, by a rule that it breaks.

The broker is the reference with one difference (:mod:`model.key_shared.variants`). Exploring it shows from inside that
it breaks a rule; here the suite's machines must notice it from outside.
"""

from __future__ import annotations

from functools import partial

import pytest

from model.deviations import DEVIATIONS
from model.key_shared.variants import KeysVariant
from stateful.test_key_shared import MACHINES
from tests.lockstep.campaigns import Campaign, play, play_in_rounds
from tests.lockstep.simulated.world import SimulatedPerformer

BY_NAME = {machine.name: machine for machine in MACHINES}
ROUNDS, EXAMPLES = 6, 25
"""How many examples a machine may run, in rounds; most variants are found in the first."""

FOUND = {
    "no_draining": ("keys", {"KEY-01", "KEY-11"}),
    "never_blocked": ("keys", {"KEY-01"}),
    "replay_not_asked": ("keys", {"KEY-01"}),
    "range_blocked": ("keys", {"KEY-04"}),
    "counted_down_twice": ("keys", {"KEY-01", "KEY-11"}),
    "not_counted_down_on_disconnect": ("keys-races", {"KEY-05", "KEY-10", "KEY-11"}),
    "never_unblocked": ("keys", {"KEY-05"}),
    "own_blocked": ("keys", {"KEY-04", "KEY-07", "KEY-11"}),
    "ahead_of_replay": ("keys-again", {"KEY-02", "KEY-06", "KEY-09"}),
    "replay_reversed": ("keys-again", {"KEY-02", "KEY-09"}),
    "leaver_forgotten": ("keys", {"KEY-06", "KEY-09", "KEY-13"}),
    "closed_given": ("keys-races", {"KEY-02", "KEY-06", "KEY-09", "KEY-10"}),
    "closed_dropped": ("keys-races", {"KEY-02", "KEY-06", "KEY-09", "KEY-10"}),
    "moved_not_noticed": ("keys-races", {"KEY-01", "KEY-10", "KEY-11"}),
    "registered_late": ("keys-races", {"KEY-01", "KEY-11"}),
    "classic_by_letter": ("keys", {"KEY-16"}),
    "nack_kept": ("keys-again", {"ACK-12", "KEY-11", "SERVE-04"}),
}
"""For each variant the machine that must find it, and the rules that may be named for it."""

DEVIATING = {
    "classic": ("keys", "recently-joined-receives-replay"),
    "draining_refcount_doubled": ("keys", "draining-refcount-doubled"),
}
"""For each variant that releases resemble, a machine that meets it, and the name of the deviation."""

LIKE_THE_DOCUMENT = {
    "back_not_noticed": "a hash that came back may be shown until something of it is sent, which nobody sees",
    "replay_not_noticed": "what is sent when a message was given back may have been sent before",
}
"""Variants that look like documented behaviour from outside, and why."""


def in_rounds(name: str, switch: str, known: frozenset[str], *, to_be_met: str = "") -> Campaign:
    """Play until a violation is found, or the deviation is met."""
    machine, performer = BY_NAME[name], partial(SimulatedPerformer, keys=KeysVariant(**{switch: True}))

    def is_enough(campaign: Campaign) -> bool:
        return bool(campaign.found) or to_be_met in campaign.deviations

    return play_in_rounds(machine, performer, rounds=ROUNDS, examples=EXAMPLES, known=known, until=is_enough)


def test_every_variant_has_a_machine_or_is_not_observable() -> None:
    looked_for = [*FOUND, *DEVIATING, *LIKE_THE_DOCUMENT]
    assert sorted(looked_for) == sorted(KeysVariant.__struct_fields__)


@pytest.mark.parametrize("switch", FOUND)
def test_a_variant_is_found_by_a_rule_that_it_breaks(switch: str) -> None:
    name, rules = FOUND[switch]
    found, *_ = in_rounds(name, switch, frozenset(DEVIATIONS)).found
    assert found.violation.deviation is None
    assert found.violation.rule in rules, found.violation.because


@pytest.mark.parametrize("switch", DEVIATING)
def test_a_release_variant_is_tolerated_if_known_and_breaks_its_rule_by_name_otherwise(switch: str) -> None:
    name, deviation = DEVIATING[switch]
    known = in_rounds(name, switch, frozenset(DEVIATIONS), to_be_met=deviation)
    assert [found.violation for found in known.found] == []
    assert set(known.deviations) == {deviation}
    found, *_ = in_rounds(name, switch, frozenset(DEVIATIONS) - {deviation}).found
    assert found.violation.deviation == deviation


def test_the_classic_implementation_as_written_keeps_its_rule_and_starves_consumers() -> None:
    machine, performer = BY_NAME["keys"], partial(SimulatedPerformer, keys=KeysVariant(classic_by_letter=True))
    campaign = play(machine.factory, performer, examples=EXAMPLES, steps=machine.steps)
    assert {found.violation.rule for found in campaign.found} == {"KEY-16"}
    assert campaign.exercised["KEY-14"] > 0
