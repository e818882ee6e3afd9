"""The results of checks and soaks: a line of ``docs/results/runs.jsonl`` for each run, and a table of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from conformance.files import content
from conformance.harness_error import HarnessError
from conformance.known.versions import version_in
from conformance.report.docs.markdown import grid, page
from model.deviations import DEVIATIONS
from model.rules.catalogue import CATALOGUE, RULES

FALSE_ALARM: Final = "suite"
OPEN: Final = "open"
SEEDED: Final = "defect"
FAMILIES: Final = tuple(dict.fromkeys(rule.family for rule in CATALOGUE))


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that was violated or suspected."""

    rule: str
    cause: str
    """A deviation, or ``suite`` (a false alarm, corrected since), ``defect`` (seeded) or ``open`` (unexplained)."""
    came_back: int | None = None
    tries: int | None = None


class RuleResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a run said of one rule."""

    verdict: Literal["held", "known-deviation", "violated", "suspected", "not-exercised", "not-decidable", "model-only"]
    exercised: int = 0
    excused: int = 0


class Run(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run; what was not noted is absent."""

    release: str
    """As ``--broker`` names it: several releases are a rolling upgrade."""
    command: str
    seed: int | str | None = None
    date: str | None = None
    operations: int | None = None
    seconds: int | None = None
    held: int | None = None
    known: int | None = None
    not_exercised: tuple[str, ...] | int = ()
    exit_status: int | None = None
    found: tuple[Finding, ...] = ()
    rules: Mapping[str, RuleResult] = msgspec.field(default_factory=dict)
    commit: str | None = None
    """The suite's commit."""


def read(path: Path) -> tuple[Run, ...]:
    """All runs of a file. Raises HarnessError if it is malformed, or names an unknown rule or deviation."""
    try:
        runs = tuple(msgspec.json.decode(line, type=Run) for line in content(path).splitlines())
    except msgspec.MsgspecError as error:
        raise HarnessError(f"{path} does not have a run in each line: {error}") from error
    for run in runs:
        for found in run.found:
            if found.rule not in RULES or found.cause not in {*DEVIATIONS, FALSE_ALARM, OPEN, SEEDED}:
                raise HarnessError(f"{path}: there is no rule {found.rule} or no cause {found.cause}")
    return runs


def results_page(runs: Sequence[Run]) -> str:
    """The table: for each release and family of rules, what held, what is known and what is open."""
    known = _known()
    releases = {
        release: version
        for release in (*(run.release for run in runs if "," not in run.release), *known)
        if (version := version_in(release)) is not None
    }
    rows = [
        (release, *(_cell(release, family, runs, known[release]) for family in FAMILIES))
        for release in sorted(releases, key=releases.__getitem__)
    ]
    return page(
        "Results",
        f"What {len(runs)} runs showed, release by release. `docs/results/runs.jsonl` has a line for each run: "
        "release, command, seed, date, operations, verdicts, and the cause of each violation.",
        "*Held*: the rules that held in the newest run whose verdicts are stored. *Known*: the rules that a "
        "[deviation](deviations.md) of this release breaks, as far as one was seen. *Open*: the rules with a violation "
        "that nothing explains yet. [Releases](releases.md) has a short check of each release.",
        grid(("release", *FAMILIES), rows),
    )


def _known() -> Mapping[str, set[str]]:
    """The rules that a deviation was seen to break, by release, with whatever settings."""
    known: dict[str, set[str]] = defaultdict(set)
    for deviation in DEVIATIONS.values():
        for release in (seen for seen in deviation.seen if not seen.startswith("pulsar-client ")):
            known[release.split()[0]] |= {deviation.rule, *deviation.also}
    return known


def _cell(release: str, family: str, runs: Iterable[Run], known: Iterable[str]) -> str:
    of_release = [run for run in runs if run.release == release]
    with_verdicts = [run for run in of_release if run.rules]
    parts = []
    if with_verdicts:
        newest = with_verdicts[-1].rules
        held = sum(result.verdict == "held" for rule, result in newest.items() if RULES[rule].family == family)
        parts.append(f"{held} held")
    if number := sum(RULES[rule].family == family for rule in known):
        parts.append(f"{number} known")
    unexplained = {found.rule for run in of_release for found in run.found if found.cause == OPEN}
    if of_family := [rule for rule in RULES if rule in unexplained and RULES[rule].family == family]:
        parts.append(f"open: {', '.join(of_family)}")
    return "; ".join(parts) or "-"
