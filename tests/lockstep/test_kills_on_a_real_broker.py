"""A broker that does not run again after a kill breaks a rule, and is no error of the suite."""

from __future__ import annotations

import pytest

from conformance.brokers.interface import NotReady
from conformance.lockstep.lockstep import Lockstep, RuleBroken
from conformance.lockstep.real import RealPerformer
from conformance.lockstep.world import World
from model.example import Example
from model.operations import CreateTopic, Kill


def test_a_broker_that_does_not_run_again_after_a_kill_breaks_a_rule(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends() -> None:
        raise NotReady("The broker ended with status 1 instead of being ready.")

    example = Lockstep(RealPerformer(world), Example())
    try:
        example.do(CreateTopic("t0"))
        monkeypatch.setattr(world.broker, "start", ends)
        with pytest.raises(RuleBroken) as broken:
            example.do(Kill())
        assert broken.value.violation.rule == "SERVE-02"
        assert not world.is_serving()
    finally:
        monkeypatch.undo()
        world.start_again()
    assert world.is_serving()
