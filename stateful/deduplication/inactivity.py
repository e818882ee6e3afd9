"""The machine of producers that are inactive for hours (DEDUP-20), which pass at once.

Producers come and go, and the topic is unloaded. Before inactive producers are purged, one of them is in each place in
which a broker may take it to be inactive; afterwards it sends its last message again.
"""

from __future__ import annotations

from typing import Literal, assert_never

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from model.operations import CloseProducer, CreateTopic, Send, SetDeduplication, Switch, Unload
from model.producer_operations import PurgeProducers
from stateful.deduplication.machines import INDEXES, PRODUCERS, TOPICS, Producers
from stateful.deduplication.plan import Pick

Absence = Literal["none", "left", "returned", "switched"]
ABSENCES: st.SearchStrategy[Absence] = st.sampled_from(["none", "left", "left", "returned", "switched"])
"""Where a producer is when inactive ones are purged: connected all the time, gone, or back after it was gone; or it was
gone until deduplication was disabled, which was enabled again after it was back."""
MINUTES = st.sampled_from([120, 120, 200, 400])
"""How much time passes before inactive producers are purged; by default those that are inactive for six hours are."""
SWITCHES: st.SearchStrategy[Switch] = st.sampled_from(["namespace-on", "namespace-on", "own-namespace-on", "topic-on"])


class InactivityMachine(Producers):
    """Inactive producers are purged, while others come and go."""

    @initialize(second=st.booleans(), switch=SWITCHES)
    def create_topics(self, second: bool | None, switch: Switch) -> None:
        """One topic or two, deduplication on."""
        self.topics = TOPICS[: 1 + bool(second)]
        for topic in self.topics:
            self.do(CreateTopic(topic=topic, deduplication=switch))

    @rule(index=INDEXES, producer=PRODUCERS, absence=ABSENCES, minutes=MINUTES, unloaded=st.booleans())
    def purge(self, index: int, producer: str, absence: Absence, minutes: int, unloaded: bool) -> None:
        """Inactive producers are purged; the topic may be unloaded; then a producer sends its last message again."""
        topic = self.topic(index)
        self.leave_for_a_while(topic, producer, absence, minutes)
        self.do(PurgeProducers(topic=topic, minutes=minutes))
        if unloaded:
            self.unload(index)
        session = self.live(topic, producer)
        self.do(Send(session=session.name, entries=self.plan.entries(session, [Pick(again=1)])))

    @rule(index=INDEXES)
    def unload(self, index: int) -> None:
        """Unload a topic."""
        topic = self.topic(index)
        self.do(Unload(topic=topic))
        self.plan.drop_wire_sessions(topic)

    def leave_for_a_while(self, topic: str, producer: str, absence: Absence, minutes: int) -> None:
        """A producer sends a message, and leaves, or has been away."""
        self.send_new(topic, producer, 1)
        if absence == "none":
            return
        left = self.live(topic, producer)
        self.leave(left, CloseProducer(session=left.name))
        match absence:
            case "left":
                pass
            case "returned":
                self.do(PurgeProducers(topic=topic, minutes=minutes))
                self.send_new(topic, producer, 1)
            case "switched":
                self.do(SetDeduplication(topic=topic, scope="topic", on=False))
                self.open(topic, producer, "wire")
                self.do(SetDeduplication(topic=topic, scope="topic", on=True))
                self.send_new(topic, producer, 1)
            case _:
                assert_never(absence)
