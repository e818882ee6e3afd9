"""What stands in for unpublished parts of an assembled release: every report of a check has it."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from rich.console import Console

from conformance.brokers.installation.record import ORIGIN_FILE, AssemblyRecord, Substitute
from conformance.brokers.select import substitutes_of
from conformance.events import AnyEvent
from conformance.report import table, verdicts_json
from conformance.report.data import ReportData
from conformance.report.pages.page import page
from conformance.report.sentences.forms import encode
from conformance.verdicts import verdicts
from model.rules.catalogue import select
from tests.report.samples import STARTED, example, finished

WHEN = datetime(2026, 1, 1, tzinfo=UTC)
MISSING, USED = "org.example:library:4.18.2:pom", "org.example:library:4.18.0:pom"
RECORD = AssemblyRecord(
    version="5.0.1",
    jars=1,
    has_own_configuration=False,
    seconds=1.0,
    substitutes=(Substitute(missing=MISSING, used=USED),),
)
OF_RELEASE = {"conf/standalone.conf": "the defaults of its code", MISSING: USED}


def report_data(substitutes: dict[str, str]) -> ReportData:
    events: list[AnyEvent] = [
        msgspec.structs.replace(STARTED, substitutes=substitutes),
        example(DEDUP_01=2),
        finished(),
    ]
    return ReportData(
        verdicts=verdicts(events, select("DEDUP-01")),
        known=(),
        findings={},
        broker="5.0.1",
        seed=7,
        budget_s=240.0,
        defect=None,
        command="pulsar-conformance check",
    )


def printed(data: ReportData) -> str:
    terminal = io.StringIO()
    table.show(data, Console(file=terminal, width=200))
    return terminal.getvalue()


def test_the_substitutes_of_a_release_are_read_from_its_folder(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "org.apache.pulsar-pulsar-broker-5.0.1.jar").touch()
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "standalone.conf").touch()
    assert substitutes_of(f"dist:{tmp_path}") == {}
    (tmp_path / ORIGIN_FILE).write_bytes(msgspec.json.encode(RECORD))
    assert substitutes_of(f"dist:{tmp_path}") == OF_RELEASE
    (tmp_path / ORIGIN_FILE).write_bytes(
        msgspec.json.encode(msgspec.structs.replace(RECORD, has_own_configuration=True))
    )
    assert substitutes_of(f"dist:{tmp_path}") == {MISSING: USED}


def test_every_report_of_a_check_has_them(tmp_path: Path) -> None:
    data = report_data(OF_RELEASE)
    html = page(data, folder=tmp_path, when=WHEN)
    assert "Assembled with 2 substitutes" in html
    assert all(text in html for one in OF_RELEASE.items() for text in one)
    assert json.loads(encode(verdicts_json.form(data, folder=tmp_path, when=WHEN)))["substitutes"] == OF_RELEASE
    assert "Assembled with 2 substitutes: see the report." in printed(data)


def test_a_release_that_was_published_as_a_whole_has_none(tmp_path: Path) -> None:
    data = report_data({})
    assert "substitute" not in page(data, folder=tmp_path, when=WHEN)
    assert json.loads(encode(verdicts_json.form(data, folder=tmp_path, when=WHEN)))["substitutes"] == {}
    assert "substitute" not in printed(data)
