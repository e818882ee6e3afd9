"""The HTML page: complete, escaped, self-contained, and limited in size."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from conformance.events import AnyEvent, HarnessErrorHappened, NotExercisable
from conformance.history import document
from conformance.history.document import History, Step
from conformance.known import KnownDeviation
from conformance.report.data import ReportData, diagnosis, reported_findings
from conformance.report.pages.page import STEPS_AT_MOST, emphasised, page
from conformance.report.verdicts_json import form
from conformance.verdicts import Deviated, verdicts
from model.events import LoggedEntry, LogRead, Refused
from model.log import Position
from model.operations import CreateTopic, OpenProducer, ReadLog, Send
from model.rules.catalogue import DOCUMENTS, select
from model.vocabulary import Entry, Message
from tests.report.samples import (
    FOUND,
    INTERRUPTED,
    MINIMISED,
    OTHER_QUIRK,
    QUIRK,
    STARTED,
    answers,
    example,
    history,
    run,
    step,
)

WHEN = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
HOSTILE = "</script></style><script>alert(1)</script><img src=https://example.org/x onerror=alert(2)>\"' onclick='x"
VOID = {"meta", "br", "img", "link", "input"}


class Reader(HTMLParser):
    """Reads a page strictly enough: elements must nest, and all attributes and texts are collected."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == [], f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def report_data(
    folder: Path,
    events: Sequence[AnyEvent],
    *,
    broker: str = "4.0.8",
    known: tuple[KnownDeviation, ...] = (QUIRK,),
) -> ReportData:
    judged = verdicts(events, select("DEDUP"), known)
    return ReportData(
        verdicts=judged,
        known=known,
        findings=reported_findings(judged, folder=folder, broker=broker),
        broker=broker,
        seed=7,
        budget_s=240.0,
        defect=None,
        command="pulsar-conformance check",
    )


def written(folder: Path, recorded: History) -> None:
    path = folder / MINIMISED.history
    path.parent.mkdir(parents=True, exist_ok=True)
    document.write(recorded, path)


def read(data: ReportData, folder: Path) -> Reader:
    return Reader(page(data, folder=folder, when=WHEN))


def test_the_page_has_the_rule_the_reason_the_steps_the_evidence_and_the_replay_command(tmp_path: Path) -> None:
    written(tmp_path, history())
    text = read(report_data(tmp_path, run(example(DEDUP_01=2), FOUND, MINIMISED)), tmp_path).text
    for part in (
        "confirmed to the producer, not stored, never delivered",
        FOUND.violation.because,
        "producer p0 (session s2, pulsar-client)",
        "sends 4 (b4)",
        "✓ stored at 3:2",
        "breaks DEDUP-03",
        "3:2 p0 4 (b4)",
        "it came back in 4 of 5 replays",
        "pulsar-conformance replay",
        "--broker 4.0.8",
        "wire client 0.1.0, pulsar-client 3.13.0",
        "brokerDeduplicationEntriesInterval",
        "2026-01-02 03:04 UTC",
        "21 rules: 1 held, 1 violated, 19 not exercised.",
    ):
        assert part in text


def test_only_the_step_that_breaks_the_rule_is_marked(tmp_path: Path) -> None:
    written(tmp_path, history())
    marked = page(report_data(tmp_path, run(FOUND, MINIMISED)), folder=tmp_path, when=WHEN)
    assert marked.count('<tr class="breaks">') == 1


def test_each_participant_has_a_lane(tmp_path: Path) -> None:
    written(tmp_path, history())
    lanes = [
        value
        for name, value in read(report_data(tmp_path, run(FOUND, MINIMISED)), tmp_path).attributes
        if name == "data-lane"
    ]
    assert set(lanes) == {
        "producer p0 (session s1, wire client)",
        "producer p0 (session s2, pulsar-client)",
        "the broker",
        "the suite",
    }


def test_harness_errors_and_rules_not_exercised_are_shown(tmp_path: Path) -> None:
    events: list[AnyEvent] = [
        STARTED,
        NotExercisable(at_s=1, rule="DEDUP-04", why="no write can fail here"),
        HarnessErrorHappened(at_s=2, sentence="The disk is full.", log_tail="last words"),
    ]
    text = read(report_data(tmp_path, events), tmp_path).text
    assert "The disk is full." in text
    assert "last words" in text
    assert "no write can fail here" in text


def test_the_reason_of_a_run_that_was_stopped_is_shown_before_everything_else(tmp_path: Path) -> None:
    text = read(report_data(tmp_path, [STARTED, INTERRUPTED]), tmp_path).text
    assert text.index("The run was interrupted after 12 s.") < text.index("Verdicts")
    assert "Harness error" not in text


