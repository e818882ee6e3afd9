"""Runs machines on simulated brokers, as the engine runs them on a real one, and counts the results."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field
from typing import Protocol

from conformance.engine.catalogue import ROUND_AT_MOST
from conformance.engine.example import RunningExample
from conformance.engine.execution import derived_seed, run_round
from conformance.engine.machines import Machine, MachineFactory
from conformance.history.document import Step, Violation
from conformance.history.validation import nonsense
from conformance.lockstep.lockstep import Lockstep
from conformance.lockstep.performer import Performer
from model.example import Example
from tests.report import samples


class Simulated(Performer, Protocol):
    """A performer with its own clock."""

    @property
    def clock(self) -> Callable[[], float]:
        """The time in seconds."""


MakePerformer = Callable[[random.Random], Simulated]


@dataclass(slots=True)
class Campaign:
    """The results of many examples. ``sizes``: how many states were possible before each step."""

    examples: int = 0
    steps: int = 0
    sizes: Counter[int] = field(default_factory=Counter)
    exercised: Counter[str] = field(default_factory=Counter)
    deviations: Counter[str] = field(default_factory=Counter)
    found: list[Found] = field(default_factory=list)
    histories: list[tuple[Step, ...]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Found:
    """A violation, the number of examples until it was found, and its history."""

    violation: Violation
    example: int
    steps: tuple[Step, ...]


def play(
    machine: MachineFactory,
    performer: MakePerformer,
    *,
    examples: int,
    steps: int = 20,
    seeded: int = 0,
    known: frozenset[str] = frozenset(),
    until: Callable[[Campaign], bool] = lambda _: False,
) -> Campaign:
    """Run a machine in rounds for this many examples, or ``until``.

    Violations are collected, a harness error is raised.
    """
    campaign = Campaign()

    def is_time_up() -> bool:
        return until(campaign)

    def on_end(example: RunningExample) -> None:
        if example.harness_error is not None:
            raise example.harness_error
        if not example.lockstep.steps:
            return
        campaign.examples += 1
        campaign.steps += len(example.lockstep.steps)
        campaign.histories.append(tuple(example.lockstep.steps))
        campaign.exercised.update(example.lockstep.exercised)
        campaign.deviations.update(example.lockstep.deviations)
        if example.violation is not None:
            campaign.found.append(Found(example.violation, campaign.examples, campaign.histories[-1]))

    def begin() -> RunningExample:
        chance = random.Random(f"{seeded}/{campaign.examples}")
        simulated = performer(chance)
        lockstep = Lockstep(simulated, Example(known=known), clock=simulated.clock)
        lockstep.record = lambda _: campaign.sizes.update([lockstep.state.size])
        return RunningExample(lockstep, is_time_up=is_time_up, on_end=on_end)

    for number, left in enumerate(range(examples, 0, -ROUND_AT_MOST)):
        if is_time_up():
            break
        a_round = Machine(name="simulated", decides=(), factory=machine, steps=steps, examples=min(left, ROUND_AT_MOST))
        run_round(a_round, begin, seed=derived_seed(seeded, "simulated", number))
    return campaign


def refused(campaign: Campaign) -> list[str]:
    """Why ``replay`` would refuse histories of this campaign: it must accept everything that a machine does."""
    whys = (nonsense(samples.history(*steps, violation=None)) for steps in campaign.histories)
    return [why for why in whys if why is not None and not why.endswith("there is nothing to replay")]


def play_until_exercised(
    machine: Machine, performer: MakePerformer, rules: Set[str], *, examples: int, seeds: int, most_seeds: int
) -> list[Campaign]:
    """Campaigns from so many seeds, and from more until they have exercised all these rules: some are seldom."""
    campaigns: list[Campaign] = []
    for seed in range(most_seeds):
        if seed >= seeds and rules <= exercised(campaigns):
            break
        campaigns.append(play(machine.factory, performer, examples=examples, steps=machine.steps, seeded=seed))
    return campaigns


def exercised(campaigns: Iterable[Campaign]) -> set[str]:
    """The rules that these campaigns have exercised."""
    return {rule for one in campaigns for rule in one.exercised}


def play_in_rounds(
    machine: Machine,
    performer: MakePerformer,
    *,
    rounds: int,
    examples: int,
    known: frozenset[str],
    until: Callable[[Campaign], bool],
) -> Campaign:
    """Run a machine from one seed after the other until there is enough; the last of these campaigns."""
    for number in range(rounds):
        campaign = play(
            machine.factory,
            performer,
            examples=examples,
            steps=machine.steps,
            seeded=number,
            known=known,
            until=until,
        )
        if until(campaign):
            break
    return campaign
