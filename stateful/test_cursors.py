"""The machines of document 003, as tests: each runs for its share of the budget on the session's broker."""

from __future__ import annotations

from conformance.engine.machines import machines
from stateful.cursors.chunks import AcknowledgmentChunksMachine
from stateful.cursors.kills import AcknowledgmentKillsMachine
from stateful.cursors.machines import AcknowledgmentClientsMachine, AcknowledgmentMachine
from stateful.cursors.network import AcknowledgmentClientsNetworkMachine, AcknowledgmentNetworkMachine
from stateful.machine_tests import exploring

MACHINES = machines(
    {
        "acknowledgment": AcknowledgmentMachine,
        "acknowledgment-network": AcknowledgmentNetworkMachine,
        "acknowledgment-chunks": AcknowledgmentChunksMachine,
        "acknowledgment-clients": AcknowledgmentClientsMachine,
        "acknowledgment-clients-network": AcknowledgmentClientsNetworkMachine,
        "acknowledgment-kills": AcknowledgmentKillsMachine,
    }
)


test_no_rule_is_broken_by = exploring(MACHINES)