def test_a_known_deviation_is_explained(tmp_path: Path) -> None:
    text = read(report_data(tmp_path, run(example(DEDUP_03=2, deviations=3))), tmp_path).text
    assert "known deviation DEDUP-03" in text
    assert f"{QUIRK.name}, met 3 times" in text
    assert QUIRK.cause in text


def test_each_deviation_is_shown_with_how_often_it_was_met(tmp_path: Path) -> None:
    met = {QUIRK.name: 3, OTHER_QUIRK.name: 2}
    events = run(msgspec.structs.replace(example(DEDUP_03=2), deviations=met))
    made = report_data(tmp_path, events, known=(QUIRK, OTHER_QUIRK))
    text = read(made, tmp_path).text
    for quirk in (QUIRK, OTHER_QUIRK):
        assert f"{quirk.name}, met {met[quirk.name]} times" in text
        assert quirk.cause in text
    (verdict,) = [one for one in made.verdicts.rules if isinstance(one, Deviated)]
    for quirk in (QUIRK, OTHER_QUIRK):
        assert f"{quirk.summary} (deviation {quirk.name}, seen {met[quirk.name]} times)" in diagnosis(verdict, made)
    verdicts_form = form(made, folder=tmp_path, when=WHEN)
    assert next(one for one in verdicts_form.rules if one.id == "DEDUP-03").met == met


@pytest.mark.parametrize(("release", "known"), [("4.0.8", "known"), ("4.1.0", "not known")])
def test_a_deviation_with_a_violation_is_named(release: str, known: str, tmp_path: Path) -> None:
    found = FOUND.__replace__(violation=FOUND.violation.__replace__(deviation=QUIRK.name))
    text = read(report_data(tmp_path, [STARTED.__replace__(release=release), found]), tmp_path).text
    assert f"The deviation {QUIRK.name}, {known} of this release." in text


def test_a_known_deviation_that_was_not_met_is_shown(tmp_path: Path) -> None:
    assert f"known deviation {QUIRK.name} (DEDUP-03) was not seen" in (
        read(report_data(tmp_path, run(example(DEDUP_03=2))), tmp_path).text
    )


def test_an_unreadable_history_hides_nothing_else(tmp_path: Path) -> None:
    text = read(report_data(tmp_path, run(FOUND, MINIMISED)), tmp_path).text
    assert "Its history cannot be shown: cannot read" in text
    assert FOUND.violation.because in text


def hostile_events() -> list[AnyEvent]:
    violation = FOUND.violation.__replace__(because=HOSTILE, evidence=(HOSTILE,), deviation=HOSTILE)
    started = STARTED.__replace__(
        release=HOSTILE, clients={HOSTILE: HOSTILE}, machines=(HOSTILE,), settings={HOSTILE: HOSTILE}
    )
    return [
        started,
        NotExercisable(at_s=1, rule="DEDUP-04", why=HOSTILE),
        FOUND.__replace__(violation=violation, machine=HOSTILE),
        FOUND.__replace__(violation=violation, history=f"histories/{HOSTILE.replace('/', '')}"),
        MINIMISED,
        HarnessErrorHappened(at_s=2, sentence=HOSTILE, log_tail=HOSTILE),
    ]


def test_text_from_a_run_is_never_markup(tmp_path: Path) -> None:
    written(
        tmp_path,
        history(
            step(CreateTopic(HOSTILE), Refused(HOSTILE, HOSTILE)),
            step(OpenProducer(HOSTILE, HOSTILE, HOSTILE)),
            step(Send(HOSTILE, (Entry((Message(1, HOSTILE),)),)), answers(Refused(HOSTILE))),
        ),
    )
    reader = read(report_data(tmp_path, hostile_events(), broker=HOSTILE), tmp_path)
    assert "script" not in reader.elements
    assert "img" not in reader.elements
    assert not [name for name, _ in reader.attributes if name.startswith("on")]
    assert HOSTILE in reader.text


def test_nothing_is_loaded_from_elsewhere(tmp_path: Path) -> None:
    written(tmp_path, history())
    html = page(report_data(tmp_path, run(FOUND, MINIMISED)), folder=tmp_path, when=WHEN)
    references = [value for name, value in Reader(html).attributes if name in ("href", "src")]
    assert references
    public = {page.address for document in DOCUMENTS.values() for page in document.pages}
    assert public & set(references), "a rule says which public page it comes from"
    elsewhere = [reference for reference in references if ":" in reference or reference.startswith("/")]
    assert set(elsewhere) <= public
    loaded = [value for name, value in Reader(html).attributes if name == "src"]
    assert loaded == []
    assert "url(" not in html
    assert "@import" not in html


