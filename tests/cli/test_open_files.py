"""The limit on open files: raised where that is allowed, and else named in one sentence, before anything starts."""

from __future__ import annotations

import subprocess
import sys

import pytest

LIMITED = (
    "import resource, sys\n"
    "resource.setrlimit(resource.RLIMIT_NOFILE, (256, int(sys.argv[1])))\n"
    "from conformance.commands.supervision.open_files import demand_open_files\n"
    "from conformance.harness_error import HarnessError\n"
    "try:\n    demand_open_files(512)\nexcept HarnessError as error:\n    print(error)\n"
    "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])\n"
)


@pytest.mark.parametrize(
    ("hard", "said"),
    [
        (256, "too few open files are allowed: 256, and a run needs 512; raise the limit (ulimit -n 512)\n256\n"),
        (600, "512\n"),
    ],
)
def test_a_low_limit_is_raised_or_named(hard: int, said: str) -> None:
    ran = subprocess.run([sys.executable, "-c", LIMITED, str(hard)], capture_output=True, text=True, check=True)
    assert ran.stdout == said
