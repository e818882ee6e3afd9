"""How the uniform machine draws operations on subscriptions, of consumers and of applications, as :mod:`.draws`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from model.operations import (
    AnyOperation,
    Consume,
    CrashSource,
    CreateTopic,
    Death,
    Drain,
    FinishSource,
    GoesOn,
    Point,
    ReadDatabase,
    RunReader,
    RunSubscriber,
    StartSource,
    Switch,
    Then,
)
from model.subscription_operations import (
    AckById,
    Acknowledge,
    AwaitPersisted,
    CloseConsumer,
    CrashConsumer,
    CreateSubscription,
    CutConnection,
    CutDuring,
    DeleteSubscription,
    Expire,
    Nack,
    NackRepeatedly,
    PeekMessage,
    Permit,
    ReadCursor,
    ReadStoredCursor,
    Receive,
    ReceiveAll,
    ReceiveDue,
    ResetCursor,
    Seek,
    Skip,
    SkipAll,
    Subscribe,
)
from model.vocabulary import (
    Carried,
    Client,
    CutAfter,
    CutAt,
    Entry,
    LoseThenCut,
    Message,
    Start,
    SubscriptionId,
    SubscriptionType,
    Where,
)
from tests.quality.finding.draws import TOPICS, Draw
from tests.quality.finding.names import Names, OpenConsumer, Source

SUBSCRIPTIONS = ("s0", "s1", "s2")
KIND: SubscriptionType = "Exclusive"
"""The type of the subscription that applications consume from."""
QUEUES = (0, 2, 100)
SOURCES = ("a0", "a1", "a2")
OF_CONSUMERS: tuple[Carried, ...] = ("FLOW", "MESSAGE", "ACK", "ACK_RESPONSE")
LARGEST_HASH = 65535
READER, SUBSCRIBER = "reader", "subscriber"
BUSINESS_IDS = 4
"""How many business ids there are on the topic whose messages repeat them."""


def create_subscription(names: Names) -> AnyOperation | None:
    start: Start = names.chance.choice(get_args(Start))
    return CreateSubscription(names.chance.choice(names.parts()), names.chance.choice(SUBSCRIPTIONS), start)


def delete_subscription(names: Names) -> AnyOperation | None:
    return DeleteSubscription(*one) if (one := _without_reconnecting(names)) else None


def skip(names: Names) -> AnyOperation | None:
    return Skip(*one, names.chance.randint(1, 5)) if (one := _subscription(names)) else None


def skip_all(names: Names) -> AnyOperation | None:
    return SkipAll(*one) if (one := _subscription(names)) else None


def expire(names: Names) -> AnyOperation | None:
    one = _subscription(names)
    sent = names.topic_of(one.topic).sent if one else []
    return Expire(*one, names.chance.choice(sent)) if one and sent else None


def reset_cursor(names: Names) -> AnyOperation | None:
    one = _without_reconnecting(names)
    return ResetCursor(*one, _message(names, one.topic), names.coin()) if one else None


def read_cursor(names: Names) -> AnyOperation | None:
    return ReadCursor(*one) if (one := _subscription(names)) else None


def peek_message(names: Names) -> AnyOperation | None:
    return PeekMessage(*one, names.chance.randint(1, 4)) if (one := _subscription(names)) else None


def read_stored_cursor(names: Names) -> AnyOperation | None:
    return ReadStoredCursor(*one) if (one := _subscription(names)) else None


def await_persisted(names: Names) -> AnyOperation | None:
    """Where that takes no longer than two seconds; as shipped it takes ten."""
    quick = {
        part for topic in names.topics.values() if topic.persistence not in (None, "shipped") for part in topic.parts
    }
    able = sorted(one for one in names.subscriptions if one.topic in quick)
    return AwaitPersisted(*names.chance.choice(able)) if able else None


def receive_all(names: Names) -> AnyOperation | None:
    kind: SubscriptionType = names.chance.choice(get_args(SubscriptionType))
    return ReceiveAll(*one, kind) if (one := _subscription(names)) else None


def receive_due(names: Names) -> AnyOperation | None:
    return ReceiveDue(*one) if (one := _subscription(names)) else None


def receive_chunked(names: Names) -> AnyOperation | None:
    return ReceiveDue(*one.id) if (one := _consumer(names)) else None


def nack_repeatedly(names: Names) -> AnyOperation | None:
    return NackRepeatedly(names.chance.choice(able), names.chance.randint(2, 3)) if (able := names.written()) else None


def subscribe(names: Names) -> AnyOperation | None:
    """Of either client; a partitioned topic has consumers of pulsar-client only, and none of Key_Shared."""
    chance = names.chance
    topic = chance.choice(list(names.topics.values()))
    is_partitioned = topic.name not in topic.parts
    client: Client = "official" if is_partitioned else chance.choice(get_args(Client))
    kinds = [kind for kind in get_args(SubscriptionType) if not (is_partitioned and kind == "Key_Shared")]
    kind: SubscriptionType = chance.choice(kinds)
    start: Start = chance.choice(get_args(Start))
    name, subscription = names.fresh("c"), chance.choice(SUBSCRIPTIONS)
    if client == "official":
        return Subscribe(name, topic.name, subscription, kind, client, start, queue=chance.choice((1, 3, 100)))
    if kind == "Exclusive" and names.coin():  # of a name of its own: it ends with this consumer
        return Subscribe(
            name, topic.name, f"with-{name}", kind, start=start, durable=False, queue=chance.choice(QUEUES)
        )
    bounds = sorted((chance.randint(0, LARGEST_HASH), chance.randint(0, LARGEST_HASH)))
    is_keyed = kind == "Key_Shared"
    return Subscribe(
        name,
        topic.name,
        subscription,
        kind,
        start=start,
        queue=chance.choice(QUEUES),
        known_as=chance.choice((None, "x", "y")),
        sticky=((bounds[0], bounds[1]),) if is_keyed and names.coin() else (),
        out_of_order=is_keyed and names.coin(),
        proxied=names.coin(),
    )


def subscribe_to_chunked(names: Names) -> AnyOperation | None:
    chance = names.chance
    kind: SubscriptionType = chance.choice(get_args(SubscriptionType))
    return Subscribe(
        names.fresh("c"),
        chance.choice(names.parts()),
        chance.choice(SUBSCRIPTIONS),
        kind,
        "official",
        queue=chance.choice((1, 2, 1000)),
        max_pending_chunked=chance.randint(0, 2),
        acks_oldest_chunked=names.coin(),
    )


def close_consumer(names: Names) -> AnyOperation | None:
    return CloseConsumer(one.name) if (one := _consumer(names)) else None


def crash_consumer(names: Names) -> AnyOperation | None:
    return CrashConsumer(one.name) if (one := _consumer(names)) else None


def permit(names: Names) -> AnyOperation | None:
    return Permit(one.name, names.chance.randint(1, 9)) if (one := _consumer(names, "wire")) else None


def receive(names: Names) -> AnyOperation | None:
    return Receive(one.name, names.chance.randint(1, 9)) if (one := _consumer(names)) else None


def acknowledge(names: Names) -> AnyOperation | None:
    return _acknowledge(names, one) if (one := _receiver(names)) else None


def acknowledge_messages(names: Names) -> AnyOperation | None:
    return Acknowledge(one.name, _nth(names)) if (one := _receiver(names)) else None


def ack_by_id(names: Names) -> AnyOperation | None:
    one = _consumer(names, "wire")
    sent = names.topic_of(one.id.topic).sent if one else []
    if one is None or not sent:
        return None
    ids = tuple(names.chance.sample(sent, min(len(sent), names.chance.randint(1, 3))))
    return AckById(one.name, ids, cumulative=names.coin())


def nack(names: Names) -> AnyOperation | None:
    one = _receiver(names)
    return Nack(one.name, names.chance.choice((None, _nth(names)))) if one else None


def seek(names: Names) -> AnyOperation | None:
    one = _consumer(names, "wire")
    if one is not None and one.id in {other.id for other in names.official()}:
        return None  # as in _without_reconnecting
    return Seek(one.name, _message(names, one.id.topic), names.coin()) if one else None


def cut_during(names: Names) -> AnyOperation | None:
    proxied = [one for one in names.consumers if one.is_proxied]
    if not proxied:
        return None
    chance, consumer = names.chance, names.chance.choice(proxied)
    doing: Receive | Acknowledge = Receive(consumer.name, chance.randint(1, 9))
    if consumer.has_received and names.coin():
        doing = _acknowledge(names, consumer)
    nth, kind = chance.randint(1, 6), chance.choice(OF_CONSUMERS)
    where: Where = chance.choice(get_args(Where))
    faults = (CutAt(kind, nth, where), CutAfter(chance.randint(1, 800), names.coin()), LoseThenCut(kind, nth))
    return CutDuring(doing, chance.choice(faults))


def cut_connection(names: Names) -> AnyOperation | None:
    return CutConnection(one.name) if (one := _consumer(names, "official")) else None


def move_chunked(names: Names, move: type[Skip | Expire | ResetCursor]) -> AnyOperation | None:
    able = sorted(one for one in names.subscriptions if one.topic in names.written())
    return move(*names.chance.choice(able), names.chance.randint(0, 9)) if able else None


def _subscription(names: Names) -> SubscriptionId | None:
    return names.chance.choice(sorted(names.subscriptions)) if names.subscriptions else None


def _without_reconnecting(names: Names) -> SubscriptionId | None:
    """A subscription without consumers of pulsar-client.

    These reconnect by themselves some time after the broker disconnected them, which the model does not follow.
    """
    reconnecting = {(part, one.id.name) for one in names.official() for part in names.topic_of(one.id.topic).parts}
    able = sorted(names.subscriptions - reconnecting)
    return names.chance.choice(able) if able else None


def _consumer(names: Names, client: Client | None = None) -> OpenConsumer | None:
    able = [one for one in names.consumers if client in (None, one.client)]
    return names.chance.choice(able) if able else None


def _receiver(names: Names) -> OpenConsumer | None:
    """A consumer that should have received something."""
    able = [one for one in names.consumers if one.has_received]
    return names.chance.choice(able) if able else None


def _message(names: Names, topic: str) -> str | None:
    return names.chance.choice((None, *names.topic_of(topic).sent))


def _nth(names: Names) -> tuple[int, ...]:
    return tuple(names.chance.sample(range(10), names.chance.randint(1, 4)))


def _acknowledge(names: Names, consumer: OpenConsumer) -> Acknowledge:
    """Of a partitioned topic not cumulatively, which pulsar-client does partition by partition."""
    is_partitioned = consumer.id.topic not in names.parts()
    if is_partitioned or names.coin():
        return Acknowledge(consumer.name, _nth(names))
    return Acknowledge(consumer.name, (names.chance.randrange(10),), cumulative=True)


# -------------------------------------------------------------------------------------------------------- applications


def create_topic_of_applications(names: Names) -> AnyOperation | None:
    """The first topic has deduplication, and sources with business ids of their own; on the second they repeat."""
    if not names.topics:
        return CreateTopic(TOPICS[0])
    if len(names.topics) == len(TOPICS):
        return None
    switch: Switch = names.chance.choice(("namespace-on", "namespace-off"))
    return CreateTopic(TOPICS[1], switch)


def start_source(names: Names) -> AnyOperation | None:
    chance, used = names.chance, {one.name for one in names.sources}
    unused = [Source(name, "", chance.choice(get_args(GoesOn)), "wire") for name in SOURCES if name not in used]
    able = [*unused, *(one for one in names.sources if not one.is_started)]
    if not able:
        return None
    source = chance.choice(able)
    if source.name not in used:
        source.topic, source.client = chance.choice(names.parts()), chance.choice(get_args(Client))
    return StartSource(
        source.name,
        source.topic,
        _entries(names, source),
        source.goes_on,
        back=chance.randint(0, 3) if source.goes_on == "from-checkpoint" else 0,
        client=source.client,
    )


def _entries(names: Names, source: Source) -> tuple[Entry, ...]:
    """With pulsar-client they are single messages: its batches have no highest id."""
    entries, highest = [], source.highest
    for _ in range(names.chance.randint(1, 6)):
        size = names.chance.randint(1, 3) if source.client == "wire" else 1
        numbers = range(highest + 1, highest + 1 + size)
        highest += size
        repeats = source.topic == TOPICS[1]
        ids = (f"{source.name}-{number % BUSINESS_IDS if repeats else number}" for number in numbers)
        entries.append(Entry(tuple(map(Message, numbers, ids))))
    return tuple(entries)


def finish_source(names: Names) -> AnyOperation | None:
    started = [one for one in names.sources if one.is_started]
    return FinishSource(names.chance.choice(started).name) if started else None


def crash_source(names: Names) -> AnyOperation | None:
    started = [one for one in names.sources if one.is_started]
    return CrashSource(names.chance.choice(started).name, names.chance.randint(0, 6)) if started else None


def consume(names: Names) -> AnyOperation | None:
    """Its name tells which client a consumer is, so that it is always the same."""
    chance = names.chance
    client: Client = chance.choice(get_args(Client))
    then: Then = chance.choice(get_args(Then))
    acks = tuple(names.coin() for _ in range(chance.randint(1, 3)))
    name = f"{chance.choice(('c0', 'c1'))}-{client}"
    return Consume(name, TOPICS[0], SUBSCRIPTIONS[0], chance.randint(1, 9), acks, then, KIND, client)


def drain(names: Names) -> AnyOperation | None:
    return Drain(TOPICS[0], SUBSCRIPTIONS[0], KIND) if names.has_consumed else None


def run_reader(names: Names) -> AnyOperation | None:
    points = [point for point in get_args(Point) if point != "acknowledged"]  # a reader acknowledges nothing
    return RunReader(READER, TOPICS[0], _death(names, points))


def run_subscriber(names: Names) -> AnyOperation | None:
    return RunSubscriber(SUBSCRIBER, TOPICS[1], _death(names, get_args(Point))) if TOPICS[1] in names.topics else None


def _death(names: Names, points: tuple[Point, ...] | list[Point]) -> Death | None:
    return names.chance.choice((None, Death(names.chance.randint(1, 8), names.chance.choice(points))))


def read_database(names: Names) -> AnyOperation | None:
    return ReadDatabase(names.chance.choice(sorted(names.programs))) if names.programs else None


OF_CONSUMERS_AND_CURSORS: Mapping[type[AnyOperation], Draw] = {
    CreateSubscription: create_subscription,
    DeleteSubscription: delete_subscription,
    Skip: skip,
    SkipAll: skip_all,
    Expire: expire,
    ResetCursor: reset_cursor,
    ReadCursor: read_cursor,
    PeekMessage: peek_message,
    ReadStoredCursor: read_stored_cursor,
    AwaitPersisted: await_persisted,
    ReceiveAll: receive_all,
    ReceiveDue: receive_due,
    NackRepeatedly: nack_repeatedly,
    Subscribe: subscribe,
    CloseConsumer: close_consumer,
    CrashConsumer: crash_consumer,
    Permit: permit,
    Receive: receive,
    Acknowledge: acknowledge,
    AckById: ack_by_id,
    Nack: nack,
    Seek: seek,
    CutDuring: cut_during,
    CutConnection: cut_connection,
}
OF_CHUNKS: Mapping[type[AnyOperation], Draw] = {
    Subscribe: subscribe_to_chunked,
    CloseConsumer: close_consumer,
    CrashConsumer: crash_consumer,
    ReceiveDue: receive_chunked,
    Acknowledge: acknowledge_messages,
    Nack: nack,
    Skip: lambda names: move_chunked(names, Skip),
    Expire: lambda names: move_chunked(names, Expire),
    ResetCursor: lambda names: move_chunked(names, ResetCursor),
}
OF_APPLICATIONS: Mapping[type[AnyOperation], Draw] = {
    CreateTopic: create_topic_of_applications,
    StartSource: start_source,
    FinishSource: finish_source,
    CrashSource: crash_source,
    Consume: consume,
    Drain: drain,
    RunReader: run_reader,
    RunSubscriber: run_subscriber,
    ReadDatabase: read_database,
}
