"""Explorations are computed once for each source of the model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.model import remembered
from tests.model.remembered import KEPT, digest


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A source of a model that is remembered in a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(remembered, "MODEL", tmp_path / "model")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "rules.py").write_text("ONE = 1\n")
    remembered._folder.cache_clear()
    yield tmp_path / "model"
    remembered._folder.cache_clear()


def computed(*, also: tuple[Path, ...] = ()) -> bool:
    """Whether a value is computed, in a process that begins now."""
    calls: list[None] = []
    remembered._folder.cache_clear()

    def compute() -> int:
        calls.append(None)
        return 1

    assert remembered.remembered("it", int, compute, also=also) == 1
    return bool(calls)


def test_a_value_is_computed_once_until_the_source_changes(model: Path) -> None:
    assert [computed(), computed()] == [True, False]
    (model / "rules.py").write_text("ONE = 2\n")
    assert [computed(), computed()] == [True, False]
    (model / "rules.py").rename(model / "others.py")
    assert computed()


def test_other_files_that_it_depends_on_count_as_well(model: Path) -> None:
    page = model.parent / "page.py"
    page.write_text("a")
    assert [computed(also=(page,)), computed(also=(page,))] == [True, False]
    page.write_text("b")
    assert computed(also=(page,))


def test_a_damaged_file_is_computed_again(model: Path) -> None:
    assert computed()
    (file,) = (model.parent / "cache").rglob("it-*.json")
    file.write_text("{")
    assert computed()


def test_only_the_latest_sources_are_kept(model: Path) -> None:
    for number in range(KEPT + 3):
        (model / "rules.py").write_text(f"ONE = {number}\n")
        assert computed()
    assert len(list((model.parent / "cache" / "pulsar-conformance" / "explorations").iterdir())) == KEPT
    assert not computed(), "the latest is still there"


def test_the_digest_is_that_of_names_and_contents(model: Path) -> None:
    (model / "b.py").write_text("ONE = 1\n")
    assert digest([model / "rules.py"]) != digest([model / "b.py"])
