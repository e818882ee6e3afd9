"""Variants of the reference of Key_Shared: the document's subscription with one thing done differently.

As in :mod:`model.deduplication.variants`, each shows what a sentence of the document is there for. The classic
implementation is one of them: what releases before 4.0 do, and 4.x with its switch on.
"""

from __future__ import annotations

from functools import partial

from msgspec import Struct

from model.variants import NamedVariant, Origin, switched_on


class KeysVariant(Struct, frozen=True, kw_only=True, cache_hash=True, gc=False):
    """What a subscription does differently from the document; by default nothing."""

    classic: bool = False
    classic_by_letter: bool = False
    no_draining: bool = False
    never_blocked: bool = False
    replay_not_asked: bool = False
    range_blocked: bool = False
    draining_refcount_doubled: bool = False
    counted_down_twice: bool = False
    not_counted_down_on_disconnect: bool = False
    never_unblocked: bool = False
    own_blocked: bool = False
    ahead_of_replay: bool = False
    replay_reversed: bool = False
    leaver_forgotten: bool = False
    closed_given: bool = False
    closed_dropped: bool = False
    moved_not_noticed: bool = False
    back_not_noticed: bool = False
    replay_not_noticed: bool = False
    registered_late: bool = False
    nack_kept: bool = False

    @property
    def is_classic(self) -> bool:
        """Whether there are consumers that joined recently, instead of draining hashes."""
        return self.classic or self.classic_by_letter


DOCUMENT = KeysVariant()
"""The subscription as the document has it."""


_named = partial(switched_on, KeysVariant, prefix="key-")


VARIANTS: tuple[NamedVariant[KeysVariant], ...] = (
    _named(
        "classic",
        Origin.RELEASE,
        "Instead of draining hashes, a consumer that joined recently gets what was read before only as a replay, and "
        "nothing else until all of it is acknowledged.",
        "PersistentStickyKeyDispatcherMultipleConsumersClassic.java:426 (4.0.8)",
    ),
    _named(
        "classic_by_letter",
        Origin.READING,
        "Instead of draining hashes, a consumer that joined recently gets nothing at all until everything that was "
        "read before is acknowledged.",
    ),
    _named("no_draining", Origin.DEFECT, "Hashes that move to another consumer do not drain."),
    _named("never_blocked", Origin.DEFECT, "A message of a draining hash is sent all the same."),
    _named("replay_not_asked", Origin.DEFECT, "Replayed messages are sent without asking whether their hash drains."),
    _named("range_blocked", Origin.DEFECT, "While any hash drains, no message is sent that could be blocked by one."),
    _named(
        "draining_refcount_doubled",
        Origin.RELEASE,
        "The pending messages of a hash that went back unnoticed, and away again, are added to what is counted "
        "already, as in the document's listing; a hash that went back leaves the set only when it is noticed.",
        "registerDrainingHashes of PersistentStickyKeyDispatcherMultipleConsumers (4.0.4; no longer in 4.0.8)",
    ),
    _named("counted_down_twice", Origin.DEFECT, "An acknowledgment counts for two."),
    _named(
        "not_counted_down_on_disconnect",
        Origin.DEFECT,
        "The pending messages of a consumer that disconnects are still counted.",
    ),
    _named("never_unblocked", Origin.DEFECT, "Nobody is told that a hash which blocked something has drained."),
    _named("own_blocked", Origin.DEFECT, "A draining hash is blocked for the consumer that drains it, too."),
    _named("ahead_of_replay", Origin.DEFECT, "New messages are sent before those that wait for replay."),
    _named("replay_reversed", Origin.DEFECT, "The newest message that waits for replay comes first."),
    _named("leaver_forgotten", Origin.DEFECT, "What was pending at a consumer that leaves is not replayed."),
    _named("closed_given", Origin.DEFECT, "A message is added to what is pending at a consumer that is gone."),
    _named(
        "closed_dropped",
        Origin.READING,
        "A message that was on its way to a consumer which is gone is neither pending nor replayed: the listing "
        "answers no before it asks who could put it back.",
    ),
    _named(
        "moved_not_noticed",
        Origin.READING,
        "When a message is added to what is pending, it is asked whether its hash drains elsewhere, but not whether "
        "it still is this consumer's: enough only under a lock from the choice of the consumer on.",
    ),
    _named(
        "back_not_noticed",
        Origin.READING,
        "When a message is added to what is pending, a hash that drains at the same consumer goes on draining, and the "
        "message is not counted.",
    ),
    _named(
        "replay_not_noticed",
        Origin.RELEASE,
        "When a message that was just read is added to what is pending, it is not asked whether others of its hash "
        "have come to wait for replay: enough only under a lock, which this release holds.",
        "PersistentStickyKeyDispatcherMultipleConsumers.java:350 (4.0.8)",
    ),
    _named(
        "registered_late",
        Origin.ASSUMPTION,
        "Between the change of the ranges and the registering of what drains, messages are sent.",
    ),
    _named("nack_kept", Origin.DEFECT, "A negatively acknowledged message is replayed, and stays pending too."),
)
"""Every variant there is."""
