"""``compare``: what is new, gone, rarer or the same on a second broker."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.commands.comparison.compare import Change, Compared, Row, Side, change_of, met_in, rows_of
from conformance.events import AnyEvent
from conformance.harness_error import HarnessError
from conformance.rates import Counts
from tests.cli.command_line import run
from tests.report.samples import FOUND, MINIMISED, QUIRK, example


@pytest.mark.parametrize(
    ("first", "later", "change"),
    [
        (Counts(0, 20), Counts(9, 20), "new"),
        (Counts(2, 40), Counts(20, 40), "more often"),
        (Counts(0, 20), Counts(1, 20), "perhaps new"),
        (Counts(5, 20), Counts(6, 20), "same"),
        (Counts(1, 20), Counts(0, 20), "perhaps gone"),
        (Counts(20, 40), Counts(2, 40), "rarer"),
        (Counts(9, 20), Counts(0, 20), "gone"),
        (Counts(0, 0), Counts(9, 20), "not comparable"),
    ],
)
def test_a_change_is_said_only_as_far_as_the_examples_tell(first: Counts, later: Counts, change: Change) -> None:
    assert change_of(first, later)[0] == change


def test_a_deviation_is_counted_in_the_examples_that_checked_its_rule() -> None:
    events: list[AnyEvent] = [example(DEDUP_03=2), example(deviations=4), example(DEDUP_01=1), FOUND, MINIMISED]
    met, examples = met_in(events)
    assert met == {("DEDUP-03", QUIRK.name): Counts(1, 2), ("DEDUP-03", None): Counts(1, 2)}
    assert examples["DEDUP-01"] == 1


def test_a_rule_that_only_one_run_checked_cannot_be_compared_and_what_is_worse_is_first() -> None:
    _, examples = met_in([example(DEDUP_03=1)] * 20)
    same, new = ("DEDUP-03", "a"), ("DEDUP-03", "b")
    rows = rows_of(
        {same: Counts(9, 20), ("ACK-01", "c"): Counts(1, 5)},
        examples,
        {same: Counts(9, 20), new: Counts(9, 20)},
        examples,
    )
    assert [(row.change, row.deviation) for row in rows] == [("new", "b"), ("not comparable", "c"), ("same", "a")]


@pytest.mark.parametrize(
    ("changes", "failures", "status"),
    [
        (["same", "rarer", "gone", "perhaps gone"], (), 0),
        (["perhaps new"], (), 3),
        (["perhaps new"], ("4.0.8: The disk is full.",), 2),
        (["more often"], ("4.0.8: The disk is full.",), 1),
        (["new"], (), 1),
    ],
)
def test_the_exit_status_is_1_only_for_what_is_worse(
    changes: list[Change], failures: tuple[str, ...], status: int
) -> None:
    rows = tuple(
        Row(rule="ACK-01", deviation=None, change=change, first=(0, 1), later=(0, 1), p=1.0) for change in changes
    )
    compared = Compared(
        suite="0",
        seed=1,
        budget_s=1.0,
        lanes=1,
        runs=("a", "b"),
        releases=("4.0.7", "4.0.8"),
        operations=(1, 1),
        exit_statuses=(0, 0),
        failures=failures,
        rules=(),
        rows={"b": rows},
    )
    assert compared.exit_status == status


def test_a_broker_may_be_followed_by_what_is_special_about_it() -> None:
    side = Side.parse("container:a/pulsar@sha256:0@client=3.12.0@settings=shipped@maxMessageSize=10240")
    assert (side.broker, side.client, side.choice) == ("container:a/pulsar@sha256:0", "3.12.0", "shipped")
    assert side.settings == (("maxMessageSize", "10240"),)
    with pytest.raises(HarnessError, match="there are no settings 'mine'"):
        Side.parse("4.0.8@settings=mine")


def test_both_brokers_are_checked_in_the_same_way_and_the_differences_are_written(tmp_path: Path) -> None:
    asked = ("compare", "4.0.8", "3.3.6", "--rules", "DEDUP", "--budget", "60s", "--seed", "7", "--report", "report")
    ran = run("violates", *asked, folder=tmp_path)
    assert ran.status == 0, ran.err
    written = json.loads((tmp_path / "report" / "compare.json").read_bytes())
    assert [row["change"] for row in written["rows"]["3.3.6"]] == ["same"]
    assert written["exit_statuses"] == [1, 1]
    assert (tmp_path / "report" / "compare.md").read_text().startswith("# 4.0.8 and 3.3.6\n")
    words = [(tmp_path / "report" / number / "arguments").read_text().split() for number in "12"]
    assert [one[one.index("--pulsar-broker") + 1] for one in words] == ["4.0.8", "3.3.6"]
    assert [one[one.index("--pulsar-seed") + 1] for one in words] == ["7", "7"]


def test_one_broker_is_nothing_to_compare(tmp_path: Path) -> None:
    ran = run("holds", "compare", "4.0.8", folder=tmp_path)
    assert ran.status == 2
    assert "name two brokers at least" in ran.err


def test_a_broker_that_cannot_be_had_ends_the_command_before_the_first_is_checked(tmp_path: Path) -> None:
    command = [
        str(Path(sys.executable).with_name("pulsar-conformance")),
        "compare",
        "4.0.8",
        "rc:/gone/pulsar-bin.tar.gz",
    ]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "There is no candidate at /gone/pulsar-bin.tar.gz: no such file." in ran.stderr
    assert "starting the broker" not in ran.stderr
    assert list(tmp_path.iterdir()) == []
