"""The generated pages of the documentation."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from conformance.documentation import HUNTS, REFERENCE, RUNS, TRACK_RECORD, main
from conformance.faults import catalogue
from conformance.harness_error import HarnessError
from conformance.hunt_result import DefectMissed
from conformance.report.docs import hunts, results
from conformance.report.docs.markdown import defects_page

DOCS = Path(__file__).parents[2] / "docs"
MEASURED = {"finding.md", "finding.svg"}
"""Pages that follow from measurements of the tests, which hold them against these."""


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The pages, by their names, as they are written now."""
    folder = tmp_path_factory.mktemp("docs")
    shutil.copytree(DOCS / HUNTS, folder / HUNTS)
    (folder / RUNS).parent.mkdir()
    for file in (RUNS, TRACK_RECORD):
        shutil.copy(DOCS / file, folder / file)
    main(folder)
    return {path.name: path.read_text(encoding="utf-8") for path in (folder / REFERENCE).iterdir()}


def test_the_generated_pages_are_up_to_date(generated: dict[str, str]) -> None:
    assert set(generated) == {path.name for path in (DOCS / REFERENCE).iterdir()} - MEASURED
    stale = [name for name, text in generated.items() if (DOCS / REFERENCE / name).read_text(encoding="utf-8") != text]
    assert not stale, "run `make docs`"


def test_every_defect_of_the_hunts_that_are_kept_was_found_in_one_of_them() -> None:
    kept = [hunts.read(path) for path in (DOCS / HUNTS).glob("*.json")]
    assert kept
    hunted = {one.id for hunt in kept for one in hunt.defects}
    found = {one.id for hunt in kept for one in hunt.defects if one.result == "found"}
    assert hunted == found


def test_a_defect_that_was_not_hunted_or_not_found_is_listed_as_such() -> None:
    missed, unhunted = catalogue.defects()[:2]
    encoded = hunts.as_json(
        [DefectMissed(defect=missed, operations=9, seconds=1.0)], broker="4.0.8", seed=1, budget_s=60
    )
    page = defects_page((missed, unhunted), [msgspec.json.decode(encoded, type=hunts.HuntForm)])
    assert "0 of 1 defect found" in page
    assert f"| `{missed.name}` | not-found |" in page
    assert f"Not hunted yet: `{unhunted.name}`." in page


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"release": "4.0.8"}', "does not have a run in each line: Object missing required field `command`"),
        ('{"release": "4.0.8", "command": "check", "speed": 1}', "unknown field `speed`"),
        (
            '{"release": "4.0.8", "command": "check", "found": [{"rule": "ACK-01", "cause": "moon"}]}',
            "no cause moon",
        ),
    ],
)
def test_a_line_that_is_no_run_is_a_harness_error(line: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_text(line + "\n")
    with pytest.raises(HarnessError, match=complaint):
        results.read(tmp_path / "runs.jsonl")


def test_the_table_of_results_has_what_held_what_is_known_and_what_is_open() -> None:
    held = results.RuleResult(verdict="held", exercised=3)
    violated = results.RuleResult(verdict="violated", exercised=1)
    runs = (
        results.Run(release="9.9.9", command="check", rules={"ACK-01": violated}),
        results.Run(release="9.9.9", command="check", rules={"ACK-01": held, "ACK-02": held, "KEY-01": violated}),
        results.Run(release="9.9.9", command="soak", found=(results.Finding(rule="KEY-01", cause="open"),)),
        results.Run(release="9.9.9", command="check", found=(results.Finding(rule="REPL-01", cause="suite"),)),
    )
    (row,) = (line for line in results.results_page(runs).splitlines() if line.startswith("| 9.9.9 "))
    cells = dict(zip(results.FAMILIES, row.strip("| ").split(" | ")[1:], strict=True))
    assert cells == dict.fromkeys(results.FAMILIES, "0 held") | {"ACK": "2 held", "KEY": "0 held; open: KEY-01"}


def test_a_file_that_is_no_hunt_is_a_harness_error(tmp_path: Path) -> None:
    (tmp_path / "hunt.json").write_text("[]")
    with pytest.raises(HarnessError, match="does not have the JSON of a hunt"):
        hunts.read(tmp_path / "hunt.json")
