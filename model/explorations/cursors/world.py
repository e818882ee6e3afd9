"""The world in which document 003 is explored: a topic, its subscriptions and their clients.

:mod:`model.cursors.reference` is a subscription, :mod:`model.cursors.dispatch` its dispatcher, and
:mod:`model.explorations.cursors.steps` has the possible next steps.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from model.cursors import dispatch, reference
from model.cursors.acked import Acked
from model.cursors.dispatch import Dispatch
from model.cursors.log import Place, TopicLog, appended
from model.cursors.reference import CursorSubscription
from model.cursors.variants import DOCUMENT, CursorVariant
from model.judgement import Broken
from model.log import Ledgers, Position
from model.vocabulary import SubscriptionType

NAMES = "ABC"
"""The consumers, in the order in which they join."""
SUBSCRIPTIONS = "st"
FIRST_DELAY = 2
"""The delay of the first redelivery, in the units in which clients wait."""


class Setup(Struct, frozen=True, kw_only=True):
    """A small configuration: the entries of the topic, and how often each step may happen.

    ``sizes`` are how many messages each entry of the topic has, of which a ledger takes ``room``; ``publishes`` more
    are published. ``acks``: a client acks "any" message, in every order and repeatedly; or consumers, ``consumers`` at
    first and ``joins`` later, ack what they "received". With ``cumulative`` there are cumulative acks too, and with
    ``holds_back`` clients group acks and send them later. ``nacks`` is how often consumers may nack a message.

    With ``is_limited`` one ack at most is persisted in an interval, otherwise every ack; with ``is_quick`` that takes
    no time, so that there are fewer states. ``stored_ranges`` is how many ranges the metadata store takes.
    ``administration`` is how often messages may be skipped, cleared or expired, or the cursor reset. With ``trims``
    ledgers are deleted that all subscriptions acknowledged. ``is_terminated``: the topic is.
    """

    sizes: tuple[int, ...] = (1, 1, 1)
    room: int = 2
    publishes: int = 0
    subscriptions: int = 1
    acks: Literal["any", "received"] = "any"
    kind: SubscriptionType = "Shared"
    consumers: int = 0
    joins: int = 0
    leaves: int = 0
    cumulative: bool = False
    holds_back: bool = False
    nacks: int = 0
    is_limited: bool = False
    is_quick: bool = True
    unloads: int = 0
    kills: int = 0
    stored_ranges: int = 1000
    administration: int = 0
    trims: bool = False
    is_terminated: bool = False
    variant: CursorVariant = DOCUMENT


class HeldBack(Struct, frozen=True, gc=False):
    """An ack that a client has not sent yet."""

    place: Place
    is_cumulative: bool


class Nacked(Struct, frozen=True, gc=False):
    """A message whose redelivery a client requests after its delay, and how long it has waited."""

    position: Position
    waited: int = 0


class AckingClient(Struct, frozen=True, gc=False):
    """A consumer's client: its grouped acks, its nacked messages, and those that it hides from the application."""

    name: str
    held_back: tuple[HeldBack, ...] = ()
    nacked: tuple[Nacked, ...] = ()
    hidden: frozenset[Place] = frozenset()


class World(Struct, frozen=True, cache_hash=True, gc=False):
    """A state of the exploration. Consumers are those of the first subscription.

    ``persisted_lately`` has, for each subscription, whether an ack was persisted in the current interval.
    """

    log: TopicLog
    ledgers: Ledgers
    subscriptions: tuple[CursorSubscription, ...]
    dispatch: Dispatch
    clients: tuple[AckingClient, ...]
    persisted_lately: tuple[bool, ...]
    publishes: int
    joins: int
    leaves: int
    nacks: int
    unloads: int
    kills: int
    administration: int
    stored_ranges: int
    deleted: int = 0
    is_reopened: bool = False

    def client(self, name: str) -> AckingClient:
        """A consumer's client."""
        return next(client for client in self.clients if client.name == name)

    def with_client(self, changed: AckingClient) -> World:
        """The world with this client changed."""
        return replace(self, clients=tuple(changed if one.name == changed.name else one for one in self.clients))


