"""The topics that an application uses through the tap, and the times in which the tap does not see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from conformance.history.recorded import UNSEEN, CallOutcome, Kind
from conformance.tap.handles import TapTopic, TopicLook

NOT_PERSISTENT: Final = "non-persistent://"
SAID_AT_MOST: Final = 1000
"""How many different sentences are remembered, so that each is said once."""


class Recording(Protocol):
    """A lane of a history."""

    def record(self, kind: Kind, *, invoked_ns: int | None, completed_ns: int | None = None, **fields: Any) -> None: ...


class Topics:
    """``look`` requests a :class:`TopicLook` of a topic; ``say`` gets a sentence for people.

    ``settled`` is called for a topic when all is known of how its subscriptions begin that will be known.
    """

    def __init__(
        self,
        recording: Recording,
        *,
        look: Callable[[str], None],
        settled: Callable[[str], None],
        say: Callable[[str], None],
    ) -> None:
        self.record: Final = recording.record
        self.settled: Final = settled
        self.by_name: dict[str, TapTopic] = {}
        self._look = look
        self._say = say
        self._said: set[str] = set()

    def named(self, name: str) -> TapTopic | None:
        """A persistent topic by its full name; None for any other."""
        name = full_name(name)
        if name.startswith(NOT_PERSISTENT):
            self.say_once("Topics that are not persistent are not recorded: their messages have no positions")
            return None
        return self.by_name.setdefault(name, TapTopic(name))

    def joined(self, topic: TapTopic, at_ns: int) -> None:
        topic.handles += 1
        self.seen(topic, at_ns)
        self._look(topic.name)

    def left(self, topic: TapTopic, at_ns: int) -> None:
        topic.handles -= 1
        if not topic.handles:
            self.unseen(topic, at_ns)

    def unseen(self, topic: TapTopic, since_ns: int) -> None:
        """From now on anything may happen to the topic."""
        if topic.unseen_since_ns is None:
            topic.unseen_since_ns = since_ns
            self._record_unseen(topic, since_ns, since_ns, CallOutcome.UNKNOWN)

    def seen(self, topic: TapTopic, at_ns: int) -> None:
        """Somebody is connected again, or the recording ends."""
        if topic.unseen_since_ns is not None:
            self._record_unseen(topic, topic.unseen_since_ns, at_ns, CallOutcome.OK)
            topic.unseen_since_ns = None

    def _record_unseen(self, topic: TapTopic, invoked_ns: int, completed_ns: int, outcome: CallOutcome) -> None:
        self.record(
            Kind.FAULT,
            fault=UNSEEN,
            topic=topic.name,
            outcome=outcome,
            invoked_ns=invoked_ns,
            completed_ns=completed_ns,
        )

    def looked(self, look: TopicLook) -> None:
        """The admin API answered: a subscription without an ack so far begins where it is."""
        topic = self.by_name.get(look.topic)
        if topic is None:
            return
        if topic.begins is None:
            topic.begins = look
            if not look.producers <= (topic.producers or set()):
                topic.not_deduplicated = "it had producers before the tap"
            topic.producers = None
        for name, seen in look.subscriptions.items():
            subscription = topic.subscriptions.get(name)
            if subscription is None:
                continue
            if seen.strangers:
                subscription.trouble = f"a consumer at {seen.strangers[0]} does not connect through the tap"
            if subscription.begins is not None:
                if seen.expired > subscription.begins.expired:
                    subscription.trouble = "messages of it have expired"
            elif subscription.acks or seen.has_ranges:
                subscription.trouble = subscription.trouble or "messages were acknowledged before the tap looked at it"
            elif subscription.trouble is None:
                subscription.begins = seen
                self.record(
                    Kind.BEGIN,
                    topic=topic.name,
                    subscription=name,
                    replicated=seen.is_replicated,
                    ledger=seen.mark_delete.ledger,
                    entry=seen.mark_delete.entry,
                    invoked_ns=look.invoked_ns,
                    completed_ns=look.completed_ns,
                )

    def say_once(self, sentence: str) -> None:
        """Say it, unless it was said before."""
        if sentence not in self._said and len(self._said) < SAID_AT_MOST:
            self._said.add(sentence)
            self._say(sentence)


def full_name(topic: str) -> str:
    """The full name of a topic, which clients may abbreviate."""
    if "://" in topic:
        return topic
    return f"persistent://{topic if '/' in topic else f'public/default/{topic}'}"
