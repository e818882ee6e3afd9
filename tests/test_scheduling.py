"""The scheduling of tests to processes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from zlib import crc32

import pytest

from tests.conftest import ALL_COLLECTED
from tests.scheduling import BROKERS, COMMANDS, HISTORIES, SPARK, USERS, WITH_BROKERS, share_of
from tests.test_pytest_plugin import pytest_run
from tests.tiers import DAYS, WEEKLY, day_of, divided

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("nodeid", "share"),
    [
        ("tests/soak/test_soak.py::test_ctrl_c", USERS),
        ("tests/brokers/test_external.py::TestContract::test_it_is_alive[tests/pipeline]", BROKERS),
        ("tests/test_pytest_plugin.py::test_the_shared_broker", BROKERS),
        ("tests/replays/test_defects.py::test_found[ack-dropped]", HISTORIES),
        ("tests/replays/test_deviations.py::test_it_comes_back[one]", COMMANDS),
        ("tests/pipeline/test_summary.py::test_rules", SPARK),
        ("tests/pipeline/test_anomalies.py::test_an_anomaly[tests/soak]", "tests/pipeline/test_anomalies.py"),
        ("tests/model/key_shared/test_selectors.py::test_one", "tests/model/key_shared/test_selectors.py"),
    ],
)
def test_a_test_belongs_to_the_share_of_its_folder_or_module(nodeid: str, share: str) -> None:
    assert share_of(nodeid) == share


def test_each_share_runs_in_one_of_two_processes() -> None:
    of_brokers = (
        "tests/proxy/test_values.py",
        "tests/soak/test_plan.py",
        "tests/clients/test_markers.py",
    )
    run = of_two_processes("--verbose", *of_brokers, "tests/model/deduplication/test_producer.py")
    assert run.returncode == 0
    reported = re.findall(r"^\[(gw\d)\] .* PASSED (\S+)", run.stdout, flags=re.MULTILINE)
    shared = {(share_of(nodeid), process) for process, nodeid in reported}
    assert sorted(share for share, _ in shared) == ["tests/model/deduplication/test_producer.py", USERS]
    assert {process for _, process in shared} == {"gw0", "gw1"}


def test_a_test_that_requests_a_broker_outside_a_broker_share_is_a_usage_error(tmp_path: Path) -> None:
    run = pytest_run(tmp_path, "--broker", "no-such-thing", "-p", "tests.conftest")
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert "test_one.py::test_one asks for pulsar_broker: give its module a share in tests.scheduling" in run.stderr


def test_an_unavailable_broker_ends_a_parallel_run_with_one_sentence() -> None:
    run = of_two_processes(
        "--broker", "no-such-thing", "tests/proxy/test_dispatch_times.py", "tests/proxy/test_recorded_events.py"
    )
    assert run.returncode == 2
    assert "'no-such-thing' names no broker" in run.stderr


def of_two_processes(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest as ``make test`` does, on some modules."""
    command = [sys.executable, "-m", "pytest", "-n", "2", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_only_tests_with_brokers_are_retried_when_they_fail(request: pytest.FixtureRequest) -> None:
    for item in request.session.items:
        assert (item.get_closest_marker("flaky") is not None) == (share_of(item.nodeid) in WITH_BROKERS), item.nodeid


def test_a_failure_is_printed_when_it_happens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A run that is ended from outside has no summary."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)  # this test runs in one
    (tmp_path / "test_two.py").write_text(
        "import os\n\ndef test_one():\n    assert 1 == 2\n\ndef test_that_ends_the_process():\n    os._exit(9)\n"
    )
    run = pytest_run(tmp_path, "-p", "tests.conftest")
    assert run.returncode == 9
    assert "failed: test_two.py::test_one" in run.stdout
    assert "assert 1 == 2" in run.stdout


def test_each_test_is_in_one_tier_and_the_seven_shares_of_the_second_make_the_whole(
    request: pytest.FixtureRequest,
) -> None:
    items = request.config.stash[ALL_COLLECTED]
    shares = [set(divided(items, day)[0]) for day in range(DAYS)]
    every_day = set.intersection(*shares)
    assert request.node in every_day
    assert set.union(*shares) == set(items)
    for item in items:
        assert (day_of(item) is None) == (item in every_day), item.nodeid
        assert sum(item in share for share in shares) == (DAYS if item in every_day else 1), item.nodeid


def test_every_place_of_the_second_tier_exists() -> None:
    for place in WEEKLY:
        module, _, function = place.partition("::")
        assert (ROOT / module).exists(), place
        assert not function or f"def {function}(" in (ROOT / module).read_text(), place


TIERS = """
import pytest

def test_of_every_change():
    pass

@pytest.mark.weekly
@pytest.mark.parametrize("number", range(40))
def test_of_one_day(number):
    pass
"""


def test_each_process_runs_the_first_tier_and_the_share_of_the_day(tmp_path: Path) -> None:
    (tmp_path / "test_tiers.py").write_text(TIERS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = weekly\n")
    of_the_day = [number for number in range(40) if crc32(b"test_tiers.py::test_of_one_day[%d]" % number) % DAYS == 3]
    assert 0 < len(of_the_day) < 20
    run = pytest_run(tmp_path, "-p", "tests.conftest", "-n", "2", "--verbose", "--tier", "change", "--day", "3")
    assert run.returncode == 0, run.stdout
    assert "the share of day 3" in run.stdout
    passed = re.findall(r"PASSED test_tiers.py::(\S+)", run.stdout)
    assert sorted(passed) == sorted(["test_of_every_change", *(f"test_of_one_day[{number}]" for number in of_the_day)])
