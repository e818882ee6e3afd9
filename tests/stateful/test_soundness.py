"""No false alarms: on a broker that does what the document says no rule is ever broken, in whatever order it works."""

from __future__ import annotations

from stateful.dedup import DeduplicationMachine
from tests.lockstep.campaigns import play
from tests.lockstep.simulated import SimulatedPerformer


def test_the_deduplication_machine_finds_nothing_on_a_broker_that_does_as_the_document_says() -> None:
    campaign = play(DeduplicationMachine, SimulatedPerformer, examples=100)
    assert campaign.found == []
    assert campaign.steps > 1_000
