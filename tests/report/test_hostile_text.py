"""What a broker says reaches no terminal, log, page or XML as a command: one test for each report."""

from __future__ import annotations

import io
import re
import unicodedata
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from conformance import cli
from conformance.commands.supervision.engine import Engine
from conformance.events import AnyEvent, HarnessErrorHappened, NotExercisable, Phase
from conformance.harness_error import HarnessError
from conformance.history import document
from conformance.report import github, junit, table
from conformance.report.console import SafeConsole
from conformance.report.data import ReportData, reported_findings
from conformance.report.pages import page
from conformance.report.printable import in_log, printable
from conformance.report.progress import display
from conformance.verdicts import verdicts
from model.rules.catalogue import select
from tests.report.samples import FOUND, MINIMISED, STARTED, VIOLATION, example, finished, history

HOSTILE = (
    "\x1b[2J\x1b]0;title\x07 said\n::error::no release\n  ::stop-commands::x\r::add-mask::y\n"
    "##vso[task.setvariable variable=a]b ##[error]c\x00\x9b31m\u202egnorw\ud800\ufffe <script>alert(1)</script> "
    "[link](https://e.invalid) ![p](https://e.invalid/p) *bold* | cell `code` &amp; ]]>"
)
VIOLATED = replace(VIOLATION, because=HOSTILE, evidence=(HOSTILE, *HOSTILE.splitlines()))
EVENTS: tuple[AnyEvent, ...] = (
    replace(STARTED, release=HOSTILE, clients={"official": HOSTILE, "wire": HOSTILE}, machines=(HOSTILE,)),
    Phase(at_s=6.0, what=HOSTILE),
    example(DEDUP_01=1, DEDUP_03=1),
    replace(FOUND, violation=VIOLATED, machine=HOSTILE),
    MINIMISED,
    NotExercisable(at_s=9.0, rule="KEY-01", why=HOSTILE),
    HarnessErrorHappened(at_s=9.0, sentence=HOSTILE, log_tail=HOSTILE),
    finished(),
)
RULES = "DEDUP-01,DEDUP-03,KEY-01"


@pytest.fixture
def data(tmp_path: Path) -> ReportData:
    """A report in which every text is hostile."""
    (tmp_path / "histories").mkdir()
    told = replace(history(violation=replace(VIOLATED, because="said", evidence=())), machine="m")
    for name in (FOUND.history, MINIMISED.history):
        document.write(told, tmp_path / name)
    judged = verdicts(EVENTS, select(RULES), (), named={"KEY-01"})
    return ReportData(
        verdicts=judged,
        known=(),
        findings=reported_findings(judged, folder=tmp_path, broker=HOSTILE),
        broker=HOSTILE,
        seed=7,
        budget_s=240.0,
        defect=HOSTILE,
        command=HOSTILE,
    )


def is_harmless(text: str, *, in_ci: bool) -> bool:
    """No control characters but tabs and line feeds; nothing that changes the direction; no command of a CI."""
    for character in text:
        if character not in "\t\n" and unicodedata.category(character) in {"Cc", "Cs"}:
            return False
        if unicodedata.bidirectional(character) in {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}:
            return False
    return not in_ci or not re.search(r"^\s*::|##[\w-]*\[", text, re.MULTILINE)


def without_styles(text: str) -> str:
    """A terminal's text without the styles and the cursor's moves of rich."""
    return re.sub(r"\x1b\[[\d;?]*[mKAlh]|\r", "", text)


def screen(*, is_terminal: bool) -> tuple[io.StringIO, SafeConsole]:
    out = io.StringIO()
    return out, SafeConsole(file=out, force_terminal=is_terminal, width=100, highlight=False)


@given(text=st.text())
def test_printable_text_is_harmless_and_stays_so(text: str) -> None:
    assert is_harmless(printable(text), in_ci=False)
    assert is_harmless(in_log(text), in_ci=True)
    assert in_log(in_log(text)) == in_log(text)
    printable(text).encode()


@pytest.mark.parametrize("text", ["a\tb\nc", "naïve 名 😀", "pulsar+ssl://[::1]:6651", "std::string", "# a [b]", "##"])
def test_usual_text_is_not_changed(text: str) -> None:
    assert in_log(text) == text


@pytest.mark.parametrize("is_terminal", [True, False])
def test_the_table_and_the_progress_print_it_harmlessly(is_terminal: bool, data: ReportData) -> None:
    out, console = screen(is_terminal=is_terminal)
    with display(select(RULES), budget_s=60, console=console) as shown:
        for event in EVENTS:
            shown.take(event)
        shown.tick(30.0)
    table.show(data, console, verbose=True)
    printed = without_styles(out.getvalue())
    assert "said" in printed
    assert is_harmless(printed, in_ci=True)


def test_an_error_of_a_command_is_printed_harmlessly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(**_options: object) -> None:
        raise HarnessError(HOSTILE)

    monkeypatch.setattr(cli.cli.commands["rules"], "callback", fails)
    with pytest.raises(SystemExit):
        cli.main(["rules"], Engine())
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert is_harmless(said, in_ci=True)


def test_annotations_are_the_only_commands_of_a_step(
    data: ReportData, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = tmp_path / "summary.md"
    github.publish(data, {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)})
    lines = capsys.readouterr().out.splitlines()
    assert {line.partition(" ")[0] for line in lines} == {"::error", "::notice"}
    assert len(lines) == len(github.commands(data))
    assert is_harmless("\n".join(line.partition(" title=")[2] for line in lines), in_ci=False)
    markdown = summary.read_text("utf-8")
    assert is_harmless(markdown, in_ci=False)
    outside_of_code = re.sub(r"^```\n.*\n```$", "", markdown, flags=re.MULTILINE)
    assert outside_of_code.count("```") == 0
    assert not re.search(r"(?<!\\)\[link|<script|(?<!\\)\*bold", outside_of_code)


def test_the_xml_can_be_parsed_and_has_the_text(data: ReportData, tmp_path: Path) -> None:
    junit.write(data, tmp_path / "junit.xml")
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()
    texts = [*suite.itertext(), *(value for element in suite.iter() for value in element.attrib.values())]
    assert any("said" in text for text in texts)
    assert all(is_harmless(text, in_ci=False) for text in texts)


def test_the_page_has_no_element_or_control_character_of_a_broker(data: ReportData, tmp_path: Path) -> None:
    page.write(data, tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text("utf-8")
    assert "said" in html
    assert "<script" not in html
    assert is_harmless(html, in_ci=False)
    assert is_harmless(printable(page.page(data, folder=tmp_path, when=datetime.now(UTC))), in_ci=False)
