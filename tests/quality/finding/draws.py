"""How the uniform machine draws operations on topics, producers, the broker and the network; None: nothing to do it to.

Every argument is uniform. Left out is what needs several clusters, brokers or bookies, or a change of the broker's
settings: operations of a deployment and on links, an unload with another implementation of Key_Shared, a restart with
another setting of deduplication, a quorum. Left out, too, are:

- delays of messages;
- topics whose consumed ledgers are deleted: without a subscription nothing keeps their messages, so most operations on
  them cannot be judged;
- termination: a terminated topic of 4.0.8 without a message refuses new subscriptions once it is reloaded, which breaks
  a rule without a defect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import get_args

from model.failpoints import FailpointKind
from model.operations import (
    AnyOperation,
    ClearFailpoints,
    ClearNetworkFaults,
    CloseProducer,
    CrashProducer,
    CreateTopic,
    CutAfterSends,
    HoldAfterSends,
    InjectNetworkFault,
    Interruption,
    Kill,
    Meanwhile,
    OpenProducer,
    ReadChunkRate,
    ReadLog,
    ReadSnapshot,
    Restart,
    Scope,
    Send,
    SetDeduplication,
    SetFailpoint,
    Switch,
    Trim,
    Unload,
    UseProxy,
)
from model.vocabulary import (
    Carried,
    Client,
    Compression,
    CutAfter,
    CutAt,
    Delay,
    Hold,
    Limits,
    LoseThenCut,
    Message,
    NetworkFault,
    Persistence,
    RefuseConnections,
    Where,
    partition_name,
)
from stateful.deduplication.plan import PlannedSession
from tests.quality.finding.names import LARGEST_BYTES, Names, Topic

Draw = Callable[[Names], AnyOperation | None]

TOPICS = ("t0", "t1")
PRODUCERS = ("p0", "p1", "p2")
LIMITS = (None, Limits(consumers=2), Limits(unacknowledged=3), Limits(in_all=3))
CRAFTING = ("w0", "w1")
"""The producers of the wire client on chunked topics."""
OF_PRODUCERS: tuple[Carried, ...] = ("PRODUCER", "PRODUCER_SUCCESS", "SEND", "SEND_RECEIPT")


def create_topic(names: Names) -> AnyOperation | None:
    chance, name = names.chance, _unused(names)
    if name is None:
        return None
    persistence: Persistence | None = chance.choice((None, *get_args(Persistence)))
    if persistence is None:
        switch: Switch = chance.choice(get_args(Switch))
        return CreateTopic(name, switch, is_timed=names.coin())
    return CreateTopic(name, persistence=persistence, partitions=chance.choice((0, 2)), limits=chance.choice(LIMITS))


def create_chunked_topic(names: Names) -> AnyOperation | None:
    name = _unused(names)
    if name is None:
        return None
    switch: Switch = names.chance.choice(("namespace-on", "namespace-off"))
    return CreateTopic(name, switch, is_chunked=True)


def _unused(names: Names) -> str | None:
    return next((name for name in TOPICS if name not in names.topics), None)


def created(names: Names, operation: CreateTopic) -> Topic:
    """The topic that an operation creates."""
    name = operation.topic
    parts = tuple(partition_name(name, number) for number in range(operation.partitions)) or (name,)
    return Topic(
        name,
        parts,
        operation.persistence,
        has_limits=operation.limits is not None,
        has_own_namespace=operation.deduplication.startswith("own-"),
        has_snapshots=operation.persistence is None and operation.deduplication.endswith("-on"),
    )


def open_producer(names: Names) -> AnyOperation | None:
    """Of either client, unless there are faults: pulsar-client hides them.

    Its sends may then never complete when sequence ids repeat.
    """
    clients: tuple[Client, ...] = ("wire",) if names.is_disturbed else get_args(Client)
    client = names.chance.choice(clients)
    return OpenProducer(names.fresh("s"), names.chance.choice(names.parts()), names.chance.choice(PRODUCERS), client)


def open_chunking_producer(names: Names) -> AnyOperation | None:
    chance, topic = names.chance, names.chance.choice(names.parts())
    if names.coin():
        return OpenProducer(names.fresh("s"), topic, chance.choice(CRAFTING))
    able = [producer for producer in PRODUCERS if (topic, producer) not in names.rated]
    if not able:
        return None
    compression: Compression = chance.choice(get_args(Compression))
    return OpenProducer(
        names.fresh("s"),
        topic,
        chance.choice(able),
        "official",
        is_chunking=names.coin(),
        compression=compression,
    )


def close_producer(names: Names) -> AnyOperation | None:
    return CloseProducer(names.chance.choice(names.sessions).name) if names.sessions else None


def crash_producer(names: Names) -> AnyOperation | None:
    return CrashProducer(names.chance.choice(names.sessions).name) if names.sessions else None


def send(names: Names) -> AnyOperation | None:
    """Any entries of the wire client; one message of pulsar-client, which may not complete if sequence ids repeat."""
    if not names.sessions:
        return None
    session = names.chance.choice(names.sessions)
    if session.client == "official":
        return Send(session.name, (names.rising_entry(session),))
    entries = tuple(names.entry(session) for _ in range(names.chance.randint(1, 5)))
    return Send(session.name, entries, wait=names.coin())


def send_payloads(names: Names) -> AnyOperation | None:
    if not names.sessions:
        return None
    session = names.chance.choice(names.sessions)
    entries = tuple(names.payload(session) for _ in range(names.chance.randint(1, 3)))
    interruption = _interruption(names, session) if session.client == "official" else None
    return Send(session.name, entries, interruption=interruption)


def _interruption(names: Names, session: PlannedSession) -> Interruption | None:
    chance = names.chance
    sends = chance.randint(1, 6)
    meanwhile: Meanwhile = chance.choice(get_args(Meanwhile))
    found: list[Interruption | None] = [None, CutAfterSends(sends, meanwhile)]
    others = [one for one in names.sessions if one.client == "official" and one != session]
    if others:
        other = chance.choice(others)
        found.append(HoldAfterSends(sends, other.name, (names.payload(other),)))
    return chance.choice(found)


def set_deduplication(names: Names) -> AnyOperation | None:
    """By the policy of a topic without partitions, or of a namespace of its own."""
    able = [topic for topic in names.topics.values() if topic.name in topic.parts]
    if not able:
        return None
    topic = names.chance.choice(able)
    scopes: tuple[Scope, ...] = ("topic", "namespace") if topic.has_own_namespace else ("topic",)
    on, in_flight = names.coin(), names.coin()
    return SetDeduplication(topic.name, names.chance.choice(scopes), on, in_flight=on and in_flight)


def unload(names: Names) -> AnyOperation | None:
    return Unload(names.chance.choice(names.parts()))


def trim(names: Names) -> AnyOperation | None:
    return Trim(names.chance.choice(names.parts()))


def read_snapshot(names: Names) -> AnyOperation | None:
    able = [part for part in names.parts() if names.topic_of(part).has_snapshots]
    return ReadSnapshot(names.chance.choice(able), due=names.coin()) if able else None


def read_log(names: Names) -> AnyOperation | None:
    return ReadLog(names.chance.choice(names.parts()))


def read_chunk_rate(names: Names) -> AnyOperation | None:
    """By a producer that sends nothing else, as nobody knows how many ids that takes."""
    able = [
        one for one in names.sessions if one.client == "official" and (one.topic, one.producer) not in names.producers
    ]
    if not able:
        return None
    session = names.chance.choice(able)
    size_bytes = names.chance.randint(1, LARGEST_BYTES)
    message = Message(1, f"{session.producer}-1", size_bytes=size_bytes, content="noise")
    return ReadChunkRate(session.topic, session.name, message)


def restart(names: Names) -> AnyOperation | None:
    return Restart()


def kill(names: Names) -> AnyOperation | None:
    return Kill()


def set_failpoint(names: Names) -> AnyOperation | None:
    if any(one.client == "official" for one in names.sessions):
        return None
    chance = names.chance
    kind: FailpointKind = chance.choice(get_args(FailpointKind))
    return SetFailpoint(
        chance.choice(names.parts()),
        kind,
        count=chance.randint(1, 3),
        delay_ms=chance.choice((5, 30, 100, 300)),
        spared=chance.randint(0, 5),
    )


def clear_failpoints(names: Names) -> AnyOperation | None:
    return ClearFailpoints()


def use_proxy(names: Names) -> AnyOperation | None:
    return UseProxy()


def inject_network_fault(names: Names) -> AnyOperation | None:
    if not names.is_proxied or any(one.client == "official" for one in names.sessions):
        return None
    return InjectNetworkFault(names.chance.choice(names.parts()), network_fault(names.chance))


def clear_network_faults(names: Names) -> AnyOperation | None:
    return ClearNetworkFaults() if names.is_proxied else None


def network_fault(chance: Random) -> NetworkFault:
    """Any fault of a producer's connection."""
    nth, kind = chance.randint(1, 6), chance.choice(OF_PRODUCERS)
    where: Where = chance.choice(get_args(Where))
    faults: tuple[NetworkFault, ...] = (
        CutAt(kind, nth, where),
        CutAfter(chance.randint(1, 800), to_broker=chance.random() < 0.5),
        LoseThenCut(kind, nth, chance.randint(1, 3)),
        Delay(kind, nth, chance.choice((5, 20, 50))),
        Hold(kind, nth),
        RefuseConnections(chance.choice((5, 50, 300))),
    )
    return chance.choice(faults)


ON_TOPICS: Mapping[type[AnyOperation], Draw] = {
    CreateTopic: create_topic,
    OpenProducer: open_producer,
    CloseProducer: close_producer,
    CrashProducer: crash_producer,
    Send: send,
    SetDeduplication: set_deduplication,
    Unload: unload,
    Trim: trim,
    ReadSnapshot: read_snapshot,
    ReadLog: read_log,
}
ON_CHUNKED_TOPICS: Mapping[type[AnyOperation], Draw] = {
    CreateTopic: create_chunked_topic,
    OpenProducer: open_chunking_producer,
    CloseProducer: close_producer,
    CrashProducer: crash_producer,
    Send: send_payloads,
    Unload: unload,
    ReadLog: read_log,
    ReadChunkRate: read_chunk_rate,
}
FAULTS: Mapping[type[AnyOperation], Draw] = {
    SetFailpoint: set_failpoint,
    ClearFailpoints: clear_failpoints,
    UseProxy: use_proxy,
    InjectNetworkFault: inject_network_fault,
    ClearNetworkFaults: clear_network_faults,
}
BOUNCES: Mapping[type[AnyOperation], Draw] = {Restart: restart, Kill: kill}
