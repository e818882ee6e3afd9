"""Machines of the tests' own: they look for what the suite's come by too seldom for a short test."""

from __future__ import annotations

from hypothesis.stateful import initialize, rule

from model.operations import CreateTopic, ReadSnapshot, Send, SwitchDeduplication
from stateful.dedup import BURSTS, INDEXES, DeduplicationMachine
from stateful.plan import Pick


class OwnPolicyMachine(DeduplicationMachine):
    """One topic, with a policy of its own."""

    @initialize()
    def create_topics(self) -> None:
        """The topic, and a producer to begin with."""
        self.topics = ("t0",)
        self.do(CreateTopic(topic="t0", deduplication="topic-on"))
        self.open("t0", "p0", "wire")


class SwitchingMachine(OwnPolicyMachine):
    """Deduplication of that topic is switched off, and on again while messages are on their way."""

    @rule(index=INDEXES, burst=BURSTS)
    def switch_on_in_flight(self, index: int, burst: list[Pick]) -> None:
        """Send while deduplication is off, switch it on meanwhile, see what counts, and send the same again."""
        session = self.session(index)
        self.do(SwitchDeduplication(topic="t0", scope="topic", on=False))
        entries = self.plan.entries(session, [pick for pick in burst if pick.is_rising])
        if session.client == "wire" and entries:
            self.do(Send(session=session.name, entries=entries, wait=False))
            self.do(SwitchDeduplication(topic="t0", scope="topic", on=True, in_flight=True))
            self.do(ReadSnapshot(topic="t0"))
            self.do(Send(session=session.name, entries=entries))
