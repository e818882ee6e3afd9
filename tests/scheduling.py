"""How ``make test`` shares the tests out to processes that run side by side (``-n``, pytest-xdist).

All that start brokers are one share, so that there is no more than one of them (or one set of clusters) at a time, as
without processes. What starts Spark is another, as starting it takes seconds. All else goes by modules, as fixtures of
a module are made anew in each process. It decides nothing about what a test does.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

BROKERS = "brokers"
SPARK = "spark"

SHARES = {
    "tests/brokers": BROKERS,
    "tests/engine": BROKERS,
    "tests/faults": BROKERS,
    "tests/lockstep": BROKERS,
    "tests/security": BROKERS,
    "tests/soak": BROKERS,
    "tests/clients": BROKERS,
    "tests/proxy": BROKERS,
    "tests/documented": BROKERS,
    "tests/test_actions.py": BROKERS,
    "tests/test_pytest_plugin.py": BROKERS,
    "tests/pipeline/test_cluster.py": SPARK,
    "tests/pipeline/test_following.py": SPARK,
    "tests/pipeline/test_known.py": SPARK,
    "tests/pipeline/test_memory.py": SPARK,
    "tests/pipeline/test_on_spark.py": SPARK,
    "tests/pipeline/test_s3.py": SPARK,
    "tests/pipeline/test_summary.py": SPARK,
    "tests/pipeline/test_verify.py": SPARK,
}
"""The share of the tests in a folder or a module."""

ASKING = {"broker": {BROKERS}, "pulsar_broker": {BROKERS}, "world": {BROKERS}, "spark": {SPARK, BROKERS}}
"""By a fixture's name, the shares in which tests may ask for it."""


def share_of(nodeid: str) -> str:
    """The share of a test: tests of one share are run by one process, in their order."""
    module = PurePosixPath(nodeid.partition("::")[0])
    for place in (module, *module.parents):
        if share := SHARES.get(str(place)):
            return share
    return str(module)


def check_shares(items: Iterable[pytest.Item]) -> None:
    """See to it that no process starts what another one has.

    Raises:
        pytest.UsageError: a test asks for a broker or for Spark, and is not in a share that has one.
    """
    for item in items:
        for name in ASKING.keys() & set(getattr(item, "fixturenames", ())):
            if share_of(item.nodeid) not in ASKING[name]:
                raise pytest.UsageError(f"{item.nodeid} asks for {name}: give its module a share in {__name__}")


class Sharing(LoadScopeScheduling):
    """Gives each process the next share as soon as it is nearly done with its last one, in the order of the tests.

    The longest share, that of brokers, has the first of them, and so is not waited for at the end.
    """

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        config.option.loadscopereorder = False  # by numbers of tests, which say little about how long they take
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return share_of(nodeid)
