"""The documentation as a site: built as `make site` does, where a warning is an error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.documented.shell_commands import ROOT
from tests.documented.test_pages import pages

READ_ON_GITHUB_ONLY = {"README.md"}
"""Its first page is docs/index.md."""


def test_the_site_has_every_page_and_the_docstrings(tmp_path: Path) -> None:
    build = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-c",
        "docs/site",
        "-d",
        str(tmp_path / "read"),
    ]
    ran = subprocess.run([*build, ".", str(tmp_path / "site")], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    sources = {page.relative_to(ROOT) for page in pages()} - {Path(name) for name in READ_ON_GITHUB_ONLY}
    assert [page for page in sorted(sources) if not (tmp_path / "site" / page.with_suffix(".html")).is_file()] == []
    assert "Create a topic." in (tmp_path / "site" / "docs" / "site" / "api.html").read_text("utf-8")
    assert "docs/index.html" in (tmp_path / "site" / "index.html").read_text("utf-8")
