"""Lists rules, defects and machines, for people and as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from conformance.brokers.installation.cache import cache_folder
from conformance.drivers.catalogue import DRIVERS
from conformance.engine.catalogue import DESCRIPTIONS, Description
from conformance.faults.defect import Defect
from conformance.report.console import say, show_table
from conformance.report.data import title
from model.rules.catalogue import CATALOGUE, DOCUMENTS, heading


def list_rules(out: Console) -> None:
    """Print every rule, document by document."""
    for number, document in DOCUMENTS.items():
        _list(
            out,
            [
                (rule.id, ", ".join(decided.value for decided in rule.decided_by), f"{title(rule)} [{rule.section}]")
                for rule in CATALOGUE
                if rule.document == number
            ],
            heading=heading(number),
        )
        say(out, f"From: {document.title}.", style="dim")
        for page in document.pages:
            say(out, f"See: {page.title}, {page.address}", style="dim")


def list_defects(defects: Iterable[Defect], out: Console) -> None:
    """Print seeded defects, with the rule that each breaks."""
    _list(out, [(defect.name, defect.breaks, defect.summary) for defect in defects])


def list_machines(out: Console) -> None:
    """Print every machine, document by document."""
    for number in (*DOCUMENTS, None):
        _list(
            out,
            [
                (machine.name, f"share {machine.share:g}", _step_in_words(machine))
                for machine in DESCRIPTIONS
                if machine.document == number
            ],
            heading="Several documents" if number is None else heading(number),
        )


def _step_in_words(machine: Description) -> str:
    needs = ", ".join(_needs(machine))
    return f"{machine.summary} Decides {', '.join(machine.decides)}." + (f" Needs: {needs}." if needs else "")


def _needs(machine: Description) -> list[str]:
    return sorted(need.value for need in machine.needs)


def machines_as_json() -> bytes:
    """Every machine, as a list of objects with the field ``id`` first."""
    return _json(
        [
            {
                "id": machine.name,
                "document": machine.document,
                "summary": machine.summary,
                "decides": machine.decides,
                "needs": _needs(machine),
                "share": machine.share,
            }
            for machine in DESCRIPTIONS
        ]
    )


def rules_as_json() -> bytes:
    """Every rule, as a list of objects with the field ``id`` first."""
    return _json(
        [
            {
                "id": rule.id,
                "document": rule.document,
                "decided_by": [decided.value for decided in rule.decided_by],
                "statement": title(rule),
                "source": {
                    "title": DOCUMENTS[rule.document].title,
                    "section": rule.section,
                    "pages": [
                        {"title": page.title, "address": page.address} for page in DOCUMENTS[rule.document].pages
                    ],
                },
            }
            for rule in CATALOGUE
        ]
    )


def defects_as_json(defects: Iterable[Defect]) -> bytes:
    """Seeded defects, as a list of objects with the field ``id`` first."""
    return _json([{"id": defect.name, "breaks": defect.breaks, "summary": defect.summary} for defect in defects])


def _list(out: Console, rows: Iterable[tuple[str, str, str]], *, heading: str | None = None) -> None:
    if heading is not None:
        out.print(Text(heading, style="italic"))
    cells = [(Text(name, style="bold"), Text(kind, style="dim"), Text(what)) for name, kind, what in rows]
    show_table(out, cells, justify=("left", "left", "left"), wrapped=True)


def _json(value: list[dict[str, Any]]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2)


def list_clients(out: Console) -> None:
    """Print the clients that ``--client`` can name, with the releases that the cache has."""
    cached = sorted(path.name for path in cache_folder("clients").iterdir() if path.suffix not in (".lock", ".partial"))

    def versions(pattern: re.Pattern[str]) -> str:
        found = [match[1] for name in cached if (match := pattern.fullmatch(name))]
        return f"cached: {', '.join(dict.fromkeys(found)) or 'none'}"

    _list(
        out,
        [
            ("3.12.0", "pulsar-client in the suite's process", versions(DRIVERS["python"].cached)),
            *((driver.example, driver.what, versions(driver.cached)) for driver in DRIVERS.values()),
            ("driver:COMMAND", "any client, behind the driver that COMMAND starts", "see docs/driver-protocol.md"),
        ],
    )
