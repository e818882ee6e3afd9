"""Machines of SERVE-06: those of other documents, with a takeover by another broker instead of a kill.

Clients produce, consume and acknowledge on one broker, lose it, and go on at the other one. What they must find there
is what the rules of their documents say of a kill or a graceful unload. That nothing confirmed is lost, or stored
twice, is SERVE-06.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import initialize

from model.vocabulary import Persistence, SubscriptionType
from stateful.crashes import takeovers
from stateful.cursors.base import TOPIC
from stateful.cursors.kills import AcknowledgmentKillsMachine
from stateful.cursors.machines import PERSISTENCE
from stateful.deduplication.applications import SOURCES, ApplicationsKillsMachine
from stateful.deduplication.machines import TOPICS, KillsMachine
from stateful.key_shared.variations import KeysKillsMachine


class DeduplicationTakeoversMachine(KillsMachine):
    """Producers of fixed names send, with more in flight, and again at the other broker."""

    crashes = takeovers(TOPICS[0])


class AcknowledgmentTakeoversMachine(AcknowledgmentKillsMachine):
    """Consumers acknowledge, the acks are persisted or not, and consumers reconnect to the other broker."""

    crashes = takeovers(TOPIC)

    @initialize(
        kinds=st.lists(st.sampled_from(["Shared", "Exclusive"]), min_size=1, max_size=2).map(tuple),
        persistence=PERSISTENCE,
    )
    def begin(self, kinds: tuple[SubscriptionType, ...], persistence: Persistence) -> None:
        """One topic: those of several namespaces may have several owners."""
        self.topics = (TOPIC,)
        self.persistence = {TOPIC: persistence}
        self.create(TOPIC, persistence, kinds)


class KeysTakeoversMachine(KeysKillsMachine):
    """Consumers of a Key_Shared subscription with pending acks go on at the other broker."""

    crashes = takeovers(TOPIC)


class EffectivelyOnceTakeoversMachine(ApplicationsKillsMachine):
    """Sources and consumers are at work, and find the other broker by themselves."""

    crashes = takeovers(SOURCES)
