"""The machines of the family SERVE, as tests: each runs for its share of the budget on the session's broker."""

from __future__ import annotations

from conformance.engine.machines import machines
from stateful.machine_tests import exploring
from stateful.service.bookies import BookiesMachine
from stateful.service.machines import ServiceMachine
from stateful.service.metadata_store import MetadataStoreMachine
from stateful.service.policies import PoliciesKillsMachine, PoliciesMachine, PoliciesTakeoversMachine
from stateful.service.takeovers import (
    AcknowledgmentTakeoversMachine,
    DeduplicationTakeoversMachine,
    EffectivelyOnceTakeoversMachine,
    KeysTakeoversMachine,
)
from stateful.service.zombies import ZombiesMachine

MACHINES = machines(
    {
        "service": ServiceMachine,
        "policies": PoliciesMachine,
        "policies-kills": PoliciesKillsMachine,
        "deduplication-takeovers": DeduplicationTakeoversMachine,
        "acknowledgment-takeovers": AcknowledgmentTakeoversMachine,
        "keys-takeovers": KeysTakeoversMachine,
        "effectively-once-takeovers": EffectivelyOnceTakeoversMachine,
        "policies-takeovers": PoliciesTakeoversMachine,
        "zombies": ZombiesMachine,
        "bookies": BookiesMachine,
        "metadata-store": MetadataStoreMachine,
    }
)


test_no_rule_is_broken_by = exploring(MACHINES)
