"""The generated pages of the documentation."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from conformance.documentation import HUNT, main, pages
from conformance.faults import catalogue
from conformance.hunting import Missed
from conformance.report import hunts
from conformance.report.markdown import defects_page
from conformance.trouble import Trouble
from model.variants import VARIANTS

DOCS = Path(__file__).parents[2] / "docs"


def test_the_generated_pages_are_up_to_date() -> None:
    stale = [name for name, text in pages(DOCS).items() if (DOCS / name).read_text(encoding="utf-8") != text]
    assert not stale, "run `make docs`"


def test_the_pages_are_written_where_they_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / HUNT).parent.mkdir()
    (tmp_path / HUNT).write_bytes((DOCS / HUNT).read_bytes())
    main(tmp_path)
    assert {path.name for path in tmp_path.glob("*.md")} == set(pages(DOCS))


def test_every_variant_of_the_model_has_its_counterexample() -> None:
    page = pages(DOCS)["exploration.md"]
    sections = {section.splitlines()[0]: section for section in page.split("\n### ")[1:]}
    assert set(sections) == {variant.name for variant in VARIANTS}
    assert all("  Broken" in section for section in sections.values())


def test_a_defect_that_was_not_hunted_or_not_found_says_so() -> None:
    hunted = [one for one in hunts.read(DOCS / HUNT).defects if one.result == "found"][:1]
    found = catalogue.find(hunted[0].id)
    missed, unhunted = [defect for defect in catalogue.defects() if defect != found][:2]
    account = hunts.as_json([Missed(defect=missed, operations=9, seconds=1.0)], broker="4.0.8", seed=1, budget_s=60)
    told = msgspec.json.decode(account, type=hunts.ToldHunt)
    page = defects_page((found, missed, unhunted), replace(told, defects=(*hunted, *told.defects)))
    assert "1 of 2 defects found" in page
    assert f"| `{missed.name}` | not-found |" in page
    assert f"| `{unhunted.name}` | not hunted yet |" in page


def test_a_file_that_is_no_hunt_is_trouble(tmp_path: Path) -> None:
    (tmp_path / "hunt.json").write_text("[]")
    with pytest.raises(Trouble, match="is not the account of a hunt"):
        hunts.read(tmp_path / "hunt.json")
