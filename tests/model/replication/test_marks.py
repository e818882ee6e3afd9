"""The marks of the rules of replicated subscriptions: exploring the model reaches all of them."""

from __future__ import annotations

from model.explorations import replication
from model.explorations.replication.world import Setup
from tests.model.explored import called_while, carried_by

REFERENCE = (
    "model.replication.entries",
    "model.replication.snapshots",
    "model.replication.cluster",
    "model.replication.replicators",
)

LITTLE = (
    Setup(stored="A", timeouts=1, failovers="B"),
    Setup(stored="A", crashes="A", late=()),
)


def test_the_reference_carries_every_rule_and_its_exploration_exercises_it() -> None:
    carried = carried_by(REFERENCE)
    assert set(carried) == {f"REPL-{number:02}" for number in range(1, 19)}
    called = called_while(lambda: [replication.EXPLORED.run(setup) for setup in LITTLE], REFERENCE)
    assert {rule: found - called for rule, found in carried.items() if found - called} == {}
