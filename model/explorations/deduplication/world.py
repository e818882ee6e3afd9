"""A topic with its producers, and every possible next step: the system that document 000's exploration visits.

A :class:`Setup` limits it: few producers, few ids, few writes in flight, few crashes and failed writes. A
producer that reconnects before its write completes loses the confirmation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, assert_never

from msgspec import Struct
from msgspec.structs import replace

from model.deduplication import reference as broker
from model.deduplication import reference_producer as client
from model.deduplication.producer_state import UNKNOWN_STATUS
from model.deduplication.reference import SessionAnswers, Snapshot, Topic
from model.deduplication.reference_producer import Producer, Source
from model.deduplication.variants import DOCUMENT, Variant
from model.events import Duplicate, LoggedEntry, Opened, Refused
from model.log import Ledgers, Position
from model.vocabulary import Entry

Restart = Literal["from the id it learns", "from the beginning", "with its next message"]
"""How a producer continues after a crash: with two replayable sources, and with one that cannot replay."""


class Setup(Struct, frozen=True, kw_only=True):
    """A small configuration: the messages of each producer, and how often each fault may happen.

    ``sources`` are the producers' messages, ``batch_sizes`` the sizes that a batch may have, message by message that it
    begins with (nothing: no batches), ``window`` how many writes may be in flight at once. ``crashes``, ``failures``,
    ``switches`` (of deduplication) and ``reconnects`` happen at most so many times; ``reconnects`` of None is any
    number, and without end where repeated ids are stored.
    """

    sources: tuple[tuple[str, Source], ...]
    batch_sizes: tuple[tuple[int, ...], ...] = ()
    window: int = 2
    deduplication: bool = True
    max_producers: int = 10
    snapshots: bool = False
    crashes: int = 0
    failures: int = 0
    switches: int = 0
    reconnects: int | None = None
    restart: Restart | None = "from the id it learns"
    variant: Variant = DOCUMENT

    def source(self, producer: str) -> Source:
        """The messages of this producer."""
        return next(source for name, source in self.sources if name == producer)

    def sizes(self, taken: int) -> tuple[int, ...]:
        """The sizes that a batch may have that begins with the message of this index."""
        return self.batch_sizes[taken] if self.batch_sizes else (1,)


class World(Struct, frozen=True, cache_hash=True, gc=False):
    """A state of the exploration: the topic, its producers, and how often each fault may still happen."""

    topic: Topic
    producers: tuple[Producer, ...]
    crashes: int
    failures: int
    switches: int
    reconnects: int | None

    def producer(self, name: str) -> Producer:
        """The producer of this name."""
        return next(producer for producer in self.producers if producer.name == name)

    def with_producer(self, changed: Producer) -> World:
        """The world with this producer changed."""
        return replace(self, producers=tuple(changed if p.name == changed.name else p for p in self.producers))


class Step(Struct, frozen=True, gc=False):
    """A transition: its kind, its producer and entry, the answers, and its description."""

    kind: str
    words: str
    producer: str = ""
    entry: Entry | None = None
    answers: SessionAnswers = ()
    learned: int | None = None

    def __str__(self) -> str:
        return self.words


_ONE_LEDGER = 1000
"""As many entries as fit into a ledger here: all. Only the order of positions matters to deduplication."""

Next = Iterator[tuple[Step, World]]
"""The possible next steps, each with the world after it."""


def kinds(setup: Setup) -> frozenset[str]:
    """The kinds of steps that can happen in this configuration."""
    possible = {"connect", "stored", "stored unheard"}
    if setup.deduplication or setup.switches:
        possible |= {"new", "duplicate", "unknown"}
    if not setup.deduplication:
        possible |= {"unjudged"}
    conditional = {
        "restart": setup.restart is not None,
        "crash": setup.crashes > 0,
        "snapshot": setup.snapshots,
        "snapshot fails": setup.snapshots,
        "write fails": setup.failures > 0,
        "not ready": setup.failures > 0 and setup.window > 1,
        "switched on": setup.switches > 0 and not setup.deduplication,
        "switched off": setup.switches > 1 or (setup.switches > 0 and setup.deduplication),
    }
    return frozenset(possible | {kind for kind, is_possible in conditional.items() if is_possible})


def initial(setup: Setup) -> World:
    """An empty topic, and producers that have not connected yet."""
    topic = broker.new_topic(
        deduplication=setup.deduplication,
        entries_per_ledger=_ONE_LEDGER,
        max_producers=setup.max_producers,
        variant=setup.variant,
    )
    producers = tuple(Producer(name) for name, _ in setup.sources)
    return World(topic, producers, setup.crashes, setup.failures, setup.switches, setup.reconnects)


def steps(setup: Setup, world: World) -> Next:
    """Every possible next step."""
    for producer in world.producers:
        if producer.connected:
            yield from sends(setup, world, producer)
        yield from connections(setup, world, producer)
    if world.topic.in_flight:
        yield from completions(world)
        yield from failures(world)
    if setup.snapshots and world.crashes and world.topic.snapshot is not None:
        yield from snapshots(world)
    yield from crashes(world)
    yield from switches(world)
    if world.topic.variant.inactive_forgotten:
        yield from absences(world)


def sends(setup: Setup, world: World, producer: Producer) -> Next:
    """The producer sends one of its next possible entries."""
    if len(world.topic.in_flight) >= setup.window:
        return
    source = setup.source(producer.name)
    sizes = setup.sizes(producer.taken) if producer.taken < len(source) else ()
    for entry in client.next_entries(producer, source, sizes):
        again = " again" if producer.waiting else ""
        topic, answers = broker.send(world.topic, producer.name, entry)
        after = hear(replace(world, topic=topic).with_producer(client.sent(producer, entry)), answers)
        kind, what = outcome_of_send(world.topic, answers)
        words = f"{producer.name} sends {entry}{again}: {what}"
        yield Step(kind, words, producer=producer.name, entry=entry, answers=answers), after


def outcome_of_send(topic: Topic, answers: SessionAnswers) -> tuple[str, str]:
    """The kind of a send by its result, and the result in words."""
    if not answers:
        return ("new", "it is new") if topic.snapshot is not None else ("unjudged", "it is not judged")
    match answers[0].answer:
        case Duplicate():
            return "duplicate", "confirmed as a duplicate"
        case Refused(code) if code == UNKNOWN_STATUS:
            return "unknown", "of unknown status, an error"
        case Refused(code):
            return "not ready" if code == broker.NOT_READY else "refused", f"refused ({code})"
        case _:
            raise AssertionError(f"{answers[0].answer} is no answer to give at once")


def hear(world: World, answers: SessionAnswers) -> World:
    """The producers receive these answers."""
    for message in answers:
        listener = world.producer(message.session)
        world = world.with_producer(client.heard(listener, message.entry, message.answer))
    return world


def connections(setup: Setup, world: World, producer: Producer) -> Next:
    """The producer connects or reconnects with its state, or crashes and a new one connects."""
    reconnects = world.reconnects
    topic = world.topic
    if producer.connected:
        if reconnects == 0:
            return
        reconnects = None if reconnects is None else reconnects - 1
        topic = broker.cut(topic, producer.name)
    topic, opened = broker.open_producer(topic, producer.name, producer.name)
    if not isinstance(opened, Opened):
        return
    learned = opened.last_sequence_id
    assert learned is not None
    after = replace(world, topic=topic, reconnects=reconnects)
    sentence = f"{producer.name} {{}}: last sequence id {learned}"
    if not producer.connected or producer.unconfirmed:
        verb = "reconnects" if producer.connected else "connects"
        step = Step("connect", sentence.format(verb), producer=producer.name, learned=learned)
        yield step, after.with_producer(client.reconnected(producer))
    if setup.restart is not None and producer.taken:
        step = Step("restart", sentence.format("crashes and restarts"), producer=producer.name, learned=learned)
        yield step, after.with_producer(new_process(setup, producer, learned))


def new_process(setup: Setup, producer: Producer, learned: int) -> Producer:
    """The producer that replaces a crashed one."""
    match setup.restart:
        case "from the beginning":
            return client.replayed(producer)
        case "with its next message":
            return client.gave_up(producer)
        case "from the id it learns" | None:
            return client.restarted(producer, setup.source(producer.name), learned)
        case never:
            assert_never(never)


def completions(world: World) -> Next:
    """The oldest write completes."""
    variant = world.topic.variant
    if world.topic.failing and not variant.later_writes_succeed:
        return
    yield completion(world, broker.complete_next_write, "")
    if variant.snapshot_position_ahead and not world.topic.failing:
        during = "; a snapshot has its position, but not its id"
        yield completion(world, broker.complete_next_write_during_snapshot, during)


def completion(
    world: World, complete: Callable[[Topic], tuple[Topic, SessionAnswers]], aside: str
) -> tuple[Step, World]:
    """The oldest write completes in this way."""
    write = world.topic.in_flight[0]
    topic, answers = complete(world.topic)
    heard = "confirmed" if answers else "not confirmed"
    words = f"{write.producer}'s {write.entry} is stored, {heard}{aside}"
    step = Step(
        "stored" if answers else "stored unheard", words, producer=write.producer, entry=write.entry, answers=answers
    )
    return step, _after_writes(world, topic, answers)


def failures(world: World) -> Next:
    """The oldest write fails. After a failed write, later writes in flight fail, too."""
    if not world.topic.failing and not world.failures:
        return
    write = world.topic.in_flight[0]
    topic, answers = broker.fail_next_write(world.topic)
    step = Step(
        "write fails",
        f"{write.producer}'s {write.entry}: the write fails",
        producer=write.producer,
        entry=write.entry,
        answers=answers,
    )
    left = world.failures - (not world.topic.failing)
    yield step, _after_writes(replace(world, failures=left), topic, answers)


def _after_writes(world: World, topic: Topic, answers: SessionAnswers) -> World:
    """The producers receive the answers, and those that the topic disconnected notice it."""
    world = hear(replace(world, topic=topic), answers)
    open_names = {name for _, name in topic.sessions}
    for producer in world.producers:
        if producer.connected and producer.name not in open_names:
            world = world.with_producer(client.disconnected(producer))
    return world


def snapshots(world: World) -> Next:
    """A snapshot is taken, of any producers that it has room for; or it fails."""
    for kept in broker.snapshot_choices(world.topic):
        topic = broker.take_snapshot(world.topic, kept)
        if topic.snapshot == world.topic.snapshot:
            continue
        assert topic.snapshot is not None
        ids = ", ".join(f"{name} {highest}" for name, highest in topic.snapshot.highest.ids)
        words = f"a snapshot is taken after entry {len(topic.log)}: {ids or 'no producer'}"
        yield Step("snapshot", words), replace(world, topic=topic)
        failed = broker.fail_snapshot(world.topic)
        yield Step("snapshot fails", "a snapshot cannot be stored"), replace(world, topic=failed)


def crashes(world: World) -> Next:
    """The broker crashes, with any number of the writes in flight in the log, and recovers."""
    if not world.crashes:
        return
    for reached in range(broker.may_reach(world.topic) + 1):
        topic = broker.recover(broker.crash(world.topic, reached=reached))
        words = "the broker crashes and recovers"
        if world.topic.in_flight:
            words += f"; of {len(world.topic.in_flight)} in flight {reached} reached the log"
        producers = tuple(client.disconnected(producer) for producer in world.producers)
        yield Step("crash", words), replace(world, topic=topic, producers=producers, crashes=world.crashes - 1)


def switches(world: World) -> Next:
    """Deduplication is switched."""
    if not world.switches or world.topic.failing:
        return
    on = world.topic.snapshot is None
    topic = broker.switch_deduplication(world.topic, on=on)
    kind = "switched on" if on else "switched off"
    yield Step(kind, f"deduplication is {kind}"), replace(world, topic=topic, switches=world.switches - 1)


def absences(world: World) -> Next:
    """A producer is disconnected for so long that the topic removes its ids."""
    for producer in world.producers:
        topic = broker.cut(world.topic, producer.name) if producer.connected else world.topic
        after = replace(world, topic=broker.forget_producer(topic, producer.name))
        if after.topic.persisted != world.topic.persisted:
            words = f"{producer.name} is disconnected until the topic removes its ids"
            yield Step("away", words, producer=producer.name), after.with_producer(client.disconnected(producer))


def good_ending(setup: Setup, world: World) -> bool:
    """Every producer has all of its source confirmed, and nothing is in flight."""
    done = all(not p.unconfirmed and p.taken == len(setup.source(p.name)) for p in world.producers)
    return done and not world.topic.in_flight


def merge(world: World) -> World:
    """The same state with its log in a normal form.

    The order of entries of different producers matters only if a snapshot was taken between
    them. The snapshot matters only while the topic may be reloaded. Of positions only the order matters.
    """
    topic = world.topic
    snapshot = topic.snapshot if world.crashes else None
    cut = None if snapshot is None else snapshot.position
    below = 0 if cut is None else sum(logged.position <= cut for logged in topic.log)
    ordered = sorted(topic.log[:below], key=_by_producer) + sorted(topic.log[below:], key=_by_producer)
    log = tuple(_placed(logged, n) for n, logged in enumerate(ordered))
    if snapshot is not None:
        snapshot = Snapshot(Position(0, below - 1) if below else None, snapshot.highest)
    elif topic.snapshot is not None:
        snapshot = Snapshot()
    ledgers = Ledgers(topic.ledgers.room, used=len(log))
    if (log, snapshot, ledgers) == (topic.log, topic.snapshot, topic.ledgers):
        return world
    return replace(world, topic=replace(topic, log=log, snapshot=snapshot, ledgers=ledgers))


def _placed(logged: LoggedEntry, n: int) -> LoggedEntry:
    """The same entry as the ``n``-th of one ledger."""
    position = Position(0, n)
    return logged if logged.position == position else LoggedEntry(position, logged.producer, logged.entry)


def _by_producer(logged: LoggedEntry) -> str:
    return logged.producer
