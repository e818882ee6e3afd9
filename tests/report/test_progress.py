"""The display of a run while it goes on."""

from __future__ import annotations

import io

import msgspec
import pytest
from rich.console import Console

from conformance.events import HarnessErrorHappened, NotExercisable, Phase
from conformance.report.progress import LIVE_EVERY_S, PLAIN_EVERY_S, display
from model.rules.catalogue import select
from tests.report.samples import FOUND, INTERRUPTED, MINIMISED, STARTED, example, finished

RULES = select("DEDUP-01,DEDUP-02,DEDUP-03,KEY-01")


def shown(*, terminal: bool) -> tuple[io.StringIO, Console]:
    screen = io.StringIO()
    return screen, Console(file=screen, force_terminal=terminal, width=80, color_system=None)


def test_rules_are_ticked_off_by_family_on_a_terminal() -> None:
    screen, console = shown(terminal=True)
    with display(RULES, budget_s=90, console=console) as live:
        live.take(STARTED)
        live.take(example(operations=50, DEDUP_01=2, DEDUP_02=0))
        live.take(FOUND)
        live.take(Phase(at_s=9.5, what="Making the history short"))
        live.tick(15.0)
        picture = screen.getvalue()
    assert "DEDUP  ✓01 ·02 ✗03" in picture
    assert "KEY    ·01" in picture
    assert "Making the history short" in picture
    assert "120 operations  12/s  2 of 4 rules exercised  1:15 left" in picture
    assert f"VIOLATION of DEDUP-03: {FOUND.violation.because}" in " ".join(picture.split())


def test_the_live_display_is_not_redrawn_too_often() -> None:
    screen, console = shown(terminal=True)
    with display(RULES, budget_s=90, console=console) as live:
        live.tick(1.0)
        drawn = len(screen.getvalue())
        live.tick(1.0 + LIVE_EVERY_S / 2)
        assert len(screen.getvalue()) == drawn
        live.tick(1.0 + LIVE_EVERY_S)
        assert len(screen.getvalue()) > drawn


def test_plain_lines_with_times_are_printed_without_a_terminal() -> None:
    screen, console = shown(terminal=False)
    with display(RULES, budget_s=90, console=console) as plain:
        for event in (
            STARTED,
            example(DEDUP_01=2),
            example(9.0, DEDUP_01=2),
            FOUND,
            MINIMISED,
            NotExercisable(at_s=12, rule="KEY-01", why="no consumer can be stuck here"),
            HarnessErrorHappened(at_s=13, sentence="The disk is full."),
            finished(),
        ):
            plain.take(event)
    assert screen.getvalue().splitlines() == [
        "[   5 s] Pulsar 4.0.8 is up; 1 machine: Deduplication",
        "[   8 s] DEDUP-01 exercised (1 of 4 rules exercised)",
        f"[   9 s] VIOLATION of DEDUP-03: {FOUND.violation.because}",
        "[  11 s] its history was shortened to 8 steps; it came back in 4 of 5 replays",
        "[  12 s] KEY-01 cannot be exercised: no consumer can be stuck here",
        "[  13 s] HARNESS ERROR: The disk is full.",
        "[  20 s] the machines have ended",
    ]


@pytest.mark.parametrize(
    ("machines", "line"),
    [
        ((), "Pulsar 4.0.8 is up"),
        (("keys", "chunks"), "Pulsar 4.0.8 is up; 2 machines: keys, chunks"),
        (tuple(f"machine-{number}" for number in range(44)), "Pulsar 4.0.8 is up; 44 machines"),
    ],
)
def test_many_machines_are_counted_and_a_few_are_named(machines: tuple[str, ...], line: str) -> None:
    screen, console = shown(terminal=False)
    with display(RULES, budget_s=90, console=console) as plain:
        plain.take(msgspec.structs.replace(STARTED, machines=machines))
    assert screen.getvalue() == f"[   5 s] {line}\n"


def test_a_run_that_was_stopped_says_why_and_speaks_of_no_failure() -> None:
    screen, console = shown(terminal=False)
    with display(RULES, budget_s=90, console=console) as plain:
        plain.take(INTERRUPTED)
    assert screen.getvalue() == "[  12 s] The run was interrupted after 12 s.\n"


def test_plain_lines_report_the_progress_from_time_to_time() -> None:
    screen, console = shown(terminal=False)
    with display(RULES, budget_s=90, console=console) as plain:
        plain.take(STARTED)
        plain.take(example(operations=50))
        for tenth in range(80, 300):
            plain.tick(tenth / 10)
    _, said = screen.getvalue().splitlines()
    assert said == f"[  {5 + PLAIN_EVERY_S:.0f} s] 50 operations, 3/s; 0 of 4 rules exercised; 1:10 left"


def test_the_times_of_plain_lines_never_decrease() -> None:
    screen, console = shown(terminal=False)
    with display(RULES, budget_s=90, console=console) as plain:
        plain.take(Phase(at_s=20.0, what="by the engine's clock"))
        plain.take(Phase(at_s=19.0, what="by another clock"))
    assert screen.getvalue().splitlines() == ["[  20 s] by the engine's clock", "[  20 s] by another clock"]
