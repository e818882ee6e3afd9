"""Printed output: as wide as the terminal, and in long lines elsewhere."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from conformance.commands.listings import list_rules
from conformance.report import table
from model.rules.catalogue import CATALOGUE
from tests.report.pages.test_page import report_data, written
from tests.report.samples import FOUND, MINIMISED, example, history, run

WIDTH = 80
ALL = {rule.id.replace("-", "_"): 2 for rule in CATALOGUE if rule.family == "DEDUP"}


def printed(show: Callable[[Console], None], *, terminal: bool) -> list[str]:
    screen = io.StringIO()
    show(Console(file=screen, width=WIDTH, force_terminal=terminal, color_system=None, highlight=False))
    return [line.rstrip() for line in screen.getvalue().splitlines()]


def test_a_terminal_has_one_line_for_each_rule_within_its_width(tmp_path: Path) -> None:
    made = report_data(tmp_path, run(example(**ALL), example(deviations=3)))
    lines = printed(lambda console: table.show(made, console), terminal=True)
    assert max(map(len, lines)) <= WIDTH
    assert len(lines) == 3 + len(ALL) + 3
    assert lines[3].startswith("DEDUP-01   held                     2        -  Deduplication is switched per b")
    assert lines[5].startswith("DEDUP-03   known deviation          2        -  batch-without-highest-id (3")
    assert lines[-1] == f"{len(ALL)} rules: {len(ALL) - 1} held, 1 known deviation."


def test_rules_whose_checks_were_mostly_excused_are_named(tmp_path: Path) -> None:
    excused = example(**ALL).__replace__(excused={"DEDUP-02": 3, "DEDUP-04": 2})
    made = report_data(tmp_path, run(excused))
    lines = printed(lambda console: table.show(made, console), terminal=False)
    assert "More than half of the checks were excused: DEDUP-02 (3 of 5)." in lines
    assert lines[4].split()[:4] == ["DEDUP-02", "held", "2", "3"]


def test_a_history_is_wrapped_on_a_terminal_and_has_long_lines_elsewhere(tmp_path: Path) -> None:
    written(tmp_path, history())
    made = report_data(tmp_path, run(example(**ALL), FOUND, MINIMISED))
    on_terminal, elsewhere = (
        printed(lambda console: table.show(made, console), terminal=terminal) for terminal in (True, False)
    )
    step = "    5. producer p0 (session s1, wire client) crashes: its connection closes without CloseProducer. Before"
    assert any(line.startswith(step) for line in elsewhere)
    assert not any(line.startswith(step) for line in on_terminal)
    assert " ".join(" ".join(on_terminal[len(ALL) + 3 :]).split()) == " ".join(
        " ".join(elsewhere[len(ALL) + 3 :]).split()
    )


def test_rules_are_listed_one_per_line_without_a_terminal() -> None:
    lines = printed(list_rules, terminal=False)
    assert sum(line.startswith(tuple(rule.id for rule in CATALOGUE)) for line in lines) == len(CATALOGUE)
    assert not any(line.startswith(" ") for line in lines)
    assert any(len(line) > 2 * WIDTH for line in lines)
    assert max(map(len, printed(list_rules, terminal=True))) <= WIDTH
