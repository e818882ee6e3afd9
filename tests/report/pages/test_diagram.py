"""Space-time diagrams of every history that the suite ships, and of small handmade ones."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from conformance.history import document
from conformance.history.document import History, Step
from conformance.known import HISTORIES as SHIPPED
from conformance.report.pages.arrows import ARROWS_AT_MOST
from conformance.report.pages.diagram import STEPS_AT_MOST, Diagram, diagram_of
from conformance.report.pages.space_time import FITTING, HEAD, LONGEST_GAP, TALLEST, draw
from model.events import Stored
from model.log import Position
from model.operations import Kill, OpenProducer, Send
from tests.report.samples import VIOLATION, answers, entry, history, step

DOCS = Path(__file__).parents[3] / "docs" / "histories"
HISTORIES = sorted([*SHIPPED.glob("*.json"), *DOCS.glob("*.json")])


def made(recorded: History) -> Diagram:
    diagram = diagram_of(recorded)
    assert diagram is not None
    return diagram


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
def test_every_shipped_history_has_a_diagram_with_a_lane_for_each_arrow(path: Path) -> None:
    recorded = document.read(path)
    diagram = made(recorded)
    lanes = {lane.name: lane for lane in diagram.lanes}
    assert len(diagram.bands) <= STEPS_AT_MOST
    assert len(diagram.bands) + diagram.left_out == len(recorded.steps)
    for band in diagram.bands:
        assert band.lane in lanes
        assert len(band.arrows) <= ARROWS_AT_MOST
        for arrow in band.arrows:
            assert not lanes[arrow.client].is_broker
            assert lanes[band.broker].is_broker
    breaking = [band.step for band in diagram.bands if band.breaks]
    assert breaking == ([recorded.violation.step] if recorded.violation is not None else [])
    drawn = draw(diagram, name="d")
    root = ElementTree.fromstring(drawn)
    assert root.get("role") == "img"
    assert len(drawn) < 200_000


@pytest.mark.parametrize("name", ["first-round-response-counts-twice", "too-large-to-replicate"])
def test_lanes_of_several_clusters_fit_into_the_page_with_complete_names(name: str) -> None:
    diagram = made(document.read(SHIPPED / f"{name}.json"))
    drawn = ElementTree.fromstring(draw(diagram, name="d"))
    assert float(drawn.attrib["width"]) <= FITTING
    lanes = [group for group in drawn.iter("g") if group.attrib["class"].startswith("lane")]
    headings = [" ".join(filter(None, (text.text for text in lane.iter("text")))) for lane in lanes]
    assert [shown.partition(" (")[0] for shown in headings] == [one.heading.partition(" (")[0] for one in diagram.lanes]


def test_a_send_is_an_arrow_to_the_broker_and_its_answer_one_back() -> None:
    diagram = made(history())
    assert [lane.name for lane in diagram.lanes] == ["suite", "broker", "s1", "s2"]
    (breaking,) = [band for band in diagram.bands if band.breaks]
    assert (breaking.step, breaking.lane, breaking.breaks) == (8, "s2", VIOLATION.rule)
    assert [(arrow.client, arrow.is_out, arrow.label) for arrow in breaking.arrows] == [
        ("s2", True, "send 4 (b4)"),
        ("s2", False, "stored at 3:2"),
    ]


def test_an_arrow_with_an_unknown_arrival_ends_in_a_cross() -> None:
    crash = made(history()).bands[4]
    assert [(arrow.label, arrow.is_lost) for arrow in crash.arrows] == [("stored at 3:1", False), ("no answer", True)]
    assert 'class="arrow lost"' in draw(made(history()), name="d")


def test_frames_that_the_proxy_recorded_have_their_own_style() -> None:
    chunked = made(document.read(SHIPPED / "chunk-discarded-not-redelivered.json"))
    assert chunked.has_seen
    assert 'class="arrow seen"' in draw(chunked, name="d")
    assert not made(history()).has_seen


def test_only_the_step_that_breaks_the_rule_is_marked() -> None:
    drawn = draw(made(history()), name="d")
    assert drawn.count('class="break"') == 1
    assert "✕ breaks DEDUP-03" in drawn


def test_the_text_alternative_names_the_violation_and_the_reason() -> None:
    root = ElementTree.fromstring(draw(made(history()), name="d"))
    texts = {element.get("id"): element.text for element in root.iter() if element.get("id")}
    assert root.get("aria-labelledby") == "d-t d-d"
    assert f"Step 8 breaks DEDUP-03: {VIOLATION.because}." in (texts["d-d"] or "")


def long(steps: int) -> History:
    """Sends, each of which takes a minute and follows an hour after the one before."""
    opened = step(OpenProducer("s1", "t0", "p0", "wire"))
    sends = (
        Step(
            operation=Send("s1", (entry(number),)),
            outcome=answers(Stored(Position(3, number))),
            invoked_ms=number * 3_600_000.0,
            completed_ms=number * 3_600_000.0 + 60_000,
        )
        for number in range(1, steps)
    )
    return history(opened, *sends, violation=VIOLATION.__replace__(step=steps))


def test_a_long_history_keeps_its_end_and_counts_the_omitted_steps() -> None:
    diagram = made(long(200))
    assert [band.step for band in diagram.bands] == list(range(201 - STEPS_AT_MOST, 201))
    assert diagram.left_out == 200 - STEPS_AT_MOST


def test_long_pauses_and_steps_are_compressed_and_labelled_with_their_duration() -> None:
    drawn = draw(made(long(5)), name="d")
    height = float(ElementTree.fromstring(drawn).get("height") or 0)
    assert height < HEAD + 5 * (TALLEST + LONGEST_GAP) + 20
    assert "+60 000 ms" in drawn
    assert "⋮ 3 540 000 ms" in drawn
    assert 'class="zigzag"' in drawn


def test_other_topics_are_omitted() -> None:
    other = step(OpenProducer("s9", "t9", "p9", "wire"))
    steps = made(history()).bands
    with_other = history(other, *history().steps, violation=VIOLATION.__replace__(step=9))
    assert len(made(with_other).bands) == len(steps)
    assert made(with_other).left_out == 1
    assert "s9" not in {lane.name for lane in made(with_other).lanes}


def test_a_history_without_steps_has_no_diagram() -> None:
    assert diagram_of(history(step(Kill()), violation=None).__replace__(steps=())) is None
