"""Commands that check several brokers in the same way: their options, and what these come to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from conformance.brokers.settings import CHOICES, Choice
from conformance.cli.parameters import options
from conformance.cli.parameters.defaults import command_line
from conformance.cli.parameters.types import MACHINES, BrokerParameter, Duration, Rules
from model.rules.catalogue import FAMILIES, Selection

if TYPE_CHECKING:
    from conformance.commands.check import CheckOptions
    from conformance.commands.comparison.compare import Side

F = TypeVar("F", bound=Callable[..., Any])
LANES = 8


def campaign_options(command: F) -> F:
    """The options of each check, without the brokers and the folder."""
    for option in reversed(
        (
            click.option(
                "--rules",
                type=Rules(),
                default=",".join(FAMILIES),
                show_default=True,
                help="Ids or families of rules.",
            ),
            click.option(
                "--budget", type=Duration(), default="10m", show_default=True, help="How long to check each broker."
            ),
            options.seed_option("a run"),
            options.known_option,
            click.option("--machines", type=MACHINES, default=(), help="Run only these machines."),
            options.lanes_option(f"How many examples run at once.  [default: {LANES}]", default=LANES),
            options.setting_option,
            options.settings_option(CHOICES, "The suite's own, the release's, or a random subset.  [default: quick]"),
        )
    ):
        command = option(command)
    return command


def sides_of(brokers: tuple[str, ...]) -> list[Side]:
    """The brokers with their exact names; one that is named twice gets a number."""
    from conformance.commands.comparison import compare as comparing

    sides = [comparing.Side.parse(text) for text in brokers]
    if len({side.name for side in sides}) < len(sides):
        sides = [comparing.numbered(side, number) for number, side in enumerate(sides, start=1)]
    return [comparing.exact(side, BrokerParameter().convert(side.broker, None, None)) for side in sides]


def checks_of(
    sides: list[Side],
    *,
    rules: Selection,
    budget: float,
    seed: int,
    known: str | None,
    machines: tuple[str, ...],
    lanes: int,
    settings: tuple[tuple[str, str], ...],
    choice: Choice | None,
    report: Path | None = None,
) -> CheckOptions:
    """What all checks have in common."""
    from conformance.commands.check import CheckOptions

    return CheckOptions(
        broker=sides[0].broker,
        rules=rules.rules,
        named=rules.named,
        budget_s=budget,
        seed=seed,
        known=options.known_deviations(known),
        report=report,
        json=None,
        defect=None,
        machines=machines,
        lanes=lanes,
        settings=settings,
        choice=choice,
        command=command_line(click.get_current_context()),
    )
