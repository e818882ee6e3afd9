"""The machine of all documents, as a test: it runs for its share of the budget on the session's broker."""

from __future__ import annotations

from conformance.engine.machines import machines
from stateful.machine_tests import exploring
from stateful.mixed import MixedClustersMachine, MixedKillsMachine, MixedMachine

MACHINES = machines({"mixed": MixedMachine, "mixed-kills": MixedKillsMachine, "mixed-clusters": MixedClustersMachine})


test_no_rule_is_broken_by = exploring(MACHINES)
