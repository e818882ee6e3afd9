"""The time after which an ack is persisted, by the settings of a run: a kill undoes only later ones.

It is the sum of the interval of the rate limiter, the flush interval of an idle cursor (document 003), and a time to
write. A history does not record namespace policies, which may override the settings.
"""

from __future__ import annotations

from collections.abc import Mapping

from conformance.history.about import ByRun

TIMES_A_SECOND = "managedLedgerDefaultMarkDeleteRateLimit"
FLUSHED_AFTER_S = "managedLedgerCursorPositionFlushSeconds"
FLUSHED_BY_DEFAULT_S = 60.0
WRITTEN_WITHIN_S = 7.0
"""How long a broker on a busy machine may take to write, measured in soaks."""


def persisted_after_of_runs_ns(about: ByRun) -> dict[str, int]:
    """How long after its confirmation a kill may undo an ack, in ns, for each run that recorded these settings."""
    each = {run: [_persisted_after_ns(one.settings) for one in recorded] for run, recorded in about.items()}
    sure = {run: [one for one in times if one is not None] for run, times in each.items()}
    return {run: max(times) for run, times in sure.items() if times and len(times) == len(each[run])}


def _persisted_after_ns(settings: Mapping[str, str]) -> int | None:
    try:
        times_a_second = float(settings[TIMES_A_SECOND])
        flushed_after_s = float(settings.get(FLUSHED_AFTER_S, FLUSHED_BY_DEFAULT_S))
        every_s = 1 / times_a_second if times_a_second else 0.0  # 0: with every ack
        return round((every_s + flushed_after_s + WRITTEN_WITHIN_S) * 1e9)
    except (KeyError, ValueError, OverflowError):
        return None
