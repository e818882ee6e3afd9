"""``verify``: the invariants over histories of any length, on Spark or on this machine alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from rich.console import Console

from conformance.commands.supervision.interrupts import at_first_interrupt
from conformance.commands.supervision.packages import demand_installed
from conformance.files import opened
from conformance.harness_error import HarnessError
from conformance.known import KnownDeviation
from model.rules.catalogue import Rule

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from conformance.pipeline.spark_engine import SparkEngine
    from conformance.pipeline.topic import VerificationSetting
    from conformance.pipeline.verdict import Engine, Verification

SO_FAR = "So far; the event that explains another one may be in a later file:"
AT_THE_END = "At the end:"

SETTLED_S = 120.0
"""The default time without a new file after which a followed history counts as complete."""

EngineName = Literal["spark", "local"]
NEEDED: Final[dict[EngineName, tuple[str, ...]]] = {
    "spark": ("pyspark", "pyarrow", "numpy", "pandas"),
    "local": ("pyarrow", "numpy"),
}
EXTRAS: Final[dict[EngineName, str]] = {"spark": "spark", "local": "verify"}
"""The extra of the package that has what an engine needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    """The options of ``verify``; ``rules`` None: all; ``master`` None: Spark's own choice."""

    histories: Sequence[str]
    rules: Sequence[Rule] | None
    master: str | None
    persisted_after_s: float | None
    """How long a kill may undo an ack; None: by the settings of each history."""
    known: tuple[KnownDeviation, ...]
    release: str | None
    """The release of histories that did not record it."""
    json: Path | None
    command: str = "pulsar-conformance verify"
    """The command line, for the JSON."""
    summary: str | None = None
    """The folder for the tables, on any file system that Spark writes to."""
    report: Path | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    """Spark's options by name."""
    follow_s: float | None = None
    """Follow growing histories until no file has arrived for so long."""
    engine: EngineName = "spark"


def verify(asked: VerifyOptions, *, out: Console) -> int:
    """Verify, print the table on ``out``, write the JSON; returns the exit status.

    Raises:
        HarnessError: what the engine needs, or a folder, is missing.
    """
    demand_installed(NEEDED[asked.engine], "verify", extra=EXTRAS[asked.engine])
    if asked.follow_s is None:
        _demand_readable(asked.histories)
    # Here, because `check` does not need them.
    from conformance.pipeline.verdict import verify as verified

    def verify_with(engine: Engine) -> Verification:
        return verified(
            engine, asked.histories, setting_of(asked), asked.rules, known=asked.known, release=asked.release
        )

    if asked.engine == "local":
        from conformance.pipeline.local_engine import LocalEngine

        found = verify_with(LocalEngine())
        _say(found, asked, out)
        return found.exit_status
    from conformance.pipeline.session import session
    from conformance.pipeline.spark_engine import SparkEngine

    spark = session(asked.master, asked.options)
    engine = SparkEngine(spark)
    found = verify_with(engine) if asked.follow_s is None else _follow(engine, asked, asked.follow_s, out)
    _say(found, asked, out)
    if asked.summary is not None or asked.report is not None:
        _summarise(spark, found, asked, out)
    return found.exit_status


def _say(found: Verification, asked: VerifyOptions, out: Console) -> None:
    from conformance.report import verification

    verification.show(found, out)
    if asked.json is not None:
        verification.write(found, asked.json, command=asked.command)


def _demand_readable(histories: Iterable[str]) -> None:
    """Refuse local paths that are not there, before an engine starts, which itself looks for addresses."""
    for path in histories:
        if re.search(r"[*?\[{]|^\w+:", path):
            continue
        if not Path(path).exists():
            raise HarnessError(f"{path} cannot be read: there is no such file or folder")
        if not Path(path).is_dir():
            opened(Path(path)).close()


def setting_of(asked: VerifyOptions) -> VerificationSetting:
    """The setting that follows from the options."""
    from conformance.pipeline.topic import VerificationSetting

    within_s = asked.persisted_after_s
    return VerificationSetting(persisted_after_ns=None if within_s is None else round(within_s * 1e9))


def _follow(engine: SparkEngine, asked: VerifyOptions, settled_s: float, out: Console) -> Verification:
    """The verdicts at the end; earlier ones are shown whenever one has changed."""
    from conformance.pipeline.follower import Arrivals, Follower, follow, watching
    from conformance.report import verification

    shown: list[object] = [None]

    def show(found: Verification) -> None:
        state = ([verification.label(verdict) for verdict in found.rules], found.problems)
        if state != shown[0]:
            shown[0] = state
            out.print(f"\n{SO_FAR}", markup=False)
            verification.show(found, out)

    arrivals = Arrivals()
    follower = Follower(
        engine, asked.histories, setting_of(asked), asked.rules, known=asked.known, release=asked.release
    )
    with at_first_interrupt(arrivals.end), watching(engine.spark, asked.histories, arrivals):
        found = follow(follower, arrivals, settled_s=settled_s, show=show)
    out.print(f"\n{AT_THE_END}", markup=False)
    return found


def _summarise(spark: SparkSession, found: Verification, asked: VerifyOptions, out: Console) -> None:
    from conformance.pipeline import summary
    from conformance.pipeline.verdict import about_runs
    from conformance.report.pages import histories

    if not (found.files.in_order or found.files.loose):
        raise HarnessError("there is nothing to summarise: no file of the histories could be read")
    about = about_runs(found.files, asked.release)
    tables = summary.summarise(spark, found.files, about, found.runs, found.by_fault)
    if asked.summary is not None:
        summary.write(spark, tables, asked.summary)
    if asked.report is not None:
        out.print(f"The report is {histories.write(found, tables, asked.report)}", markup=False)
