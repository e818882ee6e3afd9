"""Replays a saved history as a test. With ``--pulsar-replay FILE`` it is the only test."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.engine.run import Run
from conformance.harness_error import HarnessError
from conformance.history import document


@pytest.mark.pulsar_replay
def test_no_rule_is_broken_by_the_history(conformance_run: Run, pytestconfig: pytest.Config) -> None:
    """The history breaks no rule any more, except by a known deviation."""
    path: Path = pytestconfig.getoption("--pulsar-replay")
    try:
        history = document.read(path)
    except HarnessError as harness_error:
        pytest.exit(str(harness_error), returncode=2)
    violations = conformance_run.replay(history, times=pytestconfig.getoption("--pulsar-times"))
    assert not violations, "\n".join(f"{v.rule}: {v.because}" for v in violations)
