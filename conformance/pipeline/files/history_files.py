"""Finds the files of histories and examines them, whatever engine then reads their events.

A file that is truncated, empty, garbled, missing, of another schema version, or without a column is a *problem*, one
sentence with its name; the others are read. Compacted files are in order already; an engine sorts the others.
"""

from __future__ import annotations

import itertools
import posixpath
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from conformance.harness_error import HarnessError
from conformance.history.about import ByRun, together
from conformance.history.parquet import REQUIRED, compacted_together, in_force
from conformance.history.recorded import CallOutcome, Kind
from conformance.pipeline.files.addresses import Storage
from conformance.pipeline.files.footers import File, examined
from conformance.pipeline.topic import BACKWARDS, UNKNOWN_WORD, RecordedFault

FAULTS_AT_MOST = 100_000
"""How many faults of whole clusters are sent to every worker."""

NAMED_AT_MOST = 10
"""How many unjudged events without a topic are named; the others are counted."""

_KINDS = frozenset(map(str, Kind))
_OUTCOMES = frozenset(map(str, CallOutcome))


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The files to read, which no other file replaces, and problems, a sentence each."""

    in_order: tuple[File, ...]
    """Files of buckets that were compacted at once, with runs of no other history. They are read in their own order."""
    loose: tuple[File, ...]
    problems: tuple[str, ...]

    @property
    def all(self) -> tuple[File, ...]:
        return (*self.in_order, *self.loose)

    @property
    def runs(self) -> frozenset[str]:
        return frozenset[str]().union(*(file.runs for file in self.all))

    @property
    def about(self) -> ByRun:
        """The recorded facts about their runs."""
        return together(file.about for file in self.all)

    def without(self, paths: Collection[str], problems: Iterable[str] = ()) -> Files:
        """The same without these files, and with more problems."""
        return Files(
            in_order=tuple(file for file in self.in_order if file.path not in paths),
            loose=tuple(file for file in self.loose if file.path not in paths),
            problems=(*self.problems, *problems),
        )


NOTHING_SEEN: Mapping[str, File] = MappingProxyType({})


def examine(storage: Storage, addresses: Sequence[str], seen: Mapping[str, File] = NOTHING_SEEN) -> Files:
    """Examine every file below these folders (or these files).

    ``seen``: files by path that were examined before; one of the same size is not opened again.

    Raises:
        HarnessError: an address does not exist or cannot be listed.
    """
    sizes_bytes: dict[str, int] = {}
    problems: list[str] = []
    for address in addresses:
        found = dict(storage.listed(address))
        if not found:
            problems.append(f"there is no file of a history in {address}")
        sizes_bytes |= found
    is_new = {path: path not in seen or seen[path].size_bytes != size for path, size in sizes_bytes.items()}
    opened = examined(storage, {path: size for path, size in sizes_bytes.items() if is_new[path]})
    problems += [wrong for wrong in opened.values() if isinstance(wrong, str)]
    files = {path: opened[path] if is_new[path] else seen[path] for path in sizes_bytes}
    there = {path: file if isinstance(file, File) else None for path, file in files.items()}
    return _laid_out(there, (*problems, *_gone_buckets(addresses, there)))


def _gone_buckets(addresses: Sequence[str], listed: Mapping[str, File | None]) -> Iterable[str]:
    """A sentence for each bucket that a compacted history had and that has no file, if it was to be read whole."""
    if any(re.search(r"(/|^)bucket-\w+/*$|\.parquet$", address) for address in addresses):
        return
    there = {posixpath.dirname(path) for path in listed}
    compacted = (file for file in listed.values() if file is not None)
    named = {f"{file.history}/{name}" for file in compacted for name in file.buckets}
    for bucket in sorted(named - there):
        yield f"{bucket} is gone: the history had events there when it was compacted"


def _laid_out(listed: Mapping[str, File | None], problems: tuple[str, ...]) -> Files:
    """The files to read, of all files by path; None is one that cannot be read."""
    buckets: dict[str, dict[str, File | None]] = defaultdict(dict)
    for path, file in listed.items():
        buckets[posixpath.dirname(path)][posixpath.basename(path)] = file
    counting = {bucket: in_force(_replaced(files)) for bucket, files in buckets.items()}
    in_use = [
        [file for name in sorted(counting[bucket].names) if (file := files[name])] for bucket, files in buckets.items()
    ]
    copies = _copies(itertools.chain.from_iterable(in_use))
    in_use = [[file for file in files if file.path not in copies] for files in in_use]
    gone = [f"{bucket}/{name} is gone" for bucket, found in counting.items() for name in sorted(found.gone)]
    histories: dict[str, set[str]] = defaultdict(set)
    for file in itertools.chain.from_iterable(in_use):
        for run in file.runs:
            histories[run].add(file.history)
    in_order: list[File] = []
    loose: list[File] = []
    for files in in_use:
        is_alone = None not in (made := {compacted_together(file.name) for file in files}) and len(made) == 1
        is_whole = is_alone and all(file.runs and all(len(histories[run]) == 1 for run in file.runs) for file in files)
        (in_order if is_whole else loose).extend(files)
    return Files(in_order=tuple(in_order), loose=tuple(loose), problems=(*problems, *gone, *copies.values()))


def _copies(files: Iterable[File]) -> dict[str, str]:
    """The files whose events another one has, too: copies, and what was compacted elsewhere; a sentence for each."""
    holders: dict[tuple[str, str], File] = {}
    first: dict[bytes, File] = {}
    found: dict[str, str] = {}
    for file in sorted(files, key=lambda file: (not file.replaces, file.path)):
        names = [(posixpath.basename(file.bucket), name) for name in (file.name, *file.replaces)]
        holder = next((holders[name] for name in names if name in holders), file)
        if file.fingerprint in first:
            found[file.path] = f"{file.path} is a copy of {first[file.fingerprint].path}"
        elif holder.bucket != file.bucket:
            found[file.path] = f"{file.path} has events that {holder.path} has, too"
        else:
            first[file.fingerprint] = file
            holders |= dict.fromkeys(names, file)
    return found


def _replaced(files: Mapping[str, File | None]) -> dict[str, frozenset[str]]:
    """The names that each readable file of a bucket replaces."""
    return {name: file.replaces if file else frozenset() for name, file in files.items()}


def parts_of(files: Files) -> dict[str, Files]:
    """The files in parts without a common topic: each bucket of a history, or all files of histories with a common run.

    A file of an unknown run may have events of any.
    """
    named = {file.path: file.bucket for file in files.all}
    for histories in _with_common_runs(files.all):
        if len(histories) > 1:
            named |= {file.path: " ".join(sorted(histories)) for file in files.all if file.history in histories}
    parts: dict[str, Files] = {}
    for name in sorted(set(named.values())):
        others = {path for path, part in named.items() if part != name}
        parts[name] = replace(files.without(others), problems=())
    return parts


def _with_common_runs(files: Sequence[File]) -> list[frozenset[str]]:
    """The histories in groups: those of two groups have no common run."""
    if not all(file.runs for file in files):
        return [frozenset(file.history for file in files)]
    groups: dict[frozenset[str], frozenset[str]] = {}
    """The histories of each group by its runs."""
    for file in files:
        runs, histories = file.runs, frozenset({file.history})
        for others in [others for others in groups if runs & others or file.history in groups[others]]:
            runs, histories = runs | others, histories | groups.pop(others)
        groups[runs] = histories
    return list(groups.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class OfNoTopic:
    """Events without a topic: faults of whole clusters, and a sentence for each that cannot be judged."""

    faults: tuple[RecordedFault, ...] = ()
    problems: tuple[str, ...] = ()


def of_no_topic(rows: Sequence[Mapping[str, Any]]) -> OfNoTopic:
    """The events without a topic, which should all be faults.

    Raises:
        HarnessError: there are too many for sending them to every worker.
    """
    if len(rows) > FAULTS_AT_MOST:
        raise HarnessError(f"the histories have more than {FAULTS_AT_MOST} faults of whole clusters")
    why = [_strange(row) for row in rows]
    strange = [sentence for sentence in why if sentence]
    if len(strange) > NAMED_AT_MOST:
        strange[NAMED_AT_MOST:] = [f"{len(strange) - NAMED_AT_MOST} more events that concern no topic cannot be judged"]
    faults = tuple(_fault(row) for row, sentence in zip(rows, why, strict=True) if not sentence)
    return OfNoTopic(faults=faults, problems=tuple(strange))


def _strange(row: Mapping[str, Any]) -> str:
    """Why an event without a topic cannot be judged; empty if it can."""
    event = f"a {row['kind']} with outcome {row['outcome']} of run {row['run']}"
    lacking = [name for name in REQUIRED if row[name] is None]
    if lacking:
        return f"an event has no {lacking[0]}: {event}"
    if row["kind"] not in _KINDS or row["outcome"] not in _OUTCOMES:
        return f"{UNKNOWN_WORD}: {event}"
    if row["kind"] != Kind.FAULT:
        return f"an event names no topic, as only faults of whole clusters may: {event}"
    is_backwards = row["invoked_ns"] is not None and row["completed_ns"] < row["invoked_ns"]
    return f"{BACKWARDS}: {event}" if is_backwards else ""


def _fault(row: Mapping[str, Any]) -> RecordedFault:
    return RecordedFault(
        run=row["run"],
        cluster=row["cluster"],
        name=row["fault"],
        invoked_ns=-1 if row["invoked_ns"] is None else row["invoked_ns"],
        completed_ns=row["completed_ns"],
    )
