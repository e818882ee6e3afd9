"""Starts the command line with the scripted engine: ``python -m tests.cli.launch SCENARIO ARGUMENTS…``."""

from __future__ import annotations

import signal
import sys

from conformance.cli import main
from conformance.commands.supervision.engine import Engine

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored where the tests run in the background
    _, scenario, *arguments = sys.argv
    command = (sys.executable, "-m", "tests.cli.scripted_engine", scenario)
    engine = Engine(command=command, obtain=lambda *_: None, demand=lambda *_: None)
    main(arguments, engine)
