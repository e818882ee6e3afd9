"""Operations of whole applications, as document 000 has them: sources, subscribers, and programs with a database.

An application does by itself what the document asks of it: it retries, comes back, goes on from where it was. So one
operation here is a life of it, or a part of one, and not a single command. Names are local to one history, as all are.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from model.log import Position
from model.vocabulary import Client, Entry, Operation, Outcome

# -------------------------------------------------------------------------------------------------------------- sources

GoesOn = Literal["from-checkpoint", "from-told-id", "with-new-only"]
"""Where a source that comes back goes on: behind the last entry that was confirmed to it; behind the sequence id that
the broker tells it on opening; or, being one that cannot replay, with what is new, letting go of the rest."""


class StartSource(Operation, frozen=True):
    """A life of a source begins: it opens its producer, of its own name, and sends all that it has, without waiting.

    ``entries`` is what it comes to in this life, behind all that it came to in earlier ones, under rising ids; each is
    always sent as the same entry. ``back``: how many confirmed entries it sends again, its checkpoint being old.
    """

    source: str
    topic: str
    entries: tuple[Entry, ...]
    goes_on: GoesOn = "from-checkpoint"
    back: int = 0
    client: Client = "wire"


class FinishSource(Operation, frozen=True):
    """A source's life ends in good order: it has sent again until everything was confirmed."""

    source: str


class CrashSource(Operation, frozen=True):
    """A source dies, its connection cut, once so many entries of this life have been confirmed to it."""

    source: str
    confirmed: int = 0


class Confirmed(Struct, frozen=True):
    """An entry that was confirmed, by its lowest sequence id; without a position where it was taken for a duplicate."""

    sequence_id: int
    position: Position | None


class SourceStarted(Outcome, frozen=True):
    """The source's producer is open; the broker said that this is its highest sequence id (-1: none)."""

    told: int


class SourceEnded(Outcome, frozen=True):
    """A life is over: what was confirmed in it, how many entries were not, and how often it had to open again.

    ``stalled``: how often it did so only because pulsar-client, which comes back by itself, was silent for too long.
    """

    confirmed: tuple[Confirmed, ...]
    left: int
    came_back: int
    stalled: int = 0


# ---------------------------------------------------------------------------------------------------------- subscribers

SubscriptionKind = Literal["Exclusive", "Shared"]
"""The kinds of subscriptions that document 000 needs."""

Then = Literal["stays", "closes", "crashes"]
"""What a consumer does when it has received: wait for more, close in good order, or die with its connection cut."""


class Consume(Operation, frozen=True):
    """A consumer receives up to ``count`` messages, fewer only if the broker has no more; it subscribes if it must.

    ``acks`` says for each message that it received, in turn and over and over, whether it acknowledges it.
    """

    consumer: str
    topic: str
    subscription: str
    count: int
    acks: tuple[bool, ...] = (True,)
    then: Then = "stays"
    kind: SubscriptionKind = "Exclusive"
    client: Client = "wire"


class Drain(Operation, frozen=True):
    """Whoever is connected to a subscription is cut off; one new consumer acknowledges all that there is left of it."""

    topic: str
    subscription: str
    kind: SubscriptionKind = "Exclusive"


class Delivered(Struct, frozen=True):
    """A message that an application received: the entry it is in, its place in it (-1: it is alone), and its id."""

    position: Position
    batch_index: int
    business_id: str


class Received(Outcome, frozen=True):
    """What a consumer received, and for what of it an acknowledgment was sent: for a batch, only when it is for all."""

    messages: tuple[Delivered, ...]
    acknowledged: tuple[Delivered, ...]


class Drained(Outcome, frozen=True):
    """What was left of a subscription; now the broker says that all of it is acknowledged."""

    messages: tuple[Delivered, ...]


# ------------------------------------------------------------------------------------------------------------- programs

Point = Literal["received", "state-changed", "before-commit", "committed", "acknowledged"]
"""Where a program dies: with a message that it did nothing about yet; within its transaction, the state changed and the
id not stored; all stored and not committed; right after the commit; or, a subscriber, after the acknowledgment."""


class Death(Struct, frozen=True):
    """A program kills itself with SIGKILL at the ``message``-th message of this run (from 1), at this point."""

    message: int
    point: Point


class RunReader(Operation, frozen=True):
    """Run the program of scenario 1: a reader that stores its last message id in one transaction with its state.

    It goes on behind the id in its database, and ends when it has applied what was the log's end as it began.
    """

    program: str
    topic: str
    death: Death | None = None


class RunSubscriber(Operation, frozen=True):
    """Run the program of scenario 2: a consumer that stores every business id in one transaction with its state.

    It acknowledges what it has stored, and ends when the broker says that nothing is left of its subscription.
    """

    program: str
    topic: str
    death: Death | None = None


class ReadDatabase(Operation, frozen=True):
    """Read a program's database: what it applied to its state, in that order."""

    program: str


class Ran(Outcome, frozen=True):
    """A run of a program is over: whether it was killed, and how many messages it received."""

    killed: bool
    received: int


class DatabaseRead(Outcome, frozen=True):
    """What a program applied to its state, in order; what was not committed is not there."""

    applied: tuple[Delivered, ...]


class Stuck(Outcome, frozen=True):
    """An application could not go on in good time, although the broker is up: a promise that was not kept."""

    why: str


ApplicationOperation = (
    StartSource | FinishSource | CrashSource | Consume | Drain | RunReader | RunSubscriber | ReadDatabase
)
"""Every operation of an application."""

ApplicationOutcome = SourceStarted | SourceEnded | Received | Drained | Ran | DatabaseRead | Stuck
"""Every outcome that only these have."""