class Step(Struct, frozen=True, gc=False):
    """A transition: its kind, its description, and its subject."""

    kind: str
    words: str
    subscription: int = 0
    places: tuple[Place, ...] = ()
    consumer: str = ""
    position: Position | None = None
    number: int = 0

    def __str__(self) -> str:
        return self.words


def kinds(setup: Setup) -> frozenset[str]:
    """The kinds of steps that can happen in this configuration."""
    received = setup.acks == "received"
    conditional = {
        "acks": not setup.holds_back,
        "acks up to": setup.cumulative and not setup.holds_back,
        "holds back": setup.holds_back,
        "sends acks": setup.holds_back,
        "interval": setup.is_limited,
        "flush": setup.is_limited,
        "written": not setup.is_quick,
        "published": setup.publishes > 0,
        "unload": setup.unloads > 0,
        "kill": setup.kills > 0,
        "skip": setup.administration > 0,
        "skip all": setup.administration > 0,
        "expire": setup.administration > 0,
        "reset": setup.administration > 0,
        "deletes": setup.trims,
        "sent": received,
        "joins": setup.joins > 0,
        "closes": setup.leaves > 0,
        "crashes": setup.leaves > 0,
        "active": setup.kind == "Failover" and setup.consumers + setup.joins > 1,
        "nacks": setup.nacks > 0,
        "waits": setup.nacks > 0,
        "redelivers": setup.nacks > 0,
    }
    return frozenset(kind for kind, is_possible in conditional.items() if is_possible)


def initial(setup: Setup) -> World:
    """Subscriptions at the beginning of a topic, with their first consumers."""
    log, ledgers = TopicLog(room=setup.room), Ledgers(setup.room)
    for size in setup.sizes:
        longer = append(log, ledgers.next_position, size)
        assert not isinstance(longer, Broken)
        log, ledgers = longer, ledgers.after_append()
    names = NAMES[: setup.consumers]
    to = Dispatch(variant=setup.variant, kind=setup.kind)
    for name in names:
        to = dispatch.join(to, name)
    return World(
        log,
        ledgers,
        tuple(reference.created(Acked(), setup.variant) for _ in range(setup.subscriptions)),
        dispatch.elect(to, names[0]) if setup.kind == "Failover" else to,
        tuple(AckingClient(name) for name in names),
        (False,) * setup.subscriptions,
        setup.publishes,
        setup.joins,
        setup.leaves,
        setup.nacks,
        setup.unloads,
        setup.kills,
        setup.administration,
        setup.stored_ranges,
    )


def append(log: TopicLog, position: Position, size: int) -> TopicLog | Broken:
    """The log with one more entry, of so many messages."""
    return appended(log, position, tuple(f"{position}/{index}" for index in range(size)))


def is_dirty(subscription: CursorSubscription) -> bool:
    """Whether something is acknowledged that is not persisted, nor about to be."""
    newest = subscription.writes[-1] if subscription.writes else subscription.persisted
    return reference.record_of(subscription.acked) != newest


def closed(world: World) -> tuple[int, ...]:
    """The ledgers that are full or belong to a former broker."""
    return tuple(ledger for ledger in world.log.ledgers if ledger < world.ledgers.next_position.ledger)


def in_words(place: Place) -> str:
    """A message in words: its position, and its place in the batch."""
    return f"{place.position}" + (f" ({place.batch_index})" if place.batch_index >= 0 else "")


def good_ending(world: World) -> bool:
    """Everything is acknowledged in every subscription, and persisted."""
    return all(
        one.acked.count_left(world.log) == 0 and not one.writes and not is_dirty(one) for one in world.subscriptions
    )