def long_history(steps: int) -> History:
    entries = tuple(LoggedEntry(Position(3, at), "p0", Entry((Message(at, "x" * 500),))) for at in range(45))
    return history(
        step(CreateTopic("t0")),
        *(
            Step(operation=ReadLog("t0"), outcome=LogRead(entries), invoked_ms=at, completed_ms=at)
            for at in range(1, steps)
        ),
    )


def test_a_long_history_is_cut_and_says_so(tmp_path: Path) -> None:
    written(tmp_path, long_history(300))
    text = read(report_data(tmp_path, run(FOUND, MINIMISED)), tmp_path).text
    assert f"… {300 - STEPS_AT_MOST} steps, 34 to 233, are left out …" in text
    assert "characters more)" in text


def test_the_page_stays_small_whatever_happened(tmp_path: Path) -> None:
    written(tmp_path, long_history(150))
    endless = "y" * 100_000
    events: list[AnyEvent] = [STARTED.__replace__(settings={f"{at}": endless for at in range(300)})]
    for rule in select("DEDUP"):
        violation = FOUND.violation.__replace__(rule=rule.id, because=endless, evidence=(endless,) * 200)
        events += [FOUND.__replace__(violation=violation, history=MINIMISED.history)] * 10
    events += [HarnessErrorHappened(at_s=1, sentence=endless, log_tail=f"{endless}\n" * 100)] * 100
    html = page(report_data(tmp_path, events), folder=tmp_path, when=WHEN)
    assert len(html) < 8_000_000


@pytest.mark.parametrize(
    ("statement", "markup"),
    [
        ("above *pushed* is", "above <em>pushed</em> is"),
        ("2 * 3 <is> 6", "2 * 3 &lt;is&gt; 6"),
        ("*a* and *b*", "<em>a</em> and <em>b</em>"),
    ],
)
def test_text_between_asterisks_is_emphasised(statement: str, markup: str) -> None:
    assert emphasised(statement) == markup


def test_violations_come_first_and_known_deviations_have_a_section_of_their_own_at_the_end(tmp_path: Path) -> None:
    written(tmp_path, history())
    met = example(DEDUP_03=2).__replace__(deviations={OTHER_QUIRK.name: 1})
    other = FOUND.__replace__(violation=FOUND.violation.__replace__(rule="DEDUP-12"))
    known = (OTHER_QUIRK,)
    html = page(report_data(tmp_path, run(met, other), known=known), folder=tmp_path, when=WHEN)
    places = [html.index(f'id="{name}"') for name in ("violations", "violation-DEDUP-12", "rules", "deviations")]
    assert places == sorted(places)
    assert html.index('id="violation-DEDUP-03"') > places[-1]


def test_a_run_with_only_known_deviations_has_no_violations(tmp_path: Path) -> None:
    made = report_data(tmp_path, run(example(DEDUP_03=2, deviations=3)))
    html = page(made, folder=tmp_path, when=WHEN)
    assert 'id="violations"' not in html
    assert 'id="deviations"' in html


def test_an_upstream_issue_is_a_link(tmp_path: Path) -> None:
    address = "https://github.com/apache/pulsar/issues/6273"
    upstream = msgspec.structs.replace(QUIRK, upstream=f"{address} (open), javascript:alert(1)")
    made = report_data(tmp_path, run(example(DEDUP_03=2, deviations=3)), known=(upstream,))
    public = {page.address for document in DOCUMENTS.values() for page in document.pages}
    links = [value for name, value in read(made, tmp_path).attributes if name == "href" and ":" in value]
    assert [link for link in links if link not in public] == [address]


def test_no_verdict_is_shown_by_its_colour_alone(tmp_path: Path) -> None:
    made = report_data(tmp_path, run(example(DEDUP_01=2), FOUND, MINIMISED))
    strip = [value for name, value in read(made, tmp_path).attributes if name == "aria-label"]
    assert "DEDUP-03: violated" in strip
    text = read(made, tmp_path).text
    assert "✕03" in text
    assert "✓01" in text


def test_a_violation_has_its_space_time_diagram(tmp_path: Path) -> None:
    written(tmp_path, history())
    reader = read(report_data(tmp_path, run(FOUND, MINIMISED)), tmp_path)
    assert reader.elements.count("svg") == 1
    assert "✕ breaks DEDUP-03" in reader.text
    identities = [value for name, value in reader.attributes if name == "id"]
    assert len(identities) == len(set(identities))
