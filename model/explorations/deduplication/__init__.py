"""The explorations of document 000: their configurations, and the expected result of each.

The first ones are of the document itself and must hold. Two more show its limits: a snapshot has only so much
room, and a source that is replayed in other batches is another source. Those of the variants show what breaks
without a sentence of the document, and what breaks in releases.
"""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from model.deduplication.variants import VARIANTS
from model.explorations.configured import Configurations
from model.explorations.deduplication.statements import statements
from model.explorations.deduplication.world import Setup, Step, World, good_ending, initial, kinds, merge, steps
from model.explore import System
from model.vocabulary import Message


def source(name: str, *ids: int) -> tuple[str, tuple[Message, ...]]:
    """A producer's source with these sequence ids; every other message has the same business id."""
    return name, tuple(Message(i, f"{name.lower()}{n % 2}") for n, i in enumerate(ids))


A, B = source("A", 1, 3, 4), source("B", 1, 3, 4)
SHORT_A, SHORT_B = source("A", 1, 3), source("B", 1)
SINGLE_AND_BATCH = ((1,), (2,), ())
ANY_BATCHES = ((1, 2), (1, 2), (1,))

SETUPS: dict[str, tuple[str, Setup]] = {
    "crashes": (
        "two producers, three ids each; snapshots; the broker crashes once, at any point",
        Setup(sources=(A, B), snapshots=True, crashes=1, restart=None),
    ),
    "failed-writes": (
        "two producers, three ids each; one write fails, at any point",
        Setup(sources=(A, B), failures=1, restart=None),
    ),
    "everything": (
        "one producer, three ids, which may crash; snapshots; two crashes, two failed writes",
        Setup(sources=(A,), window=3, snapshots=True, crashes=2, failures=2),
    ),
    "batches": (
        "one producer, a message and a batch, all sent again by each new process; a crash, a failed write",
        Setup(
            sources=(A,),
            batch_sizes=SINGLE_AND_BATCH,
            snapshots=True,
            crashes=1,
            failures=1,
            restart="from the beginning",
        ),
    ),
    "no-replay": (
        "one producer, which may crash and whose source cannot replay; a crash, a failed write",
        Setup(sources=(A,), snapshots=True, crashes=1, failures=1, restart="with its next message"),
    ),
    "switched-off": (
        "one producer, deduplication off; a crash",
        Setup(sources=(A,), deduplication=False, crashes=1, reconnects=1, restart=None),
    ),
    "switched": (
        "one producer; deduplication is switched on, off and on again",
        Setup(sources=(A,), deduplication=False, switches=3, reconnects=2, restart=None),
    ),
}
"""The configurations in which the document must hold."""

GIVEN_UP: dict[str, tuple[str, Setup]] = {
    "room-for-one": (
        "two producers, snapshots with room for one; a crash",
        Setup(sources=(SHORT_A, SHORT_B), snapshots=True, crashes=1, max_producers=1),
    ),
    "other-batches": (
        "one producer, whose new process makes other batches of the same messages",
        Setup(sources=(A,), batch_sizes=ANY_BATCHES, restart="from the beginning"),
    ),
}
"""The configurations in which the document does not promise everything."""

_LONE = Setup(sources=(SHORT_A,), snapshots=True, crashes=1, failures=1)
_PAIR = Setup(sources=(SHORT_A, SHORT_B), snapshots=True, crashes=1, max_producers=1, restart=None)
_BATCH = Setup(sources=(SHORT_A,), batch_sizes=ANY_BATCHES[1:], snapshots=True, crashes=1, restart="from the beginning")
_SWITCHED = Setup(sources=(SHORT_A,), deduplication=False, switches=1, reconnects=2, restart=None)

_VARIANT_SETUPS: dict[str, Setup] = {
    "judged-when-off": _SWITCHED,
    "deduplication-enabled-in-flight": _SWITCHED,
    "shared-maps": replace(_PAIR, max_producers=2),
    "snapshot-not-cut": _PAIR,
    "overlapping-batch-dropped": _BATCH,
    "batch-without-highest-id": _BATCH,
    "replay-counts-lowest": _BATCH,
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
        good_ending=partial(good_ending, setup) if setup.reconnects is None else None,
        merge=merge,
    )


EXPLORED = Configurations(
    system=system,
    holding=SETUPS,
    given_up=GIVEN_UP,
    variants=VARIANTS,
    little=_LONE,
    for_variants=_VARIANT_SETUPS,
)
