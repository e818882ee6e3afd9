"""The scheduling of tests to the processes of ``make test`` (``-n``, pytest-xdist).

The tests that start brokers are four shares, because they wait more than they compute: those that replay the
histories of deviations in lanes, or run whole commands; those that perform other histories and seeded defects; those of
brokers themselves; and those of what uses brokers. So at most four brokers (or sets of clusters) run at a time. Tests
that start Spark are another share, because starting it takes seconds. Every other module is a share, because each
process sets up the fixtures of a module again.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

BROKERS = "brokers"
USERS = "users of brokers"
HISTORIES = "histories"
COMMANDS = "deviations and commands"
SPARK = "spark"

SHARES = {
    "tests/brokers": BROKERS,
    "tests/engine": USERS,
    "tests/faults": HISTORIES,
    "tests/lockstep": HISTORIES,
    "tests/replays": HISTORIES,
    "tests/replays/test_deviations.py": COMMANDS,
    "tests/security": USERS,
    "tests/soak": USERS,
    "tests/tap": USERS,
    "tests/clients": USERS,
    "tests/proxy": USERS,
    "tests/drivers/test_drivers_on_a_real_broker.py": USERS,
    "tests/documented": COMMANDS,
    "tests/package": COMMANDS,
    "tests/test_actions.py": COMMANDS,
    "tests/test_pytest_plugin.py": BROKERS,
    "tests/test_working_directory.py": COMMANDS,
    "tests/pipeline/test_cluster.py": SPARK,
    "tests/pipeline/test_damaged_histories.py": SPARK,
    "tests/pipeline/test_follower.py": SPARK,
    "tests/pipeline/test_known.py": SPARK,
    "tests/pipeline/test_memory.py": SPARK,
    "tests/pipeline/test_on_spark.py": SPARK,
    "tests/pipeline/test_s3.py": SPARK,
    "tests/pipeline/test_summary.py": SPARK,
    "tests/pipeline/test_verify.py": SPARK,
}
"""The share of the tests in a folder or a module."""

WITH_BROKERS = {BROKERS, USERS, HISTORIES, COMMANDS}
"""The shares whose tests may start brokers."""

ASKING = {
    "broker": WITH_BROKERS,
    "pulsar_broker": WITH_BROKERS,
    "world": WITH_BROKERS,
    "seeded": WITH_BROKERS,
    "spark": {SPARK, USERS},
}
"""By a fixture's name, the shares whose tests may request it."""


def share_of(nodeid: str) -> str:
    """The share of a test: one process runs all tests of a share, in order."""
    module = PurePosixPath(nodeid.partition("::")[0])
    for place in (module, *module.parents):
        if share := SHARES.get(str(place)):
            return share
    return str(module)


def check_shares(items: Iterable[pytest.Item]) -> None:
    """Make sure that no process starts what another one has started.

    Raises:
        pytest.UsageError: a test requests a broker or Spark outside a share that has one.
    """
    for item in items:
        for name in ASKING.keys() & set(getattr(item, "fixturenames", ())):
            if share_of(item.nodeid) not in ASKING[name]:
                raise pytest.UsageError(f"{item.nodeid} asks for {name}: give its module a share in {__name__}")


class ShareScheduling(LoadScopeScheduling):
    """Gives each process the next share when it has nearly finished its last one, in the order of the tests.

    The share of brokers has the first tests, and the other long ones begin soon after, so that none delays the end.
    """

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        config.option.loadscopereorder = (
            False  # it sorts by the number of tests, which says little about their duration
        )
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return share_of(nodeid)
