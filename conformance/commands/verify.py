"""``verify``: the invariants over histories of any length, on Spark."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from conformance.trouble import Trouble
from model.catalogue import Rule

NEEDED = ("pyspark", "pyarrow", "numpy", "pandas")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the user asked of ``verify``; ``rules`` None: all there are; ``master`` None: Spark's own choice."""

    histories: Sequence[str]
    rules: Sequence[Rule] | None
    master: str | None
    persisted_after_s: float
    json: Path | None


def verify(asked: Asked, *, out: Console) -> int:
    """Verify, print the table on ``out``, write the JSON; returns the exit status.

    Raises:
        Trouble: Spark or Java is not there, or a folder is not.
    """
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise Trouble(f"verify needs {', '.join(missing)}: run `make setup-spark`")
    # Here, because `check` does without them.
    from conformance.pipeline.session import session
    from conformance.pipeline.topic import Setting
    from conformance.pipeline.verdict import verify as verified
    from conformance.report import verification

    setting = Setting(persisted_after_ns=round(asked.persisted_after_s * 1e9))
    found = verified(session(asked.master), asked.histories, setting, asked.rules)
    verification.show(found, out)
    if asked.json is not None:
        verification.write(found, asked.json)
    return found.exit_status
