"""The generated pages of the documentation."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from conformance.documentation import HUNTS, REFERENCE, main
from conformance.faults import catalogue
from conformance.harness_error import HarnessError
from conformance.hunt_result import DefectMissed
from conformance.report.docs import hunts
from conformance.report.docs.markdown import defects_page
from model.explorations import VARIANTS

DOCS = Path(__file__).parents[2] / "docs"
MEASURED = {"finding.md", "finding.svg"}
"""Pages that follow from measurements of the tests, which hold them against these."""


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The pages, by their names, as they are written now."""
    folder = tmp_path_factory.mktemp("docs")
    shutil.copytree(DOCS / HUNTS, folder / HUNTS)
    main(folder)
    return {path.name: path.read_text(encoding="utf-8") for path in (folder / REFERENCE).iterdir()}


def test_the_generated_pages_are_up_to_date(generated: dict[str, str]) -> None:
    assert set(generated) == {path.name for path in (DOCS / REFERENCE).iterdir()} - MEASURED
    stale = [name for name, text in generated.items() if (DOCS / REFERENCE / name).read_text(encoding="utf-8") != text]
    assert not stale, "run `make docs`"


def test_every_variant_of_the_model_has_its_counterexample(generated: dict[str, str]) -> None:
    page = generated["exploration.md"]
    sections = {section.splitlines()[0]: section for section in page.split("\n### ")[1:]}
    assert set(sections) == {variant.name for variant in VARIANTS}
    assert all("  Broken" in section for section in sections.values())


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


def test_a_file_that_is_no_hunt_is_a_harness_error(tmp_path: Path) -> None:
    (tmp_path / "hunt.json").write_text("[]")
    with pytest.raises(HarnessError, match="does not have the JSON of a hunt"):
        hunts.read(tmp_path / "hunt.json")
