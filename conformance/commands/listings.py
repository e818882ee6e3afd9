"""``rules`` and ``defects``: what there is, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from conformance.engine.catalogue import DESCRIPTIONS, Description
from conformance.faults.defect import Defect
from conformance.report.account import title
from model.catalogue import CATALOGUE, DOCUMENTS


def list_rules(out: Console) -> None:
    """Print every rule, document by document."""
    for document, name in DOCUMENTS.items():
        table = _table(f"Document {document}: {name}")
        for rule in CATALOGUE:
            if rule.document == document:
                table.add_row(rule.id, ", ".join(decided.value for decided in rule.decided_by), Text(title(rule)))
        out.print(table)


def list_defects(defects: Iterable[Defect], out: Console) -> None:
    """Print seeded defects, with the rule that each breaks."""
    table = _table(None)
    for defect in defects:
        table.add_row(defect.name, defect.breaks, Text(defect.summary))
    out.print(table)


def list_machines(out: Console) -> None:
    """Print every machine, document by document."""
    for document, name in DOCUMENTS.items():
        table = _table(f"Document {document}: {name}")
        for machine in DESCRIPTIONS:
            if machine.document == document:
                table.add_row(machine.name, f"share {machine.share:g}", Text(_telling(machine)))
        out.print(table)


def _telling(machine: Description) -> str:
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
            }
            for rule in CATALOGUE
        ]
    )


def defects_as_json(defects: Iterable[Defect]) -> bytes:
    """Seeded defects, as a list of objects with the field ``id`` first."""
    return _json([{"id": defect.name, "breaks": defect.breaks, "summary": defect.summary} for defect in defects])


def _table(name: str | None) -> Table:
    table = Table(title=name, title_justify="left", box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(no_wrap=True, style="dim")
    table.add_column(ratio=1)
    return table


def _json(value: list[dict[str, Any]]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2)
