"""Variants of the reference of Key_Shared, each with one difference from the document.

Each shows what a sentence of the document is for. The classic
implementation is one of them: releases before 4.0, and 4.x with its setting.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from model.variants import assumption, defect, reading, release, variants_of


class KeysVariant(Struct, frozen=True, kw_only=True, cache_hash=True, gc=False):
    """The differences from the document; none by default."""

    classic: Annotated[
        bool,
        release(
            "Instead of draining hashes, a recently joined consumer receives only replays of messages that were read "
            "before, until all of those are acknowledged.",
            "PersistentStickyKeyDispatcherMultipleConsumersClassic.java:426 (4.0.8)",
        ),
    ] = False
    classic_by_letter: Annotated[
        bool,
        reading(
            "Instead of draining hashes, a recently joined consumer receives nothing until all messages that were "
            "read before are acknowledged."
        ),
    ] = False
    no_draining: Annotated[bool, defect("Reassigned hashes do not drain.")] = False
    never_blocked: Annotated[bool, defect("A draining hash does not block its messages.")] = False
    replay_not_asked: Annotated[bool, defect("A draining hash does not block replays.")] = False
    range_blocked: Annotated[bool, defect("While any hash drains, messages of all hashes are blocked.")] = False
    draining_refcount_doubled: Annotated[
        bool,
        release(
            "The pending messages of a hash that returned without a dispatch and moved away again are added to the "
            "former count, as in the document's listing. A hash that returned leaves the set only at the next "
            "dispatch.",
            "registerDrainingHashes of PersistentStickyKeyDispatcherMultipleConsumers (4.0.4; no longer in 4.0.8)",
        ),
    ] = False
    counted_down_twice: Annotated[bool, defect("An ack decreases the count by two.")] = False
    not_counted_down_on_disconnect: Annotated[
        bool, defect("The pending messages of a consumer that disconnects are still counted.")
    ] = False
    never_unblocked: Annotated[
        bool, defect("A hash that blocked messages and has drained does not wake the dispatcher.")
    ] = False
    own_blocked: Annotated[bool, defect("A draining hash is also blocked for the consumer that drains it.")] = False
    ahead_of_replay: Annotated[bool, defect("New messages are sent before the replay queue.")] = False
    replay_reversed: Annotated[bool, defect("The replay queue is sent in reverse order.")] = False
    leaver_forgotten: Annotated[bool, defect("The pending messages of a consumer that leaves are not replayed.")] = (
        False
    )
    closed_given: Annotated[bool, defect("A message is added to the pending acks of a consumer that is gone.")] = False
    closed_dropped: Annotated[
        bool,
        reading(
            "A message in flight to a consumer that is gone is neither pending nor replayed: the listing returns "
            "false before the message enters the replay queue."
        ),
    ] = False
    moved_not_noticed: Annotated[
        bool,
        reading(
            "When a message is added to the pending acks, the broker checks whether its hash drains elsewhere, but "
            "not whether it still belongs to this consumer. That suffices only with a lock since the consumer was "
            "chosen."
        ),
    ] = False
    back_not_noticed: Annotated[
        bool,
        reading(
            "When a message is added to the pending acks, a hash that drains at the same consumer keeps draining, and"
            " the message is not counted."
        ),
    ] = False
    replay_not_noticed: Annotated[
        bool,
        release(
            "When a new message is added to the pending acks, the broker does not check whether the replay queue now "
            "has others of its hash. That suffices only under a lock, which this release holds.",
            "PersistentStickyKeyDispatcherMultipleConsumers.java:350 (4.0.8)",
        ),
    ] = False
    registered_late: Annotated[
        bool, assumption("Messages are sent between the change of the ranges and the registration of draining hashes.")
    ] = False
    nack_kept: Annotated[bool, defect("A negatively acknowledged message is replayed and also stays pending.")] = False

    @property
    def is_classic(self) -> bool:
        """Whether there are recently joined consumers instead of draining hashes."""
        return self.classic or self.classic_by_letter


DOCUMENT = KeysVariant()
"""The subscription of the document."""


VARIANTS = variants_of(KeysVariant, prefix="key-")
"""All variants."""
