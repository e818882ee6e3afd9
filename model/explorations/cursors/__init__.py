"""The explorations of document 003: their configurations, and the expected result of each."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from model.cursors.variants import VARIANTS
from model.explorations.configured import Configurations
from model.explorations.cursors.statements import statements
from model.explorations.cursors.steps import steps
from model.explorations.cursors.world import Setup, Step, World, good_ending, initial, kinds
from model.explore import System

SETUPS: dict[str, tuple[str, Setup]] = {
    "ack-orders": (
        "six entries in three ledgers; acks one by one and cumulative, repeated, in every order",
        Setup(sizes=(1, 1, 1, 1, 1, 1), cumulative=True),
    ),
    "ack-batches": (
        "a message, two batches; acks of single messages and cumulative ones; an unload and a kill",
        Setup(sizes=(1, 2, 3), cumulative=True, unloads=1, kills=1),
    ),
    "ack-subscriptions": (
        "two subscriptions of three entries in two ledgers, which are deleted when both acknowledged them",
        Setup(subscriptions=2, cumulative=True, trims=True),
    ),
    "ack-published": (
        "two entries, two more are published; ledgers are full or belong to a former broker; an unload and a kill",
        Setup(sizes=(1, 1), publishes=2, unloads=1, kills=1, trims=True),
    ),
    "ack-persisted": (
        "three entries; the rate limiter persists one ack in an interval, the disk is slow, two kills",
        Setup(is_limited=True, is_quick=False, kills=2),
    ),
    "ack-unloaded": (
        "four entries in two ledgers, and room for one range in the metadata store; two unloads, a slow disk",
        Setup(sizes=(1, 1, 1, 1), is_quick=False, unloads=2, stored_ranges=1),
    ),
    "ack-administered": (
        "a batch between two messages; skipped, cleared, expired and reset twice, with an unload and a kill",
        Setup(sizes=(1, 2, 1), administration=2, is_limited=True, is_quick=False, kills=1),
    ),
    "ack-shared": (
        "a Shared subscription of three entries, one of them a batch; a consumer joins, two leave, an unload",
        Setup(sizes=(1, 2, 1), acks="received", consumers=2, joins=1, leaves=2, unloads=1),
    ),
    "ack-failover": (
        "a Failover subscription of three entries with cumulative acks; two consumers, of which one leaves, a kill",
        Setup(acks="received", kind="Failover", consumers=2, joins=1, leaves=1, cumulative=True, kills=1),
    ),
    "ack-held-back": (
        "clients group acks, cumulative ones too; one of two consumers closes or crashes, and an unload",
        Setup(acks="received", kind="Failover", consumers=2, leaves=1, cumulative=True, holds_back=True, unloads=1),
    ),
    "ack-nacked": (
        "two consumers of a Shared subscription, which nack three times",
        Setup(sizes=(1, 1), acks="received", consumers=2, nacks=3),
    ),
}
"""The configurations in which the document must hold."""

_LITTLE = Setup()
_RECEIVED = Setup(sizes=(1, 1), acks="received", consumers=2)
_ADMINISTERED = Setup(administration=1)

_VARIANT_SETUPS: dict[str, Setup] = {
    **dict.fromkeys(("ack-cumulative-one-too-many", "ack-cumulative-one-too-few"), Setup(cumulative=True)),
    "ack-acks-another-subscription": Setup(subscriptions=2),
    **dict.fromkeys(("ack-part-takes-whole-batch", "ack-part-ignored"), Setup(sizes=(1, 2))),
    **dict.fromkeys(
        ("ack-batch-index-acks-overwritten", "ack-backlog-of-messages"), Setup(sizes=(1, 3), cumulative=True)
    ),
    **dict.fromkeys(
        (
            "ack-reset-miscounts-backlog",
            "ack-set-one-late",
            "ack-skips-one-too-many",
            "ack-skip-all-leaves-one",
            "ack-expires-one-too-many",
        ),
        _ADMINISTERED,
    ),
    "ack-terminated-last-ledger-not-skipped": replace(_ADMINISTERED, unloads=1, is_terminated=True),
    **dict.fromkeys(
        ("ack-never-flushed", "ack-flush-rate-limited", "ack-unlimited", "ack-limited-tenfold"),
        Setup(is_limited=True, is_quick=False),
    ),
    **dict.fromkeys(
        ("ack-partial-acks-not-persisted", "ack-partial-acks-never-persisted"),
        Setup(sizes=(1, 2), is_limited=True, is_quick=False),
    ),
    **dict.fromkeys(
        ("ack-skip-rate-limited", "ack-skip-never-persisted", "ack-reset-keeps-former-ranges"),
        Setup(administration=1, is_limited=True, is_quick=False),
    ),
    **dict.fromkeys(("ack-kill-loses-all", "ack-kill-acknowledges", "ack-range-start-included"), Setup(kills=1)),
    **dict.fromkeys(
        ("ack-unload-loses-ranges", "ack-unload-goes-one-further", "ack-unload-bypasses-store"), Setup(unloads=1)
    ),
    "ack-range-limit-ignored-on-unload": Setup(sizes=(1, 1, 1, 1), unloads=2, stored_ranges=1),
    "ack-batch-index-acks-not-recovered": Setup(sizes=(1, 2), unloads=1),
    "ack-unload-while-cursor-ledger-opens": Setup(unloads=1, is_quick=False),
    **dict.fromkeys(("ack-delivered-to-two", "ack-acknowledged-delivered"), _RECEIVED),
    "ack-left-forgotten": replace(_RECEIVED, leaves=1),
    **dict.fromkeys(
        ("ack-nack-redelivers-all", "ack-nack-ignored", "ack-nack-uncounted", "ack-back-off-too-short"),
        replace(_RECEIVED, nacks=1),
    ),
    "ack-nack-backoff-missing": replace(_RECEIVED, nacks=2),
    **dict.fromkeys(("ack-close-loses-acks", "ack-crash-acknowledges"), replace(_RECEIVED, leaves=1, holds_back=True)),
    "ack-lost-ack-filters-redelivery": replace(_RECEIVED, consumers=1, unloads=1, holds_back=True),
    "ack-trims-unacknowledged": Setup(trims=True),
    "ack-entries-go-on": Setup(sizes=(1, 1), publishes=1),
    "ack-ledger-reopened": Setup(sizes=(1,), unloads=1),
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
        good_ending=good_ending,
    )


EXPLORED = Configurations(
    system=system,
    holding=SETUPS,
    given_up={},
    variants=VARIANTS,
    little=_LITTLE,
    for_variants=_VARIANT_SETUPS,
)
