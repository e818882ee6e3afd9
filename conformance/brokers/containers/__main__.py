"""Runs a command with a container engine that answers and an image of a release: what ``make test-container`` does.

    python -m conformance.brokers.containers [--or-skip] RELEASE COMMAND...

An engine that already answers is used and left alone; one that is started for the command is stopped after it. The
command finds the image's name in the variable :data:`~conformance.brokers.containers.image.IMAGE_VARIABLE`.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys

from conformance.brokers.containers.debian import Unavailable
from conformance.brokers.containers.engine import DockerException, running_engine
from conformance.brokers.containers.image import IMAGE_VARIABLE, provide_image
from conformance.harness_error import HarnessError


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its status, or 2 where there is no engine or image (0 with ``--or-skip``)."""
    parser = argparse.ArgumentParser(prog="python -m conformance.brokers.containers", description=__doc__)
    parser.add_argument("--or-skip", action="store_true", help="succeed, saying why, where this machine cannot do it")
    parser.add_argument("release", help="the release of Pulsar that an image is needed of, e.g. 4.0.8")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what to run")
    options = parser.parse_args(arguments)
    try:
        return _run(options.release, options.command)
    except Unavailable as reason:
        print(f"skipped: {reason}" if options.or_skip else str(reason), file=sys.stderr)
        return 0 if options.or_skip else 2
    except (HarnessError, DockerException) as harness_error:
        print(harness_error, file=sys.stderr)
        return 2


def _run(release: str, command: list[str]) -> int:
    with running_engine() as client:
        image = provide_image(client, release)
        print(f"== using the image {image}", flush=True)
        return _status_of(command, image) if command else 0


def _status_of(command: list[str], image: str) -> int:
    """Run the command to its end. A Ctrl-C reaches it too, and is for it: it cleans up while there is an engine."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        return subprocess.run(command, env={**os.environ, IMAGE_VARIABLE: image}, check=False).returncode
    except OSError as error:
        raise HarnessError(f"{command[0]} cannot be run: {error.strerror}.") from error
    finally:
        signal.signal(signal.SIGINT, before)


if __name__ == "__main__":
    sys.exit(main())
