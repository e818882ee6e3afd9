"""The layout of the page: its order, diagrams in which no label lies over another, and, with Chromium, a phone."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from conformance.history import document
from conformance.known import HISTORIES as SHIPPED
from conformance.known import shipped
from conformance.report.data import stored_findings
from conformance.report.pages.diagram import Diagram, diagram_of
from conformance.report.pages.page import page, style
from conformance.report.pages.space_time import draw
from model.operations import OpenProducer
from model.subscription_operations import Subscribe
from tests.report.pages.test_page import WHEN, report_data, written
from tests.report.samples import FOUND, MINIMISED, QUIRK, example, history, run

HEIGHT, BELOW = 9.0, 3.0
"""How far a letter reaches above and below its baseline, in pixels."""
NARROW, WIDE = 400, 1280
STORED = sorted(SHIPPED.glob("*.json"))
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
ALONE = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"),
)
MEASURING = ("--allow-file-access-from-files", "--dump-dom", "--virtual-time-budget=5000")
_ANCHORS = {"name": 0.5, "below": 0.5, "before": 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """The place of a label."""

    text: str
    left: float
    right: float
    top: float
    bottom: float

    def lies_over(self, other: Box) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


def labels(drawn: str) -> Iterator[Box]:
    for text in ElementTree.fromstring(drawn).iter("text"):
        width, x, y = (float(text.attrib[name]) for name in ("textLength", "x", "y"))
        left = x - width * _ANCHORS.get(text.attrib["class"], 0.0)
        yield Box(text=text.text or "", left=left, right=left + width, top=y - HEIGHT, bottom=y + BELOW)


def crosses(drawn: str) -> Iterator[Box]:
    """The crosses of arrows whose arrival is unknown."""
    for group in ElementTree.fromstring(drawn).iter("g"):
        if group.attrib["class"] == "arrow lost":
            found = re.match(r"M(\d+) ([\d.]+)", group.find("path").attrib["d"])  # type: ignore[union-attr]
            assert found is not None
            x, y = float(found[1]), float(found[2])
            yield Box(text="✕", left=x - 4, right=x + 4, top=y - 4, bottom=y + 4)


def diagram(path: Path) -> Diagram:
    made = diagram_of(document.read(path))
    assert made is not None
    return made


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_no_label_of_a_diagram_lies_over_another_or_over_a_cross_or_outside(path: Path) -> None:
    drawn = draw(diagram(path), name="d")
    placed = [*labels(drawn), *crosses(drawn)]
    width = float(ElementTree.fromstring(drawn).attrib["width"])
    assert [(one.text, one.left, one.right) for one in placed if one.left < 0 or one.right > width] == []
    assert [(a.text, b.text) for at, a in enumerate(placed) for b in placed[:at] if a.lies_over(b)] == []


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_producers_and_consumers_have_an_arrow_to_the_broker_that_they_connect_to(path: Path) -> None:
    steps = document.read(path).steps
    for band in diagram(path).bands:
        operation = steps[band.step - 1].operation
        if isinstance(operation, OpenProducer | Subscribe):
            assert any(arrow.is_out for arrow in band.arrows), band.words


def rendered(tmp_path: Path) -> str:
    """A page with a violation and a known deviation that was only tolerated, and so has a stored history."""
    written(tmp_path, history())
    (known,) = (one for one in shipped() if one.name == "overlapping-batch-dropped")
    met = example(DEDUP_02=2).__replace__(deviations={known.name: 3})
    data = report_data(tmp_path, run(example(DEDUP_01=2), met, FOUND, MINIMISED), known=(known, QUIRK))
    data = replace(data, stored=stored_findings(data.verdicts, data.known, broker="4.0.8"))
    return page(data, folder=tmp_path, when=WHEN)


def test_violations_come_first_and_a_chip_leads_to_them(tmp_path: Path) -> None:
    text = rendered(tmp_path)
    assert text.index('id="violations"') < text.index('id="rules"') < text.index('id="deviations"')
    assert re.search(r'<a class="v-violated" href="#violation-DEDUP-03"', text)
    assert re.search(r'<a class="v-held" href="#DEDUP-01"', text)


def test_each_link_to_a_known_deviation_leads_to_its_history_diagram_and_command(tmp_path: Path) -> None:
    text = rendered(tmp_path)
    card = text[text.index('id="violation-DEDUP-02"') :].partition("</article>")[0]
    assert "Space-time diagram" in card
    assert "Step by step" in card
    assert re.search(rf"replay \S*{'overlapping-batch-dropped'}\.json --broker 4\.0\.8 --known none", card)


def test_many_machines_are_folded(tmp_path: Path) -> None:
    machines = tuple(f"machine-{number}" for number in range(44))
    data = report_data(tmp_path, run(example(DEDUP_01=2)))
    assert data.verdicts.started is not None
    verdicts = replace(data.verdicts, started=data.verdicts.started.__replace__(machines=machines))
    text = page(replace(data, verdicts=verdicts), folder=tmp_path, when=WHEN)
    assert "<details><summary>44 machines</summary>" in text


MEASURE = """
<script>
const over = [];
document.querySelectorAll('svg.space-time').forEach(svg => {
  const boxes = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBBox()]);
  boxes.forEach(([a, p], i) => boxes.slice(0, i).forEach(([b, q]) => {
    const beside = p.x >= q.x + q.width || q.x >= p.x + p.width;
    if (!beside && p.y + 3 < q.y + q.height && q.y + 3 < p.y + p.height) over.push([a, b]);
  }));
});
const cut = [...document.querySelectorAll('.verdicts td, .verdicts th, .act p, .badge')].filter(e => {
  const r = e.getBoundingClientRect(); return r.width && r.right > innerWidth + 1; }).map(e => e.textContent.trim());
