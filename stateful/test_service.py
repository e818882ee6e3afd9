"""The machine of the family SERVE, as a test: it runs for its share of the budget on the session's broker."""

from __future__ import annotations

from conformance.engine.machines import machines
from stateful.exploring import exploring
from stateful.service.machines import ServiceMachine

MACHINES = machines({"service": ServiceMachine})


test_no_rule_is_broken_by = exploring(MACHINES)
