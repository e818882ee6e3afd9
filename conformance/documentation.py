"""Writes the generated pages of the documentation: ``python -m conformance.documentation FOLDER`` (``make docs``).

:mod:`conformance.report.docs.markdown` has the texts. A test compares the committed pages with them.
"""

from __future__ import annotations

import pkgutil
import sys
from importlib import import_module
from pathlib import Path

import model
from conformance.brokers.tried import tried
from conformance.clients.driver import protocol
from conformance.faults import catalogue
from conformance.harness_error import HarnessError
from conformance.history import document
from conformance.known import HISTORIES
from conformance.pipeline.invariants.catalogue import names_by_rule
from conformance.report.docs import hunts, results, track_record
from conformance.report.docs.deviations import deviations_page
from conformance.report.docs.markdown import buffers_page, defects_page, draining_page, exploration_page, rules_page
from conformance.report.docs.releases import capabilities_page, releases_page
from conformance.report.docs.settings import settings_page
from conformance.report.pages.rounds import rounds_page
from conformance.report.sentences.forms import json_schema
from model.chunking import assembly
from model.deviations import BY_DOCUMENT
from model.explorations import VARIANTS
from model.key_shared import draining_hashes
from model.rules.catalogue import CATALOGUE, PLACES

REFERENCE = "reference"
"""The folder of the generated pages, below that of the documentation."""
HUNTS = "hunts"
"""The folder of the hunts' JSON files, below that of the documentation."""
RUNS = "results/runs.jsonl"
"""The file with a line for each run, below the folder of the documentation."""
TRACK_RECORD = "results/track-record.jsonl"
"""The file with a line for each find that was replayed on a release, below the folder of the documentation."""


def pages(folder: Path) -> dict[str, str]:
    """The generated pages by file name. Raises HarnessError if a hunt in ``folder`` cannot be read."""
    for module in pkgutil.walk_packages(model.__path__, "model."):
        import_module(module.name)  # which says where the rules are decided
    kept = sorted((folder / HUNTS).glob("*.json"))
    return {
        f"{REFERENCE}/verdicts.schema.json": json_schema().decode(),
        f"{REFERENCE}/driver-protocol.schema.json": protocol.json_schema().decode(),
        f"{REFERENCE}/rules.md": rules_page(CATALOGUE, PLACES, names_by_rule()),
        f"{REFERENCE}/deviations.md": deviations_page(
            BY_DOCUMENT, [one.version for one in tried() if one.check is not None]
        ),
        f"{REFERENCE}/defects.md": defects_page(catalogue.defects(), [hunts.read(path) for path in kept]),
        f"{REFERENCE}/exploration.md": exploration_page(VARIANTS),
        f"{REFERENCE}/second-round.md": rounds_page(),
        f"{REFERENCE}/draining.md": draining_page(draining_hashes.TABLE),
        f"{REFERENCE}/chunk-buffers.md": buffers_page(assembly.TABLE),
        f"{REFERENCE}/settings.md": settings_page(),
        f"{REFERENCE}/capabilities.md": capabilities_page(),
        f"{REFERENCE}/releases.md": releases_page(tried()),
        f"{REFERENCE}/results.md": results.results_page(results.read(folder / RUNS)),
        f"{REFERENCE}/track-record.md": track_record.track_record_page(
            {path.stem: document.read(path).machine for path in sorted(HISTORIES.glob("*.json"))},
            track_record.read(folder / TRACK_RECORD),
        ),
    }


def main(folder: Path) -> None:
    (folder / REFERENCE).mkdir(parents=True, exist_ok=True)
    for name, text in pages(folder).items():
        (folder / name).write_text(text, encoding="utf-8")
        print(f"{folder / name} is up to date")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m conformance.documentation FOLDER")
    try:
        main(Path(sys.argv[1]))
    except HarnessError as harness_error:
        print(harness_error, file=sys.stderr)
        sys.exit(2)
