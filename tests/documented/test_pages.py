"""Links between pages and the names in them: links lead somewhere, and deviations have their present names."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
from pathlib import Path

import pytest

from conformance.faults.catalogue import defects
from model.deviations import DEVIATIONS
from tests.documented.shell_commands import ROOT

_LINK = re.compile(r"\]\((?!https?:)(?P<page>[^)#\s]*)(?:#(?P<heading>[^)\s]+))?\)")


def pages() -> list[Path]:
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    found = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in found.stdout.splitlines() if (ROOT / name).is_file()]


def headings(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    lines = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines}


def broken_links(page: Path) -> list[str]:
    broken = []
    for link in _LINK.finditer(page.read_text("utf-8")):
        to = page.parent / link["page"] if link["page"] else page
        if not to.exists() or (link["heading"] and link["heading"] not in headings(to)):
            broken.append(link[0])
    return broken


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_page_and_a_heading(page: Path) -> None:
    assert broken_links(page) == []


def test_a_link_to_a_missing_page_or_heading_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Here\n\n[a](#here) [b](#there) [c](gone.md) [d](page.md#here) [e](https://example.org/#x)\n")
    assert broken_links(page) == ["](#there)", "](gone.md)"]


def test_each_deviation_has_one_section() -> None:
    sections = re.findall(
        r"^### (.*)$", (ROOT / "docs" / "reference" / "deviations.md").read_text("utf-8"), re.MULTILINE
    )
    assert sorted(sections) == sorted(DEVIATIONS)


GENERATED = {"deviations.md"}
FORMER = re.compile("|".join(rf"`{alias}`" for one in DEVIATIONS.values() for alias in one.aliases))
DEFECTS = {f"`{defect.name}`" for defect in defects()}


@pytest.mark.parametrize("page", [page for page in pages() if page.name not in GENERATED], ids=lambda page: page.name)
def test_no_page_has_a_former_name_of_a_deviation(page: Path) -> None:
    assert set(FORMER.findall(page.read_text("utf-8"))) <= DEFECTS


def test_the_readme_is_short_and_counts_the_seeded_defects() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert len(readme.splitlines()) < 150
    assert f"{len(defects())} [seeded defects]" in readme


_FILE = re.compile(r"`(?P<path>(?:conformance|docs|model|stateful|tests)/[\w./*…-]+)`")


def missing_files(page: Path) -> list[str]:
    """The files and folders that a page names and that are not there; ``*`` in a name stands for anything."""
    paths = [found["path"] for found in _FILE.finditer(page.read_text("utf-8"))]
    return [path for path in paths if not (list(ROOT.glob(path)) if "*" in path else (ROOT / path).exists())]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    assert missing_files(page) == []


def test_a_missing_file_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("`model/rules/catalogue.py`, `conformance/gone.py`, `tests/*/nothing.py` and `tests/model`")
    assert missing_files(page) == ["conformance/gone.py", "tests/*/nothing.py"]


def imports(page: Path) -> list[tuple[str, str]]:
    """What the examples of a page take from this suite: module and name."""
    examples = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    nodes = [node for example in examples for node in ast.walk(ast.parse(example)) if isinstance(node, ast.ImportFrom)]
    return [
        (node.module, name.name)
        for node in nodes
        if node.module is not None and node.module.startswith("conformance")
        for name in node.names
    ]


EXAMPLES = [(page.name, *imported) for page in pages() for imported in imports(page)]


def test_pages_have_examples() -> None:
    assert EXAMPLES


@pytest.mark.parametrize(("page", "module", "name"), EXAMPLES)
def test_the_names_that_an_example_imports_exist(page: str, module: str, name: str) -> None:
    assert hasattr(importlib.import_module(module), name), f"{page} imports {name} from {module}"
