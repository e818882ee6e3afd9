"""The classic implementation of Key_Shared: a recently joined consumer waits for all that was read before (KEY-14), and
a message that nothing blocks is dispatched (KEY-16).

The read position is not known exactly. Everything up to the last delivered entry was read, and what was sent later was
not. The entries in between are not judged. A consumer may receive what was read before it joined. The rule withholds
newer messages from it. Once it is the only consumer, it waits for nothing.

An entry is due if its hash is assigned to a consumer with permits, and no earlier entry of its hash waits. While a
consumer is recently joined, the dispatcher reads no further and keeps what it read in the replay queue. So only the
first entry that may be unacknowledged is due. Entries without a key are not judged, because releases before 4.0 hash
them in another way.
"""

from __future__ import annotations

from collections.abc import Sequence

from model.judgement import Broken
from model.key_shared.liveness import Open, Receiver, due
from model.log import Position
from model.rules.catalogue import carries
from model.subscriptions.evidence import Undispatched
from model.subscriptions.state import Consumption, surely_left
from model.vocabulary import SubscriptionId


@carries("KEY-14")
def too_soon(state: Consumption, subscription: SubscriptionId, name: str, position: Position) -> Broken | None:
    """A recently joined consumer receives no new entry while one that was read before it joined is unacknowledged."""
    joined = state.keyed_of(subscription).joined.get(name)
    if joined is None or position <= joined.last or not state.consumers[name].keeps_keys:
        return None
    before = next(
        (message for message in surely_left(state, subscription) if message[1].position <= joined.delivered), None
    )
    if before is None:
        return None
    what = f"{name} received the new entry at {position} while {state.words(before)},"
    return Broken("KEY-14", f"{what} read before it joined, is unacknowledged")


def exercised_by(state: Consumption, subscription: SubscriptionId, name: str, position: Position) -> tuple[str, ...]:
    """A new entry exercises the rule if its consumer joined while there were others."""
    joined = state.keyed_of(subscription).joined.get(name)
    return ("KEY-14",) if joined is not None and position > joined.last and state.consumers[name].keeps_keys else ()


@carries("KEY-16")
def owed(
    state: Consumption,
    subscription: SubscriptionId,
    entries: Sequence[Open],
    receivers: Sequence[Receiver],
    unsure: frozenset[int],
) -> dict[Position, str]:
    """The entries that are due now, and their consumers.

    ``entries``: those that are surely unacknowledged, in order. ``unsure``: hashes that are not judged.
    """
    keys = state.log(subscription.topic).keys
    if recent(state, subscription):
        first = min((message[1].position for message in state.all_left(subscription)), default=None)
        entries = [entry for entry in entries[:1] if first is None or entry.position <= first]
    judged = (one for one in entries if one.hashed not in unsure and keys[one.position].key is not None)
    return due(judged, receivers, drains=False)


def recent(state: Consumption, subscription: SubscriptionId) -> frozenset[str]:
    """The consumers that joined after entries were read that may still be unacknowledged."""
    joined = state.keyed_of(subscription).joined
    first = min((message[1].position for message in state.all_left(subscription)), default=None) if joined else None
    return frozenset(name for name, one in joined.items() if first is not None and first <= one.last)


@carries("KEY-16")
def starved(missing: Undispatched) -> Broken:
    """A due entry is missing."""
    position, name = next(iter(missing.open.items()))
    permits = next(one.permits for one in missing.receivers if one.name == name)
    entries = ", ".join(missing.topic.log.entries[position])
    return Broken("KEY-16", f"{name} has {permits} permits, but does not receive {entries} at {position}")
