"""The machine of SERVE-07 and -14: a bookie is lost and comes back while producers and readers go on."""

from __future__ import annotations

from typing import get_args

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from model.operations import (
    CreateTopic,
    LoseBookie,
    Loss,
    ReadLog,
    RestoreBookies,
    Send,
    SetDeduplication,
    Unload,
)
from model.vocabulary import Quorum
from stateful.deduplication.machines import BURSTS, OnTopics
from stateful.deduplication.plan import Pick, PlannedSession

TOPIC = "t0"
QUORUMS: st.SearchStrategy[Quorum] = st.sampled_from(["2/2/2", "2/2/2", "3/3/2", "3/2/2"])
NEW = st.lists(st.sampled_from([Pick(), Pick(), Pick(size=3)]), min_size=1, max_size=7)
"""More entries than a ledger takes."""


class BookiesMachine(OnTopics):
    """A topic on two or three bookies, one of which is killed, frozen or loses power."""

    clients = ("wire",)
    goes_on = True

    @initialize(quorum=QUORUMS, is_deduplicated=st.booleans(), burst=NEW)
    def create_topic(self, quorum: Quorum, is_deduplicated: bool, burst: list[Pick]) -> None:
        """A topic with messages."""
        self.topics = (TOPIC,)
        self.goes_on = quorum == "2/2/2"
        self.do(CreateTopic(topic=TOPIC, persistence="every-ack", quorum=quorum))
        if is_deduplicated:
            self.do(SetDeduplication(topic=TOPIC, scope="topic", on=True))
        self.send(burst)

    @rule(
        number=st.integers(0, 2),
        how=st.sampled_from(get_args(Loss)),
        in_flight=st.none() | NEW,
        bursts=st.lists(NEW, min_size=1, max_size=3),
        unloads=st.booleans(),
        again=BURSTS,
    )
    def lose_one(
        self,
        number: int,
        how: Loss,
        in_flight: list[Pick] | None,
        bursts: list[list[Pick]],
        unloads: bool,
        again: list[Pick],
    ) -> None:
        """Lose a bookie, perhaps with messages in flight; meanwhile write to the topic, read and unload it."""
        session = self.producer()
        if in_flight is not None:
            self.do(Send(session=session.name, entries=self.plan.entries(session, in_flight), wait=False))
        self.do(LoseBookie(number, how))
        for burst in bursts:
            self.send(burst)
            self.do(ReadLog(topic=TOPIC))
        if unloads and self.goes_on:  # with too few bookies, no client can connect before the lost one is back
            self.do(Unload(topic=TOPIC))
            self.plan.drop_wire_sessions(TOPIC)
            self.send(bursts[0])
        self.do(RestoreBookies())
        self.reopen()
        self.send(again)

    def producer(self) -> PlannedSession:
        """The one producer."""
        return self.plan.sessions[0] if self.plan.sessions else self.open(TOPIC, "p0", "wire")

    def send(self, burst: list[Pick]) -> None:
        """Send entries, and wait for the answers."""
        session = self.producer()
        self.do(Send(session=session.name, entries=self.plan.entries(session, burst)))

    def reopen(self) -> None:
        """Reopen the producer: without enough bookies, the broker may have closed it."""
        self.plan.drop_wire_sessions(TOPIC)
        self.open(TOPIC, "p0", "wire")
