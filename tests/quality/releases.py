"""Obtains releases, checks each for a short while, and writes down the result: ``python -m tests.quality.releases``.

The table of the documentation is drawn from what it writes (``conformance/brokers/tried.json``). An entry replaces the
former one of the same release. A release that is in the cache keeps the time that its assembling took.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
from msgspec import structs

from conformance.brokers.installation.record import origin_of
from conformance.brokers.release import fetched_release
from conformance.brokers.tried import FILE, Check, Seconds, Tried, tried
from conformance.commands.releases import order
from conformance.harness_error import HarnessError
from conformance.wait import Deadline
from tests.quality.deployments import round_of, takeover

RULES = "DEDUP,ACK,CHUNK,KEY,REPL,SERVE"
NOT_EXERCISED = 2
"""The exit status of a check that did not exercise all of its rules. They are checked once more, in as much time."""
LATE_S = 300.0
"""How much longer than its budget a check may take."""


class _Rule(msgspec.Struct):
    id: str
    verdict: str


class _Verdicts(msgspec.Struct):
    """The part of ``--json`` that is written down."""

    date: str
    clients: dict[str, str]
    exit_status: int
    operations: int
    seconds: float
    rules: list[_Rule]
    harness_errors: list[str]


def tried_now(version: str, *, rules: str, budget_s: int, seed: int, reports: Path) -> Tried:
    """Obtain a release and check it."""
    try:
        folder = fetched_release(version).folder
    except HarnessError as harness_error:
        return Tried(version=version, how="not available", why=str(harness_error))
    obtained = _obtained(version, folder)
    try:
        steps = measured_steps(version)
    except HarnessError as harness_error:
        why = f"{obtained.how}, but does not start: {str(harness_error).splitlines()[0]}"
        return structs.replace(obtained, why=why)
    check, missing = checked(version, rules=rules, budget_s=budget_s, seed=seed, report=reports / version)
    rest = None
    if check.exit_status == NOT_EXERCISED and missing:
        of_missing = ",".join(missing)
        rest, _ = checked(version, rules=of_missing, budget_s=budget_s, seed=seed, report=reports / version / "rest")
    return structs.replace(obtained, steps=steps, check=check, rest=rest)


def _obtained(version: str, folder: Path) -> Tried:
    origin = origin_of(folder)
    if origin is None:
        return Tried(version=version, how="tarball")
    return Tried(
        version=version,
        how="assembled",
        jars=origin.jars,
        has_own_configuration=origin.has_own_configuration,
        seconds=origin.seconds,
    )


def measured_steps(version: str) -> Seconds:
    """Time the steps of a release's brokers, after a start that makes what is made once."""
    round_of(version)
    alone = round_of(version)
    return Seconds(start=alone["start"][0], kill=alone["kill"][0], takeover=takeover(version)[0])


def checked(version: str, *, rules: str, budget_s: int, seed: int, report: Path) -> tuple[Check, list[str]]:
    """Check a release with the command that users have; returns also the rules that were not exercised."""
    report.mkdir(parents=True, exist_ok=True)
    verdicts = report / "verdicts.json"
    words = ["--broker", version, "--rules", rules, "--budget", f"{budget_s}s", "--seed", str(seed)]
    ended = subprocess.run(
        [sys.executable, "-m", "conformance", "check", *words, "--report", str(report / "report"), "--json", verdicts],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=Deadline.after(budget_s + LATE_S).left_s,
        check=False,
    )
    (report / "output.txt").write_text(ended.stdout)
    said = msgspec.json.decode(verdicts.read_bytes(), type=_Verdicts)
    missing = [rule.id for rule in said.rules if rule.verdict == "not-exercised"]
    check = Check(
        date=said.date[:10],
        client=said.clients.get("pulsar-client", "-"),
        rules=rules,
        seed=seed,
        seconds=round(said.seconds),
        exit_status=ended.returncode,
        operations=said.operations,
        verdicts=dict(Counter(rule.verdict for rule in said.rules)),
        violated=tuple(rule.id for rule in said.rules if rule.verdict in ("violated", "suspected")),
        harness_error=said.harness_errors[0].splitlines()[0] if said.harness_errors else None,
    )
    return check, missing


def write_down(one: Tried) -> None:
    """Put an entry into the file, instead of the former one of the same release."""
    tried.cache_clear()
    entries = {**{entry.version: entry for entry in tried()}, one.version: one}
    ordered = sorted(entries.values(), key=lambda entry: order(entry.version))
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(ordered)) + b"\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="+")
    parser.add_argument("--rules", default=RULES)
    parser.add_argument("--budget-s", type=int, default=180)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--reports", type=Path, default=Path("reports", "releases"), help="a folder for each release")
    asked = parser.parse_args()
    for version in asked.versions:
        one = tried_now(version, rules=asked.rules, budget_s=asked.budget_s, seed=asked.seed, reports=asked.reports)
        print(f"{version}: {one.how}, exit status {one.check.exit_status if one.check else '-'}", flush=True)
        write_down(one)


if __name__ == "__main__":
    main()
