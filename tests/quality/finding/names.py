"""What the uniform machine keeps: the names of its example, and who is open. Nothing that the system answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from model.operations import GoesOn
from model.vocabulary import ChunkNumber, Client, Content, Entry, Message, Persistence, SubscriptionId, SubscriptionType
from stateful.deduplication.plan import PlannedSession, ProducerPlan

KEYS = (None, *(f"k{number}" for number in range(6)))
LARGEST_BYTES = 40_000
"""The largest payload on a chunked topic: four chunks."""


@dataclass(slots=True)
class Topic:
    """A topic, and what was sent to it.

    ``parts``: the topics that producers and administrators name, of a partitioned topic its partitions. ``sent``: the
    business ids, each of one message. With ``has_limits`` messages are counted, so it gets no batches.
    ``has_own_namespace``: the policy of its namespace may be changed. ``has_snapshots``: deduplication is or was on.
    ``is_written``: something was sent.
    """

    name: str
    parts: tuple[str, ...]
    persistence: Persistence | None = None
    has_limits: bool = False
    has_own_namespace: bool = False
    has_snapshots: bool = False
    is_written: bool = False
    sent: list[str] = field(default_factory=list)


@dataclass(slots=True)
class OpenConsumer:
    """A consumer that should be there; ``has_received``: it should have received something."""

    name: str
    id: SubscriptionId
    kind: SubscriptionType
    client: Client
    is_proxied: bool = False
    has_received: bool = False


@dataclass(slots=True)
class Source:
    """A source, and whether it is in a life."""

    name: str
    topic: str
    goes_on: GoesOn
    client: Client
    highest: int = 0
    is_started: bool = False


@dataclass(slots=True)
class Names:
    """The names of one example. Every choice is uniform."""

    chance: Random
    topics: dict[str, Topic] = field(default_factory=dict)
    producers: dict[tuple[str, str], ProducerPlan] = field(default_factory=dict)
    sessions: list[PlannedSession] = field(default_factory=list)
    subscriptions: set[SubscriptionId] = field(default_factory=set)
    consumers: list[OpenConsumer] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    programs: set[str] = field(default_factory=set)
    rated: set[tuple[str, str]] = field(default_factory=set)
    """The producers that a rate was read of, with their topics: they send nothing else."""
    has_consumed: bool = False
    """Whether there is a subscription that applications consume from."""
    is_proxied: bool = False
    """Whether producers connect through a proxy from now on."""
    is_disturbed: bool = False
    """Whether writes or connections may fail from now on."""
    _fresh: int = 0

    def coin(self) -> bool:
        """One of two choices."""
        return self.chance.random() < 0.5

    def fresh(self, letter: str) -> str:
        """A name that was not used before."""
        self._fresh += 1
        return f"{letter}{self._fresh}"

    def parts(self) -> list[str]:
        """The topics that producers and administrators name."""
        return [part for topic in self.topics.values() for part in topic.parts]

    def written(self) -> list[str]:
        """Those of them to which something was sent."""
        return [part for part in self.parts() if self.topic_of(part).is_written]

    def official(self) -> list[OpenConsumer]:
        """The consumers of pulsar-client."""
        return [one for one in self.consumers if one.client == "official"]

    def topic_of(self, part: str) -> Topic:
        return next(topic for topic in self.topics.values() if part in (topic.name, *topic.parts))

    def reloaded(self, part: str | None = None) -> None:
        """A topic, or, with None, every topic was unloaded: clients that do not reconnect are gone."""
        self.sessions = [one for one in self.sessions if one.client == "official" or part not in (None, one.topic)]
        self.consumers = [one for one in self.consumers if one.client == "official" or part not in (None, one.id.topic)]

    def disconnected(self, subscription: SubscriptionId) -> None:
        """The broker disconnected the consumers of a subscription."""
        self.consumers = [one for one in self.consumers if one.client == "official" or one.id != subscription]

    def entry(self, session: PlannedSession) -> Entry:
        """An earlier entry of this producer, or a new one, with any sequence id up to a little above the highest."""
        topic = self.topic_of(session.topic)
        producer = self.producers.setdefault((session.topic, session.producer), ProducerPlan())
        if producer.entries and self.coin():
            return self.chance.choice(producer.entries)
        first = self.chance.randint(1, producer.highest + 4)
        size = 1 if topic.has_limits else self.chance.randint(1, 3)
        key = self.chance.choice(KEYS)
        entry = Entry(tuple(Message(first + number, self._business_id(topic), key) for number in range(size)))
        producer.highest = max(producer.highest, entry.highest)
        producer.entries.append(entry)
        return entry

    def rising_entry(self, session: PlannedSession) -> Entry:
        """A new message with the next sequence id, as pulsar-client needs it."""
        producer = self.producers.setdefault((session.topic, session.producer), ProducerPlan())
        producer.highest += 1
        topic = self.topic_of(session.topic)
        return Entry((Message(producer.highest, self._business_id(topic), self.chance.choice(KEYS)),))

    def payload(self, session: PlannedSession) -> Entry:
        """A message of any size up to four chunks; of the wire client, one chunk of any message of three."""
        producer = self.producers.setdefault((session.topic, session.producer), ProducerPlan())
        if session.client == "wire":
            number = self.chance.randint(max(1, producer.highest - 1), producer.highest + 1)
            producer.highest = max(producer.highest, number)
            chunk = ChunkNumber(self.chance.randrange(3), 3)
            return Entry((Message(number, f"{session.producer}u{number}", chunk=chunk),))
        producer.highest += 1
        size_bytes = self.chance.randint(1, LARGEST_BYTES)
        content: Content = self.chance.choice(("noise", "pattern"))
        message = Message(
            producer.highest, f"{session.producer}{producer.highest}", size_bytes=size_bytes, content=content
        )
        return Entry((message,))

    def _business_id(self, topic: Topic) -> str:
        business_id = self.fresh("b")
        topic.sent.append(business_id)
        return business_id
