"""What lanes bring: operations, examples and kills a minute, and who uses the processors, for several numbers of lanes.

Each number has a check of its own, with the same seed and budget, one after the other. The processors' time is read
from the processes of the check while it runs: brokers, bookies and ZooKeeper, and the suite's own (the engine, lanes,
applications and pulsar-client in them). It is no test: a slow day fails nothing.

    python -m tests.quality.lanes [--lanes 1,4,16] [--broker 4.0.8] [--budget 90s] [--rules DEDUP,ACK] [--seed 1]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import click
import psutil

from conformance.commands.check import read_events
from conformance.events import ExampleFinished, HarnessErrorHappened, RunFinished, RunStarted, ViolationFound
from conformance.history.journal import ExampleBegins, JournalStep, read_journal
from model.operations import Kill, Restart

LOOK_EVERY_S = 0.5


class Processors:
    """Seconds of the processors that the descendants of a process have used, by what they are."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[int, float], tuple[str, float]] = {}

    def look(self, of: psutil.Process) -> None:
        """Read what each has used so far; what it used after the last look is lost."""
        for process in of.children(recursive=True):
            try:
                used = process.cpu_times()
                key = (process.pid, process.create_time())
                self._seconds[key] = (_kind(process.cmdline()), used.user + used.system)
            except psutil.NoSuchProcess:
                continue

    @property
    def by_kind(self) -> Counter[str]:
        """The sums."""
        sums: Counter[str] = Counter()
        for kind, seconds in self._seconds.values():
            sums[kind] += round(seconds)
        return sums


def _kind(command: list[str]) -> str:
    if command and command[0].endswith("java"):
        return "broker" if any("PulsarBroker" in word for word in command) else "bookie and ZooKeeper"
    return "suite"


def measure(lanes: int, options: list[str], folder: Path) -> str:
    """Run one check, and say in a line what came of it."""
    command = [sys.executable, "-m", "conformance", "check", *options, "--lanes", str(lanes), "--report", str(folder)]
    processors = Processors()
    began = time.monotonic()
    check = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while check.poll() is None:
        processors.look(psutil.Process())
        time.sleep(LOOK_EVERY_S)
    took_s = time.monotonic() - began
    examples, operations, violations, errors, first_s, last_s = 0, 0, 0, 0, 0.0, took_s
    for event in read_events(folder):
        match event:
            case RunStarted():
                first_s = event.at_s
            case ExampleFinished():
                examples, operations, last_s = examples + 1, operations + event.operations, event.at_s
            case ViolationFound():
                violations += 1
            case HarnessErrorHappened():
                errors += 1
            case RunFinished():
                operations = event.operations
            case _:
                pass
    minutes = (last_s - first_s) / 60
    bounced = [count for journal in folder.glob("journal*.jsonl") for count in _bounced(journal)]
    used = ", ".join(f"{kind} {seconds / took_s:.2f}" for kind, seconds in sorted(processors.by_kind.items()))
    return (
        f"{lanes:2} lanes: {operations / minutes:6.0f} operations, {examples / minutes:5.0f} examples, "
        f"{len(bounced) / minutes:5.1f} of them with kills or restarts, {sum(bounced) / minutes:5.1f} of these, "
        f"a minute; processors: {used}; "
        f"{violations} violations, {errors} harness errors, exit status {check.returncode}"
    )


def _bounced(journal: Path) -> list[int]:
    """How many kills and restarts each example that has any has."""
    counts: list[int] = []
    for line in read_journal(journal):
        match line:
            case ExampleBegins():
                counts.append(0)
            case JournalStep(step=step) if isinstance(step.operation, Kill | Restart):
                counts[-1] += 1
            case _:
                pass
    return [count for count in counts if count]


@click.command()
@click.option("--lanes", default="1,4,16", show_default=True)
@click.option("--broker", default="4.0.8", show_default=True)
@click.option("--budget", default="90s", show_default=True)
@click.option("--rules", default="DEDUP,ACK", show_default=True)
@click.option("--machines", default="")
@click.option("--seed", default="1", show_default=True)
@click.option("--report", type=click.Path(path_type=Path), help="Keeps the reports of the checks in this folder.")
def main(lanes: str, broker: str, budget: str, rules: str, machines: str, seed: str, report: Path | None) -> None:
    """Measure, and print a line for each number of lanes."""
    options = ["--broker", broker, "--budget", budget, "--rules", rules, "--seed", seed]
    options += ["--machines", machines] if machines else []
    with tempfile.TemporaryDirectory() as temporary:
        for number in map(int, lanes.split(",")):
            print(measure(number, options, (report or Path(temporary)) / f"{number}-lanes"), flush=True)


if __name__ == "__main__":
    main()
