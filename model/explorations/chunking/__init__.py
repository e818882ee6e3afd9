"""The explorations of document 002: their configurations, and the expected result of each."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from model.chunking.variants import VARIANTS
from model.explorations.chunking import shared as chunking_shared
from model.explorations.chunking.statements import message_of, statements, wholes
from model.explorations.chunking.world import Setup, Step, World, initial, kinds, steps
from model.explorations.configured import Configurations
from model.explore import System

TWO_PRODUCERS = (("A", (15,)), ("B", (15,)))
ONE_PRODUCER = (("A", (15, 5)),)

SETUPS: dict[str, tuple[str, Setup]] = {
    "chunk-interleaved": (
        "two producers, a message of three chunks and a small one, one message of two chunks; the consumer may crash",
        Setup(sources=(("A", (25, 5)), ("B", (15,))), crashes=1),
    ),
    "chunk-given-back": (
        "two producers, a message of two chunks each; messages are nacked, and the consumer crashes",
        Setup(sources=TWO_PRODUCERS, backs=1, crashes=1),
    ),
    "chunk-limit": (
        "two producers, two chunks each and a small message; room for one buffer; discarded chunks are redelivered",
        Setup(sources=(("A", (15, 5)), ("B", (15,))), limit=1),
    ),
    "chunk-limit-acknowledged": (
        "three producers, a message of two chunks each; room for two buffers; discarded chunks are acknowledged",
        Setup(sources=(*TWO_PRODUCERS, ("C", (15,))), limit=2, acks_discarded=True),
    ),
    "chunk-expiry": (
        "two producers, a message of two chunks each and a small one; one producer is gone, its buffer expires",
        Setup(sources=(("A", (15, 5)), ("B", (15,))), deaths=1, restart="never", expiries=1),
    ),
    "chunk-seek": (
        "two producers, a message of two chunks each; the subscription is set to any entry",
        Setup(sources=TWO_PRODUCERS, seeks=1),
    ),
    "chunk-sent-again": (
        "no deduplication; one producer, which reconnects, crashes, and sends again from its source",
        Setup(sources=ONE_PRODUCER, cuts=1, deaths=1, crashes=1),
    ),
    "chunk-new-uuids": (
        "deduplication; one producer, which crashes twice, and sends again from its source with other uuids",
        Setup(sources=ONE_PRODUCER, deaths=2, new_uuids=True, deduplication=True, unloads=1, crashes=1),
    ),
    "chunk-source-lost": (
        "deduplication; two producers, which continue with their next messages after a crash",
        Setup(sources=(("A", (15, 15)), ("B", (15,))), deaths=2, restart="with its next message", deduplication=True),
    ),
    "chunk-deduplication": (
        "deduplication; two producers reconnect, crash, and send again from their source; the topic is reloaded",
        Setup(sources=(("A", (15, 5)), ("B", (5,))), deduplication=True, cuts=1, deaths=1, unloads=1),
    ),
}
"""The configurations in which the document must hold."""

GIVEN_UP: dict[str, tuple[str, Setup]] = {
    "chunk-limit-order": (
        "the limit and the order of delivery: two producers, two chunks each and a small message; room for one buffer",
        Setup(sources=(("A", (15, 5)), ("B", (15,))), limit=1, ordered=True),
    ),
}
"""The configurations in which the document does not hold: discarded messages are redelivered out of order."""

_LITTLE = Setup(sources=TWO_PRODUCERS, crashes=1)
_LIMITED = Setup(sources=TWO_PRODUCERS, limit=1)
_RESENT = Setup(sources=(("A", (15,)),), cuts=1, deaths=1)
_DEDUPLICATED = replace(_RESENT, deduplication=True, unloads=1)

_VARIANT_SETUPS: dict[str, Setup] = {
    "chunk-two-at-once": Setup(sources=(("A", (15, 15)),)),
    "chunk-skipped": replace(_RESENT, sources=(("A", (25,)),), deaths=0),
    "chunk-buffers-survive-resubscribe": replace(_RESENT, sources=(("A", (15,)),)),
    "chunk-uuid-of-each-connection": _RESENT,
    "chunk-each-deduplicated": _DEDUPLICATED,
    "chunk-only-last-deduplicated": _DEDUPLICATED,
    "chunk-recovery-counts-unfinished": _DEDUPLICATED,
    "chunk-never-judged": _DEDUPLICATED,
    "chunk-repeated-discards-buffer": _RESENT,
    "chunk-last-delivers": _LIMITED,
    "chunk-limit-ignored": _LIMITED,
    "chunk-newest-discarded": Setup(sources=(*TWO_PRODUCERS, ("C", (15,))), limit=2),
    "chunk-discarded-not-redelivered": _LIMITED,
    "chunk-duplicates-not-acked": _RESENT,
}


def good_ending(setup: Setup, world: World) -> bool:
    """Every producer has finished or is gone. Every complete message is acknowledged or may be lost."""
    return all(
        one.is_gone or one.next_chunk == len(setup.chunks_of(one.name, one.life)) for one in world.producers
    ) and all(
        message_of(world, whole) in world.lost or world.acknowledged.issuperset(whole.entries)
        for whole in wholes(world.log)
    )


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
    )


EXPLORED = Configurations(
    system=system,
    holding=SETUPS,
    given_up=GIVEN_UP,
    variants=tuple(named for named in VARIANTS if named not in chunking_shared.EXPLORED.variants),
    little=_LITTLE,
    for_variants=_VARIANT_SETUPS,
)