const first = document.querySelector('main h2').getBoundingClientRect().top;
const text = JSON.stringify({over, cut, first, wide: document.documentElement.scrollWidth > innerWidth});
const escaped = text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
parent.document.documentElement.innerHTML = '<body><pre id="measured">' + escaped + '</pre></body>';
</script>
"""


def measured(html: str, tmp_path: Path, *, width: int) -> dict[str, Any]:
    """What Chromium says of the page in a window of this width: it has a frame, because windows have a least width."""
    file, frame = tmp_path / "page.html", tmp_path / "frame.html"
    open_to_scripts = re.sub(r"<meta http-equiv=\"Content-Security-Policy\"[^>]*>", "", html)
    file.write_text(open_to_scripts.replace("</body>", f"{MEASURE}</body>"))
    frame.write_text(f'<body><iframe src="page.html" style="width:{width}px;height:3000px;border:0"></iframe></body>')
    assert CHROMIUM is not None
    ran = subprocess.run(
        [CHROMIUM, *ALONE, f"--user-data-dir={tmp_path / 'profile'}", *MEASURING, f"file://{frame}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = re.search(r'<pre id="measured">(.*?)</pre>', ran.stdout, re.DOTALL)
    assert found is not None, ran.stderr[-2000:]
    values: dict[str, Any] = json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    return values


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium to draw the page")
@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_a_browser_shows_each_row_whole_and_no_label_over_another(width: int, tmp_path: Path) -> None:
    found = measured(rendered(tmp_path), tmp_path, width=width)
    assert found["over"] == []
    assert found["cut"] == []
    assert not found["wide"]
    assert found["first"] < (750 if width == NARROW else 450)


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium to draw the page")
def test_a_browser_draws_no_label_of_any_stored_history_over_another(tmp_path: Path) -> None:
    drawn = "".join(draw(diagram(path), name=f"d{number}") for number, path in enumerate(STORED[::10]))
    for one in drawn.split("</svg>")[:-1]:
        html = f"<html><head><style>{style()}</style></head><body><main><h2></h2>{one}</svg></main></body></html>"
        assert measured(html, tmp_path, width=WIDE)["over"] == []
