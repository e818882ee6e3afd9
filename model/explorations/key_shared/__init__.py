"""The explorations of document 004: their configurations, and the expected result of each."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from model.explorations.configured import Configurations
from model.explorations.key_shared.statements import statements
from model.explorations.key_shared.world import Setup, Step, World, good_ending, initial, kinds, merge, steps
from model.explore import System
from model.key_shared.variants import VARIANTS, KeysVariant

TWO_KEYS = ("x", "y", "x", "y")

SETUPS: dict[str, tuple[str, Setup]] = {
    "key-joins": (
        "two keys, four messages; two consumers join the first one",
        Setup(keys=TWO_KEYS, joins=2),
    ),
    "key-changes": (
        "two keys, four messages; one consumer joins the first one, any two disconnect, and another joins",
        Setup(keys=TWO_KEYS, joins=2, leaves=2, permits=1),
    ),
    "key-back-and-forth": (
        "one key, three messages; three consumers join, three disconnect",
        Setup(keys=("x", "x", "x"), joins=3, leaves=3, permits=2),
    ),
    "key-given-back": (
        "two keys, three messages; a consumer joins, one disconnects, and messages are nacked twice",
        Setup(keys=("x", "y", "x"), joins=1, leaves=1, backs=2),
    ),
    "key-one-hash": (
        "three keys, two of them of one hash; a consumer joins, one disconnects",
        Setup(keys=("x", "y", "z", "x"), same_hash=frozenset("xy"), joins=1, leaves=1),
    ),
    "key-claims": (
        "two keys, four messages; consumers claim unassigned hashes; two join the first one, one disconnects",
        Setup(keys=TWO_KEYS, joins=2, leaves=1, permits=1, claims=True),
    ),
    "key-stuck": (
        "two keys, four messages; a consumer joins one that acknowledges nothing, and may disconnect",
        Setup(keys=TWO_KEYS, joins=1, leaves=1, stuck="A"),
    ),
    "key-classic-rule": (
        "the classic implementation and its own rule: two keys, four messages; two consumers join, one disconnects",
        Setup(keys=TWO_KEYS, joins=2, leaves=1, variant=KeysVariant(classic=True), classic_rule=True),
    ),
}
"""The configurations in which the document must hold, and one in which the classic rule must."""


GIVEN_UP: dict[str, tuple[str, Setup]] = {
    "key-classic-order": (
        "the classic implementation with the rules of the document: two keys, four messages; two consumers join",
        Setup(keys=TWO_KEYS, joins=2, permits=1, variant=KeysVariant(classic=True)),
    ),
}
"""The configurations in which the document does not hold, and says so."""

_LITTLE = Setup(keys=("x", "x"), joins=1, leaves=1)

_VARIANT_SETUPS: dict[str, Setup] = {
    "key-classic": Setup(keys=("x", "x", "y"), joins=2, permits=1),
    "key-classic-by-letter": Setup(keys=("x", "x", "y"), joins=2, permits=1),
    "key-range-blocked": Setup(keys=("x", "y"), joins=1),
    "key-draining-refcount-doubled": replace(_LITTLE, joins=2),
    "key-counted-down-twice": Setup(keys=("x", "x", "x"), joins=1),
    "key-nack-kept": replace(_LITTLE, backs=1),
    "key-replay-not-noticed": replace(_LITTLE, backs=1),
}


def system(setup: Setup) -> System[World, Step]:
    """The system to explore in a configuration."""
    always, every_step = statements(setup)
    return System(
        initial=(initial(setup),),
        steps=partial(steps, setup),
        always=always,
        every_step=every_step,
        kinds=kinds(setup),
        good_ending=partial(good_ending, setup),
        merge=merge,
    )


EXPLORED = Configurations(
    system=system,
    holding=SETUPS,
    given_up=GIVEN_UP,
    variants=VARIANTS,
    little=_LITTLE,
    for_variants=_VARIANT_SETUPS,
)
