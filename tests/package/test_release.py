"""What a release has: a complete source distribution, a page whose links work elsewhere, pinned actions."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
import yaml

from tests.package.commands import ROOT, run
from tests.package.conftest import built

RELEASE = ROOT / ".github" / "workflows" / "release.yml"
WORKFLOWS = (
    ROOT / "action.yml",
    ROOT / "docs" / "ci" / "pulsar-conformance.yml",
    *sorted((ROOT / ".github" / "workflows").glob("*.yml")),
)
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v[\d.]+")
OURS = ("./.pulsar-conformance", "OWNER/pulsar-conformance/")
"""Actions of this repository."""


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


def script(name: str) -> str:
    steps = yaml.safe_load(RELEASE.read_text())["jobs"]["packages"]["steps"]
    (found,) = (step["run"] for step in steps if step.get("name") == name)
    return str(found)


def step(name: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a step of the workflow as the runner does."""
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script(name)]
    environment = {**os.environ, "GITHUB_REPOSITORY": "somebody/conformance", "GITHUB_REF_NAME": "v0.1.0", **variables}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_source_distribution_has_every_file_of_git(sdist: Path) -> None:
    tracked = set(filter(None, run("git", "ls-files", "-z", cwd=ROOT).stdout.split("\0")))
    packed = {str(path.relative_to(sdist)) for path in sdist.rglob("*") if path.is_file()}
    assert {name for name in tracked if (ROOT / name).is_file()} - packed == set()
    assert {"LICENSE", "NOTICE", "SECURITY.md", "docs/index.md", "tests/conftest.py"} <= packed


def test_the_wheel_of_the_source_distribution_is_that_of_the_clone(sdist: Path, clone: Path, tmp_path: Path) -> None:
    contents = []
    for source in (sdist, clone):
        copy = shutil.copytree(source, tmp_path / source.name)
        (target := tmp_path / f"wheel-of-{source.name}").mkdir()
        with zipfile.ZipFile(built("wheel", copy, target)) as archive:
            contents.append({name: archive.read(name) for name in archive.namelist() if not name.endswith("RECORD")})
    assert contents[0] == contents[1]


def test_links_of_the_package_page_lead_to_the_repository(clone: Path, tmp_path: Path) -> None:
    source = shutil.copytree(clone, tmp_path / "clone")
    assert step("Write the repository's address", source).returncode == 0
    page = metadata(built("wheel", source, tmp_path))
    text = str(page.get_payload())
    assert "https://github.com/somebody/conformance/blob/v0.1.0/docs/tutorial.md)" in text
    assert re.findall(r"\]\((?!https://|#)[^)]*\)", text) == []
    assert "OWNER" not in str(page)


@pytest.mark.parametrize(("tag", "status"), [("v0.1.0", 0), ("v0.1.1", 1)])
def test_a_tag_that_differs_from_the_version_publishes_nothing(tag: str, status: int) -> None:
    assert step("Compare tag and version", ROOT, GITHUB_REF_NAME=tag).returncode == status


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_of_others_are_pinned_by_commit(path: Path) -> None:
    used = re.findall(r"uses: (.*)", path.read_text())
    assert used
    assert [name for name in used if not PINNED.fullmatch(name) and not name.startswith(OURS)] == []
