"""The page of all deviations: one table and one section each, from their entries in the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from conformance.known import HISTORIES, address, shipped
from conformance.report.docs.markdown import grid, page
from model.deviation import Deviation
from model.deviations.symptoms import SYMPTOMS, symptom_of

HEADINGS = {
    "deduplication": "Deduplication",
    "replication": "Replicated subscriptions",
    "chunking": "Chunking",
    "cursors": "Acknowledgment and cursors",
    "key_shared": "Key_Shared",
    "service": "Service",
}
_FOLDER = "/".join(HISTORIES.parts[-3:])


def deviations_page(by_document: Mapping[str, Iterable[Deviation]], releases: Iterable[str]) -> str:
    """The deviations: an index by symptom, one of these releases, and a section for each document."""
    return page(
        "Deviations",
        "What released brokers and clients do differently from the documents, from the entries in `model/deviations`. "
        "A run reports known deviations apart; `--known none` counts them as "
        "[violations](../verdicts.md#known-deviations). "
        "`pulsar-conformance replay HISTORY --broker RELEASE --known none` shows "
        "one. *read*: the releases whose code has it, and which were not tried. "
        "*not*: the releases that were seen without it.",
        *_index(tuple(one for entries in by_document.values() for one in entries), releases),
        *(_document(heading, tuple(by_document[name])) for name, heading in HEADINGS.items()),
        _shadows(tuple(one for entries in by_document.values() for one in entries)),
    )


def _index(entries: tuple[Deviation, ...], releases: Iterable[str]) -> tuple[str, ...]:
    """The deviations by symptom, the gravest first, and how many of each symptom each release has."""
    symptoms = [
        (
            f"`{symptom.name}`",
            symptom.severity,
            symptom.statement,
            ", ".join(f"[`{one.name}`](#{one.name})" for one in entries if symptom_of(one) == symptom),
        )
        for symptom in SYMPTOMS
    ]
    known = {one.name: one for one in shipped()}
    of_releases = []
    for release in releases:
        its = Counter(symptom_of(one).name for one in entries if known[one.name].concerns(release))
        cells = (str(its[symptom.name]) if its[symptom.name] else "" for symptom in SYMPTOMS)
        of_releases.append((release, *cells, str(its.total())))
    return (
        "## By symptom",
        "What a user sees, the gravest first. `pulsar-conformance known` lists the same, with `--json` for programs.",
        grid(("symptom", "severity", "what a user sees", "deviations"), symptoms),
        "## By release",
        "How many deviations of each symptom a release has, with any settings and any client; "
        "`pulsar-conformance known --release 4.0.8` names them. A release on which nobody looked for one counts "
        "as having it only between releases that were seen with it.",
        grid(("release", *(symptom.name for symptom in SYMPTOMS), "all"), of_releases),
    )


def _document(heading: str, entries: tuple[Deviation, ...]) -> str:
    rows = [(f"[`{one.name}`](#{one.name})", ", ".join((one.rule, *one.also)), _seen(one), one.side) for one in entries]
    table = grid(("deviation", "breaks", "seen on", "side"), rows)
    return "\n\n".join((f"## {heading}", table, *map(_section, entries)))


def _shadows(entries: tuple[Deviation, ...]) -> str:
    """The shadow defect of each deviation."""
    rows = [
        (
            f"[`{one.name}`](#{one.name})",
            one.shadow.statement,
            one.shadow.by,
            "no" if one.shadow.missed_before else "yes",
        )
        for one in entries
    ]
    return "\n\n".join(
        (
            "## Shadow defects",
            "A defect that breaks the rule of a deviation nearby in another way. The tests find each one while the "
            "deviation is known. *before*: whether it was found before the precondition of the deviation was narrowed.",
            grid(("deviation", "shadow", "in", "before"), rows),
        )
    )


def _section(deviation: Deviation) -> str:
    upstream = ", ".join(f"[{_short(reference)}]({address(reference)})" for reference in deviation.upstream)
    facts = [f"Upstream: {upstream or 'none known'}."]
    if deviation.searched:
        facts.append(f"Searched on {deviation.searched}")
    if deviation.has_history:
        facts.append(f"History: `{_FOLDER}/{deviation.name}.json`.")
    if deviation.aliases:
        facts.append(f"Formerly {' and '.join(f'`{alias}`' for alias in deviation.aliases)}.")
    seen = " ".join(filter(None, (deviation.statement, deviation.occurrence)))
    return "\n\n".join((f"### {deviation.name}", seen, f"*Cause:* {deviation.cause}", " ".join(facts)))


def _seen(deviation: Deviation) -> str:
    read = f"; read {', '.join(deviation.read)}" if deviation.read else ""
    gone = f"; not {', '.join(deviation.gone)}" if deviation.gone else ""
    return ", ".join(deviation.seen) + read + gone


def _short(reference: str) -> str:
    return reference.removeprefix("apache/pulsar").removeprefix("/")
