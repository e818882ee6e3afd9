"""A seed repeats the choices of a machine."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from conformance.engine.execution import run_examples


def chosen(seed: int) -> list[int]:
    numbers: list[int] = []

    class Numbers(RuleBasedStateMachine):
        @rule(number=st.integers(0, 10**9))
        def choose(self, number: int) -> None:
            numbers.append(number)

    run_examples(Numbers, examples=20, steps=20, seed=seed)
    return numbers


def test_a_seed_repeats_choices_whatever_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hypothesis takes constants from the source of each imported module."""
    before = chosen(1)
    assert len(before) > 100
    source = tmp_path / "constants.py"
    source.write_text(f"INTEGERS = {list(range(100_000, 100_300))}\n")
    spec = importlib.util.spec_from_file_location("constants_of_another_module", source)
    assert spec is not None
    monkeypatch.setitem(sys.modules, spec.name, importlib.util.module_from_spec(spec))
    assert chosen(1) == before
    assert chosen(2) != before
