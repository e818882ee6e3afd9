"""The packages that a user installs, built from what git has, away from this folder."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.package.commands import ROOT, run

BUILD = "import sys; from setuptools import build_meta as b; print(getattr(b, sys.argv[1])(sys.argv[2]))"


def built(kind: str, source: Path, target: Path) -> Path:
    ran = run(sys.executable, "-W", "ignore", "-c", BUILD, f"build_{kind}", target, cwd=source)
    assert ran.returncode == 0, ran.stderr
    return target / ran.stdout.splitlines()[-1]


@pytest.fixture(scope="session")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that git has, as they are here."""
    folder = tmp_path_factory.mktemp("packaging") / "clone"
    listed = run("git", "ls-files", "-z", cwd=ROOT).stdout.split("\0")
    for name in filter(None, listed):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="session")
def sdist(clone: Path) -> Path:
    """The unpacked source distribution."""
    shutil.unpack_archive(built("sdist", clone, clone.parent), clone.parent)
    (unpacked,) = (path for path in clone.parent.glob("pulsar_conformance-*") if path.is_dir())
    return unpacked


@pytest.fixture(scope="session")
def wheel(sdist: Path) -> Path:
    """The wheel that is built from the source distribution."""
    return built("wheel", sdist, sdist.parent)
