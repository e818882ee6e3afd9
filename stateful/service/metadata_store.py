"""The machine in which the metadata store fails for a moment while clients and administrators go on."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from model.operations import Disturbance, DisturbMetadataStore, Send
from stateful.cursors.base import TOPIC
from stateful.cursors.machines import SIZES, AcknowledgmentMachine


class MetadataStoreMachine(AcknowledgmentMachine):
    """All operations on a topic and its subscriptions, of which some begin while the store is frozen or restarts.

    Each of them must succeed and have its effect, and the topic stays loaded. No producer asks for exclusive access, as
    the store has the epochs of topics.
    """

    may_contend = False

    @rule(how=st.sampled_from(["freeze", "restart", "expire"]), in_flight=st.none() | SIZES)
    def disturb_the_store(self, how: Disturbance, in_flight: list[int] | None) -> None:
        """Freeze or restart the store, maybe with messages in flight, some of which need another ledger."""
        if in_flight is not None:
            self.do(Send(session=f"p-{TOPIC}", entries=self.plan.entries(in_flight), wait=False))
        self.do(DisturbMetadataStore(how))
