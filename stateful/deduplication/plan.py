"""The plan of a machine: names, open sessions and used ids, without the broker's answers.

Hypothesis must be able to choose again what it chose, so a machine's choices depend on its earlier choices only. A plan
may therefore be wrong about the system (a session that it counts as open may have been refused): the performer skips
what cannot be done, and says so in the history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from model.vocabulary import Client, Entry, Message


@dataclass(frozen=True, slots=True)
class Pick:
    """How to choose one entry, relative to what its producer has sent to the topic.

    ``again`` > 0 repeats the entry that was sent that many entries ago. Otherwise the first id is the highest used,
    plus one, plus ``offset``: a gap where it is positive, an id that was used (or skipped) where it is negative.
    ``size`` > 1 makes a batch, whose ids are ``step`` apart. ``about_old``: the message is about something that an
    earlier one was about.
    """

    again: int = 0
    offset: int = 0
    size: int = 1
    about_old: bool = False
    step: int = 1

    @property
    def is_rising(self) -> bool:
        """Whether all its ids are above those that were used."""
        return self.again == 0 and self.offset >= 0


@dataclass(slots=True)
class ProducerPlan:
    """What was sent by one producer name to one topic: the entries, and the highest id."""

    highest: int = 0
    entries: list[Entry] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PlannedSession:
    """A session that should be open."""

    name: str
    topic: str
    producer: str
    client: Client


@dataclass(slots=True)
class DeduplicationPlan:
    """The plan of one example. ``mark`` begins its business ids if other machines send to the same topic."""

    mark: str = ""
    sessions: list[PlannedSession] = field(default_factory=list)
    producers: dict[tuple[str, str], ProducerPlan] = field(default_factory=dict)
    _messages: int = 0
    _sessions: int = 0

    def session_name(self) -> str:
        """A session name that was not used before."""
        self._sessions += 1
        return f"s{self._sessions}"

    def is_taken(self, topic: str, producer: str) -> bool:
        """Whether a session of this name on this topic should be open."""
        return any((s.topic, s.producer) == (topic, producer) for s in self.sessions)

    def drop_wire_sessions(self, topic: str | None = None) -> None:
        """The topic (None: every topic) was unloaded: wire sessions ended, pulsar-client's reconnect by themselves."""
        self.sessions = [s for s in self.sessions if s.client == "official" or topic not in (None, s.topic)]

    def entries(self, session: PlannedSession, picks: Sequence[Pick]) -> tuple[Entry, ...]:
        """The entries of these picks for this session."""
        return tuple(
            self._entry(self.producers.setdefault((session.topic, session.producer), ProducerPlan()), p) for p in picks
        )

    def _entry(self, producer: ProducerPlan, pick: Pick) -> Entry:
        if pick.again and producer.entries:
            return producer.entries[-min(pick.again, len(producer.entries))]
        first = max(1, producer.highest + 1 + pick.offset)
        ids = range(first, first + pick.size * pick.step, pick.step)
        entry = Entry(tuple(self._message(producer, one, about_old=pick.about_old) for one in ids))
        producer.highest = max(producer.highest, entry.highest)
        producer.entries.append(entry)
        return entry

    def _message(self, producer: ProducerPlan, sequence_id: int, *, about_old: bool) -> Message:
        if about_old and producer.entries:
            return Message(sequence_id, producer.entries[0].messages[0].business_id)
        self._messages += 1
        return Message(sequence_id, f"{self.mark}b{self._messages}")
