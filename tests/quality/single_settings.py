"""Every setting that the suite changes, one at a time back to what the release ships: does any give a false alarm?

``python -m tests.quality.single_settings [--broker 4.0.8] [--rules ACK,KEY,DEDUP] [--budget 90s] [SETTING …]`` runs a
check for each and prints what came of it; exit status 1 if any rule was violated, or none exercised. With all settings
that takes half an hour and more, so it is no part of ``make test``.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from conformance.brokers.release import fetched_release
from conformance.brokers.settings import MACHINES, NEAR, QUICK, STEADY

CHANGED = {name: setting.value for table in (QUICK, NEAR, STEADY, MACHINES) for name, setting in table.items()}
_BAD = ("violated", "suspected")
_LINE = re.compile(r"([A-Za-z_]\w*)=(.*)")


def shipped_values(broker: str) -> Mapping[str, str]:
    """What the release's files say of the settings that the suite changes, where it says something else.

    What ``standalone.conf`` does not name has the code's default, which is in one of the other files.
    """
    said: dict[str, str] = {}
    for file in ("standalone.conf", "broker.conf", "bookkeeper.conf"):
        lines = (fetched_release(broker).folder / "conf" / file).read_text("utf-8").splitlines()
        for found in filter(None, map(_LINE.fullmatch, lines)):
            said.setdefault(found[1], found[2].strip())
    return {name: said[name] for name, ours in CHANGED.items() if said.get(name, ours) not in ("", ours)}


def verdicts(broker: str, rules: str, budget: str, setting: str, seed: int) -> tuple[str, bool]:
    """What a check with a setting came to, and whether it exercised any rule and violated none."""
    with TemporaryDirectory() as folder:
        asked = ("check", "--broker", broker, "--rules", rules, "--budget", budget, "--seed", str(seed))
        verdicts = Path(folder) / "verdicts.json"
        where = ("--setting", setting, "--report", f"{folder}/report", "--json", str(verdicts))
        command = [sys.executable, "-m", "conformance", *asked, *where]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if not verdicts.exists():
            return ran.stderr.strip().splitlines()[-1] if ran.stderr.strip() else f"exit status {ran.returncode}", False
        run = json.loads(verdicts.read_text())
    violated = [f"{rule['id']} {rule['verdict']}" for rule in run["rules"] if rule["verdict"] in _BAD]
    exercised = sum(rule["exercised"] > 0 for rule in run["rules"])
    found = ", ".join(violated) or "no violation"
    return f"{found}; {run['operations']} operations, {exercised} rules exercised", not violated and exercised > 0


@click.command()
@click.option("--broker", default="4.0.8", show_default=True)
@click.option("--rules", default="ACK,KEY,DEDUP", show_default=True)
@click.option("--budget", default="90s", show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.argument("names", nargs=-1)
def main(broker: str, rules: str, budget: str, seed: int, names: tuple[str, ...]) -> None:
    """Flip each of NAMES, or every setting that the suite changes."""
    shipped = shipped_values(broker)
    if unknown := set(names) - shipped.keys():
        raise click.UsageError(f"the suite does not change {min(unknown)}, or {broker} does not ship a value of it")
    is_clean = True
    for name in names or shipped:
        setting = f"{name}={shipped[name]}"
        found, is_sound = verdicts(broker, rules, budget, setting, seed)
        is_clean = is_clean and is_sound
        click.echo(f"{setting}: {found}")
    sys.exit(not is_clean)


if __name__ == "__main__":
    main()
