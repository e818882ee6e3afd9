"""Variants of the reference of Key_Shared, each with one difference from the document.

As in :mod:`model.deduplication.variants`, each shows what a sentence of the document is for. The classic
implementation is one of them: releases before 4.0, and 4.x with its setting.
"""

from __future__ import annotations

from functools import partial

from msgspec import Struct

from model.variants import NamedVariant, Origin, switched_on


class KeysVariant(Struct, frozen=True, kw_only=True, cache_hash=True, gc=False):
    """The differences from the document; none by default."""

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
        """Whether there are recently joined consumers instead of draining hashes."""
        return self.classic or self.classic_by_letter


DOCUMENT = KeysVariant()
"""The subscription of the document."""


_named = partial(switched_on, KeysVariant, prefix="key-")


VARIANTS: tuple[NamedVariant[KeysVariant], ...] = (
    _named(
        "classic",
        Origin.RELEASE,
        "Instead of draining hashes, a recently joined consumer receives only replays of messages that were read "
        "before, until all of those are acknowledged.",
        "PersistentStickyKeyDispatcherMultipleConsumersClassic.java:426 (4.0.8)",
    ),
    _named(
        "classic_by_letter",
        Origin.READING,
        "Instead of draining hashes, a recently joined consumer receives nothing until all messages that were read "
        "before are acknowledged.",
    ),
    _named("no_draining", Origin.DEFECT, "Reassigned hashes do not drain."),
    _named("never_blocked", Origin.DEFECT, "A draining hash does not block its messages."),
    _named("replay_not_asked", Origin.DEFECT, "A draining hash does not block replays."),
    _named("range_blocked", Origin.DEFECT, "While any hash drains, messages of all hashes are blocked."),
    _named(
        "draining_refcount_doubled",
        Origin.RELEASE,
        "The pending messages of a hash that returned without a dispatch and moved away again are added to the former "
        "count, as in the document's listing. A hash that returned leaves the set only at the next dispatch.",
        "registerDrainingHashes of PersistentStickyKeyDispatcherMultipleConsumers (4.0.4; no longer in 4.0.8)",
    ),
    _named("counted_down_twice", Origin.DEFECT, "An ack decreases the count by two."),
    _named(
        "not_counted_down_on_disconnect",
        Origin.DEFECT,
        "The pending messages of a consumer that disconnects are still counted.",
    ),
    _named(
        "never_unblocked", Origin.DEFECT, "A hash that blocked messages and has drained does not wake the dispatcher."
    ),
    _named("own_blocked", Origin.DEFECT, "A draining hash is also blocked for the consumer that drains it."),
    _named("ahead_of_replay", Origin.DEFECT, "New messages are sent before the replay queue."),
    _named("replay_reversed", Origin.DEFECT, "The replay queue is sent in reverse order."),
    _named("leaver_forgotten", Origin.DEFECT, "The pending messages of a consumer that leaves are not replayed."),
    _named("closed_given", Origin.DEFECT, "A message is added to the pending acks of a consumer that is gone."),
    _named(
        "closed_dropped",
        Origin.READING,
        "A message in flight to a consumer that is gone is neither pending nor replayed: the listing returns false "
        "before the message enters the replay queue.",
    ),
    _named(
        "moved_not_noticed",
        Origin.READING,
        "When a message is added to the pending acks, the broker checks whether its hash drains elsewhere, but not "
        "whether it still belongs to this consumer. That suffices only with a lock since the consumer was chosen.",
    ),
    _named(
        "back_not_noticed",
        Origin.READING,
        "When a message is added to the pending acks, a hash that drains at the same consumer keeps draining, and the "
        "message is not counted.",
    ),
    _named(
        "replay_not_noticed",
        Origin.RELEASE,
        "When a new message is added to the pending acks, the broker does not check whether the replay queue now has "
        "others of its hash. That suffices only under a lock, which this release holds.",
        "PersistentStickyKeyDispatcherMultipleConsumers.java:350 (4.0.8)",
    ),
    _named(
        "registered_late",
        Origin.ASSUMPTION,
        "Messages are sent between the change of the ranges and the registration of draining hashes.",
    ),
    _named("nack_kept", Origin.DEFECT, "A negatively acknowledged message is replayed and also stays pending."),
)
"""All variants."""
