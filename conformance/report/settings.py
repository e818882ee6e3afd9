"""The page of the documentation that lists the settings that runs change: which, to what, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conformance.brokers.settings import MACHINES, NEAR, QUICK, STEADY, Setting
from conformance.brokers.swarm import SWARM, Varied
from conformance.report.markdown import grid, page

_TABLES: Mapping[str, Mapping[str, Setting]] = {
    "Less waiting": QUICK,
    "Thresholds lowered, features on": NEAR,
    "Housekeeping off": STEADY,
    "For the machines": MACHINES,
}

_INTRODUCTION = """\
A broker that the suite starts runs on the `standalone.conf` of its release. What goes on top of that file is chosen
with `--settings`; a single setting is given with `--setting NAME=VALUE`, which goes on top of everything.

- `quick` (the default): the settings of the first four tables. They make a broker quick and bring rollover, snapshots
  and chunks within reach of short histories. The last part of each run repeats the main machine of each document on
  `shipped`.
- `shipped`: the file as it is. The suite sets only what no two brokers on one machine can share: `clusterName`, the
  ports (`brokerServicePort`, `webServicePort`, those of the bookie and the metadata store), `bindAddress`,
  `advertisedAddress`, `advertisedListeners` and `internalListenerName` (a second address, at which a proxy can
  listen), `allowEphemeralPorts` (without it the bookie ignores its port), and the folders of the data. Three clusters
  with geo-replication get the settings of `conformance/clusters.py` besides, as the waits of their machine follow
  from them.
- `swarm`: on top of `quick`, a random subset of the last table, each with one of its values. They are drawn from the
  run's seed, printed, and stored in the report and in each history; `replay` uses what is stored. What the release
  does not have is left out.

What the machines and the model go by, they read from the configuration of the running broker. Where waiting for
something would take minutes, as for a dirty cursor that is flushed after 60 s, the operation is skipped and says so.
A setting that a release does not have, or a value that it cannot take, is refused before the run: names and types are
read from the release's own classes and configuration files. A cluster that runs already keeps its own settings.

`python -m tests.quality.flipped` runs a check for every setting that the suite changes, with that one setting back at
its shipped value (half an hour and more; `--budget`, `--rules` and names of settings narrow it)."""


def settings_page() -> str:
    """Every setting that the suite changes, and why."""
    sections = [f"## {title}\n\n" + _fixed(settings) for title, settings in _TABLES.items()]
    return page("Settings", _INTRODUCTION, *sections, "## Drawn by a swarm\n\n" + _varied(SWARM))


def _fixed(settings: Mapping[str, Setting]) -> str:
    rows = [(f"`{name}`", f"`{setting.value}`", setting.why) for name, setting in settings.items()]
    return grid(("setting", "value", "why"), rows)


def _varied(settings: Sequence[Varied]) -> str:
    rows = [(f"`{one.name}`", ", ".join(f"`{value}`" for value in one.values), one.why) for one in settings]
    return grid(("setting", "values", "what changes"), rows)
