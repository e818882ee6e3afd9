"""The report of histories: everything that was found is in it, drawn and escaped, in one self-contained page."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from conformance.pipeline.files.history_files import Files
from conformance.pipeline.summary import Summary
from conformance.pipeline.verdict import BrokenInvariant, ReportedCase, Verification
from conformance.report.pages import histories
from conformance.report.pages.plots import duration, ticks
from conformance.verdicts import Held
from model.rules.catalogue import RULES
from tests.history.samples import event_as_row

CASE = ReportedCase(
    invariant="lost",
    run="one",
    cluster="",
    topic="<t>",
    fault="kill",
    because="a message that was confirmed is not in the log",
    deviation=None,
    events=(event_as_row(),),
)
FOUND = Verification(
    rules=(
        Held(rule=RULES["ACK-06"], exercised=70),
        BrokenInvariant(
            rule=RULES["DEDUP-15"],
            exercised=9,
            times=2,
            topics=1,
            explained={"second-recovery-not-awaited": 1},
            cases=(CASE,),
        ),
    ),
    problems=("x.parquet is damaged",),
    notes=(),
    events=12345,
    seconds=3.0,
    demands_all=False,
    runs=(),
    by_fault=(),
    files=Files(in_order=(), loose=(), problems=()),
)
SUMMARY = Summary(
    rules=[
        {"run": "one", "release": "4.0.8", "rule": "DEDUP-15", "judged": 9, "broken": 3, "explained": 1},
        {"run": "two", "release": None, "rule": "DEDUP-15", "judged": 5, "broken": 1, "explained": 1},
        {"run": "two", "release": None, "rule": "ACK-06", "judged": 70, "broken": 0, "explained": 0},
    ],
    anomalies=[{"run": "one", "rule": "DEDUP-15", "fault": "kill", "times": 3}],
    rates=[
        {"run": "one", "cluster": "", "kind": kind, "from_s": from_s, "lasts_s": 2.0, "events": events}
        for kind, counts in (("ack", {0.0: 4, 4.0: 8}), ("send", {0.0: 10, 2.0: 6}))
        for from_s, events in counts.items()
    ],
    faults=[{"run": "one", "cluster": "", "fault": "kill", "from_s": 1.5, "to_s": 3.0}],
    latencies=[
        {"run": "one", "cluster": "", "what": "send", "number": 7, "longest_ms": 40.0}
        | {"p50_ms": 2.0, "p90_ms": 4.0, "p99_ms": 30.0, "p999_ms": 40.0}
    ],
    spread=[{"run": "one", "what": "send", "up_to_ms": 2.0**power, "number": power + 1} for power in range(6)],
)


def test_the_page_has_every_verdict_and_case_and_a_plot_of_each_run() -> None:
    page = histories.page(FOUND, SUMMARY, when=datetime(2026, 1, 2, tzinfo=UTC))
    for text in ("2 recorded runs", "12 345", "4.0.8", "unknown release", "v-known-deviation", "x.parquet is damaged"):
        assert text in page
    assert "2 times for no known reason, in 1 topic." in page
    assert "after the fault kill" in page
    assert "explained by second-recovery-not-awaited" in page
    assert page.count("<svg") == 2
    assert page.count('class="line ') == 2
    assert page.count('class="bar ') == 6
    assert "1 kill" in page
    assert "&lt;t&gt;" in page
    assert "<t>" not in page


def test_the_page_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    page = histories.write(FOUND, SUMMARY, tmp_path / "new").read_text("utf-8")
    assert "http" not in page.replace('http-equiv="Content-Security-Policy"', "")
    assert "<script" not in page


def test_an_interval_without_events_is_drawn_as_zero() -> None:
    page = histories.page(FOUND, SUMMARY, when=datetime(2026, 1, 2, tzinfo=UTC))
    acks, sends = page.split('<polyline class="line ')[1:]
    heights = [float(point.split(",")[1]) for point in acks.split('points="')[1].split('"')[0].split()]
    assert len(heights) == 3
    assert heights[1] == max(heights) > heights[0] > heights[2]
    assert len(sends.split('points="')[1].split('"')[0].split()) == 3


@pytest.mark.parametrize(
    ("least", "most", "expected"),
    [(0, 10, [0, 2, 4, 6, 8, 10]), (0, 97, [0, 20, 40, 60, 80]), (3, 3, [3]), (0, 0.4, [0, 0.1, 0.2, 0.3, 0.4])],
)
def test_axes_have_round_ticks(least: float, most: float, expected: list[float]) -> None:
    assert ticks(least, most) == pytest.approx(expected)


def test_times_are_shown_with_their_unit() -> None:
    assert [duration(time) for time in (0.02, 1.5, 999, 61_000)] == ["20 µs", "1.5 ms", "999 ms", "61 s"]
