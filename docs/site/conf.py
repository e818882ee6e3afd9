"""The documentation as a site: what Sphinx needs to know (``make site``).

The pages are those of the repository, and read well there too. Their order is that of the table in docs/index.md: a
page that the table does not name ends the build, as every warning does.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from sphinx.application import Sphinx

ROOT: Final = Path(__file__).parents[2]
INDEX: Final = "docs/index"
PAGES: Final = (
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "tests/README.md",
    "docs/*.md",
    "docs/**/*.md",
    "docs/site/*.rst",
)
API: Final = "docs/site/api"

project = "pulsar-conformance"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton", "sphinxcontrib.mermaid"]
root_doc = INDEX
include_patterns = list(PAGES)
html_theme = "furo"
html_title = "pulsar-conformance"
html_additional_pages = {"index": "redirect.html"}
templates_path = ["."]
html_static_path = ["static"]
html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": True}
html_show_sourcelink = False

myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"

_GROUP: Final = re.compile(r"^\| \*\*(?P<name>[^*]+)\*\* \|", re.MULTILINE)
_LINK: Final = re.compile(r"\[[^\]]+\]\((?P<page>[^)#]+\.md)\)")
_ROW: Final = re.compile(r"^\| (?P<pages>\[.*?) \|", re.MULTILINE)


def contents(index: str) -> dict[str, list[str]]:
    """The pages of the table in docs/index.md, by group, as Sphinx names them."""
    groups: dict[str, list[str]] = {}
    _, *parts = _GROUP.split(index)
    for name, rows in zip(parts[::2], parts[1::2], strict=True):
        links = [link["page"] for row in _ROW.finditer(rows) for link in _LINK.finditer(row["pages"])]
        groups[name] = [str((ROOT / "docs" / link).resolve().relative_to(ROOT).with_suffix("")) for link in links]
    return groups


def add_contents(_app: Sphinx, page: str, source: list[str]) -> None:
    """Have the table of the first page order the site, too."""
    if page == INDEX:
        groups = contents(source[0])
        groups["The suite"].append(API)
        for name, pages in groups.items():
            listed = "\n".join(f"/{one}" for one in pages)
            source[0] += f"\n\n```{{toctree}}\n:hidden:\n:caption: {name}\n\n{listed}\n```\n"


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", add_contents)
