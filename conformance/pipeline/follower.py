"""Verdicts over histories that still grow: whenever files arrive, the buckets that changed are judged again.

Structured Streaming watches the folders and signals new files. Each look then lists the folders, because compacting
also removes files. No topic is in two buckets, so only buckets with other files or other faults than before are judged,
and the verdicts are folded from the results of all. The last look has the verdicts of ``verify``.

Verdicts before the end are provisional: workers write independently, so the event that explains another one may be in a
later file.
"""

from __future__ import annotations

import queue
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from conformance.harness_error import HarnessError
from conformance.history.parquet import SCHEMA
from conformance.known import KnownDeviation
from conformance.pipeline.files.footers import File
from conformance.pipeline.files.history_files import Files, examine, parts_of
from conformance.pipeline.results import DAMAGED
from conformance.pipeline.topic import VerificationSetting
from conformance.pipeline.verdict import (
    Engine,
    Verification,
    about_runs,
    faults_of,
    folded,
    setting_of_runs,
    without_release,
)
from model.rules.catalogue import Rule

EVERY = "1 second"
"""How often Spark looks for new files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _JudgedFiles:
    """A part of the files, the setting that it was judged by, and its results."""

    files: Files
    setting: VerificationSetting
    rows: list[dict[str, Any]]


class Follower:
    """Verifies the same histories repeatedly; buckets that have not changed are not judged again."""

    def __init__(
        self,
        engine: Engine,
        addresses: Sequence[str],
        setting: VerificationSetting,
        rules: Sequence[Rule] | None = None,
        *,
        known: Sequence[KnownDeviation] = (),
        release: str | None = None,
    ) -> None:
        """As :func:`conformance.pipeline.verdict.verify`."""
        self._engine, self._addresses, self._setting, self._rules = engine, addresses, setting, rules
        self._known, self._release = known, release
        self._seen: dict[str, File] = {}
        self._kept: dict[str, _JudgedFiles] = {}
        self.judged: tuple[str, ...] = ()
        """The buckets that the last look judged."""

    def look(self) -> Verification:
        """The verdicts over the files that exist now.

        If compacting replaces files in the meantime, it looks again.

        Raises:
            HarnessError: a folder cannot be listed, or the engine fails for another reason than a damaged file.
        """
        while True:
            try:
                return self._look()
            except HarnessError:
                there = {path for address in self._addresses for path, _ in self._engine.storage.listed(address)}
                if self._seen.keys() <= there:
                    raise

    def _look(self) -> Verification:
        began_s = time.monotonic()
        files = examine(self._engine.storage, self._addresses, self._seen)
        self._seen = {file.path: file for file in files.all}
        about = about_runs(files, self._release)
        files, faults = faults_of(self._engine, files)
        setting = setting_of_runs(self._setting, about, self._known, faults)
        before, self._kept, self.judged = self._kept, {}, ()
        problems, rows = list[str](), list[dict[str, Any]]()
        unreadable: set[str] = set()
        for name, part in parts_of(files).items():
            one, read = self._judge(name, part, _of_runs(setting, part.runs), before.get(name))
            problems.extend(read.problems)
            unreadable |= {file.path for file in part.all} - {file.path for file in read.all}
            rows.extend(one.rows)
            if not read.problems and all(row["invariant"] != DAMAGED for row in one.rows):
                self._kept[name] = one
        files = files.without(unreadable, problems)
        return folded(
            files, rows, self._rules, notes=without_release(files, about) if self._known else (), began_s=began_s
        )

    def _judge(
        self, name: str, part: Files, setting: VerificationSetting, before: _JudgedFiles | None
    ) -> tuple[_JudgedFiles, Files]:
        """The results of a part, reused if nothing has changed, and the files without damaged ones."""
        if before is not None and (before.files, before.setting) == (part, setting):
            return before, part
        self.judged = (*self.judged, name)
        read, rows = self._engine.judged(part, setting)
        return _JudgedFiles(files=part, setting=setting, rows=rows), read


def _of_runs(setting: VerificationSetting, runs: frozenset[str]) -> VerificationSetting:
    """The setting without the facts about other runs."""
    return replace(
        setting,
        faults=tuple(sorted((fault for fault in setting.faults if fault.run in runs), key=repr)),
        known={run: names for run, names in setting.known.items() if run in runs},
        persisted_after_by_run_ns={run: ns for run, ns in setting.persisted_after_by_run_ns.items() if run in runs},
        largest_bytes={run: most for run, most in setting.largest_bytes.items() if run in runs},
    )


class Arrivals:
    """Signals new files, and the end: no file arrived within the time, or :meth:`end` was called."""

    def __init__(self) -> None:
        self._signals: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._is_over = False

    def notify(self) -> None:
        """Signal new files; from any thread."""
        self._signals.put(None)

    def end(self) -> None:
        self._is_over = True
        self.notify()

    def wait(self, within_s: float) -> bool:
        """Wait for new files, and take all signals at once; False at the end."""
        try:
            self._signals.get(timeout=within_s)
            while not self._signals.empty():
                self._signals.get()
        except queue.Empty:
            return False
        return not self._is_over


def follow(
    follower: Follower, arrivals: Arrivals, *, settled_s: float, show: Callable[[Verification], None]
) -> Verification:
    """Look again whenever files arrive, and ``show`` the verdicts; returns those of the last look.

    It ends when no file has arrived for ``settled_s`` seconds, or by ``arrivals.end()``.

    Raises:
        HarnessError: as :meth:`Follower.look`.
    """
    while arrivals.wait(settled_s):
        show(follower.look())
    return follower.look()


@contextmanager
def watching(spark: SparkSession, folders: Sequence[str], arrivals: Arrivals) -> Iterator[None]:
    """Have Spark watch these folders and signal new files.

    Raises:
        HarnessError: Spark cannot watch one.
    """
    with ExitStack() as stack:
        for folder in folders:
            reader = spark.readStream.schema(from_arrow_schema(SCHEMA)).option("recursiveFileLookup", "true")
            checkpoint = stack.enter_context(tempfile.TemporaryDirectory(prefix="pulsar-conformance-follow-"))
            try:
                rows = reader.option("pathGlobFilter", "*.parquet").parquet(folder)
                stream = rows.writeStream.foreachBatch(lambda *_: arrivals.notify()).trigger(processingTime=EVERY)
                stack.callback(stream.option("checkpointLocation", f"file:{checkpoint}").start().stop)
            except PySparkException as error:
                raise HarnessError(f"{folder} cannot be watched: {str(error).strip().splitlines()[0]}") from error
        yield
