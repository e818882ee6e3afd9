"""``bisect``: since when, and until when, releases or builds have a find."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from conformance.brokers.installation.cache import cache_folder
from conformance.brokers.tried import tried
from conformance.commands.comparison.branches import Interval, State, branches, search
from conformance.commands.comparison.replays import Conditions, Find, Replayed, replays
from conformance.commands.releases import order
from conformance.commands.supervision.engine import Engine
from conformance.commands.supervision.folders import bugs_kept_in, report_folder
from conformance.commands.supervision.interrupts import INTERRUPTED
from conformance.commands.supervision.open_files import demand_open_files
from conformance.harness_error import HarnessError
from conformance.rates import Presence
from conformance.report.console import say

FAILED = 2
MOST_REPLAYS = 96
"""More replays are not made on one broker: then it stays undecided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectOptions:
    """The options of ``bisect``.

    ``good`` and ``bad``: the ends of the search, releases or, with a ``command``, revisions. ``releases``: those to
    search instead of all that were tried or are in the cache. ``command``: makes the build of ``$REV``, and prints the
    path of its distribution on its last line.
    """

    history: Path
    good: str | None
    bad: str | None
    releases: tuple[str, ...]
    command: str | None
    lanes: int
    budget_s: float
    report: Path | None


class Interrupted(Exception):
    """The user ended a run of the engine."""


def bisect(asked: BisectOptions, engine: Engine, *, out: Console, err: Console) -> int:
    """Search, and print the intervals. Returns 0 if at least one broker was decided, and 2 if all stay undecided."""
    demand_open_files()
    find = Find.read(asked.history)
    of_builds = asked.command is not None
    lines = [("", _revisions(asked))] if of_builds else branches(_releases(asked))
    folder = report_folder(asked.report, "bisect", asked.history.stem)
    say(out, f"{find.words}: {sum(len(its) for _, its in lines)} {'builds' if of_builds else 'releases'}", style="bold")
    searching = _Search(asked, find, engine, folder, out, err)
    try:
        with bugs_kept_in(folder):
            found = [(branch, search(its, searching.has)) for branch, its in lines]
    except Interrupted:
        return INTERRUPTED
    for branch, intervals in found:
        say(out, _sentence(branch, intervals), style="bold")
    if of_builds:
        _say_first(found[0][1], find, out)
    return 0 if any(intervals for _, intervals in found) else FAILED


class _Search:
    """Tries one broker after another."""

    def __init__(
        self, asked: BisectOptions, find: Find, engine: Engine, folder: Path, out: Console, err: Console
    ) -> None:
        self._asked = asked
        self._find = find
        self._engine = engine
        self._folder = folder
        self._out = out
        self._err = err

    def has(self, name: str) -> State | None:
        """Whether a release or a build has the find, after as many replays as that takes; it is printed."""
        try:
            broker = name if self._asked.command is None else _built(self._asked.command, name)
        except HarnessError as error:
            self._say(name, f"undecided: {error}")
            return None
        test, so_far, run = Presence(self._find.rate), Replayed(), 0
        while so_far.failure is None and so_far.seen.trials < MOST_REPLAYS and test.decide(so_far.seen) is None:
            times = min(test.left(so_far.seen), MOST_REPLAYS - so_far.seen.trials)
            run += 1
            where = self._folder / f"{name}-{run}"
            on = Conditions(broker=broker, lanes=self._asked.lanes, budget_s=self._asked.budget_s)
            so_far += replays(self._find, times, on, self._engine, where, err=self._err)
            if so_far.is_interrupted:
                raise Interrupted
        state = test.decide(so_far.seen)
        if state != "there" and so_far.lacks is not None:
            self._say(name, f"undecided: {so_far.lacks}")
            return None
        if state is None:
            self._say(name, f"undecided: {so_far.failure or f'it came back in {so_far.seen} replays'}")
            return None
        self._say(name, f"{state}: it came back in {so_far.seen} replays")
        return state

    def _say(self, name: str, what: str) -> None:
        say(self._out, f"{name} {what}")


def _releases(asked: BisectOptions) -> list[str]:
    """The releases to search, between the two ends if these are given."""
    cached = [folder.name for folder in cache_folder("releases").iterdir() if (folder / "lib").is_dir()]
    startable = [one.version for one in tried() if one.how != "not available" and one.why is None]
    wanted = [*(asked.releases or (*startable, *cached)), *(one for one in (asked.good, asked.bad) if one)]
    ends = sorted(order(one) for one in (asked.good, asked.bad) if one)
    if len(ends) == 2:
        wanted = [one for one in wanted if ends[0] <= order(one) <= ends[1]]
    return wanted


def _revisions(asked: BisectOptions) -> list[str]:
    """The revisions from the good one to the bad one, along the first parents."""
    if asked.good is None or asked.bad is None:
        raise HarnessError("--command needs two revisions, --good and --bad")
    listing = ["git", "rev-list", "--reverse", "--first-parent", f"{asked.good}..{asked.bad}"]
    listed = subprocess.run(listing, capture_output=True, text=True, check=False)
    if listed.returncode:
        raise HarnessError(f"git does not list the revisions: {listed.stderr.strip()}")
    if not (revisions := listed.stdout.split()):
        raise HarnessError(f"there are no revisions between {asked.good} and {asked.bad}")
    return [asked.good, *revisions]


def _built(command: str, revision: str) -> str:
    """The build of a revision, as a broker."""
    made = subprocess.run(
        command, shell=True, env={**os.environ, "REV": revision}, stdout=subprocess.PIPE, text=True, check=False
    )
    path = made.stdout.splitlines()[-1] if made.stdout else ""
    if made.returncode or not path or not Path(path).exists():
        raise HarnessError(
            f"the command ended with status {made.returncode}, and its last line is no distribution: {path!r}"
        )
    return f"dist:{path}"


def _sentence(branch: str, intervals: Sequence[Interval]) -> str:
    where = f"{branch}: " if branch else ""
    if not intervals:
        return f"{where}undecided"
    untried = " (only the ends were tried)" if len(intervals) == 1 and intervals[0].first != intervals[0].last else ""
    return where + ", ".join(map(str, intervals)) + untried


def _say_first(intervals: Sequence[Interval], find: Find, out: Console) -> None:
    match intervals:
        case [_, later]:
            say(out, f"{later.first} is the first build in which {find.words} is {later.state}.", style="bold")
        case _:
            say(out, "Both ends are alike, so no build is the first.")
