"""The page of the documentation on the settings that runs change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conformance.brokers.settings import MACHINES, NEAR, QUICK, ROLLBACK, STEADY, Setting
from conformance.brokers.settings.deployment import BOOKIE, of_broker
from conformance.brokers.settings.swarm import SWARM, Varied
from conformance.report.docs.markdown import grid, page

_TABLES: Mapping[str, Mapping[str, Setting]] = {
    "Less waiting": QUICK,
    "Thresholds lowered, features on": NEAR,
    "Housekeeping off": STEADY,
    "For the machines": MACHINES,
}
_DEPLOYMENT: Mapping[str, Mapping[str, Setting]] = {
    "Needed by a deployment with one bookie, in broker.conf": of_broker(),
    "Needed by a deployment, in bookkeeper.conf": BOOKIE,
    "For the newer brokers of a rolling upgrade, if the older release lacks them": ROLLBACK,
}


_INTRODUCTION = """\
A broker that the suite starts runs on the `broker.conf` of its release, and its bookie on the `bookkeeper.conf`. A
standalone broker (`standalone:`, containers) runs on the `standalone.conf`. `--settings` chooses what is set on top of
these files. `--setting NAME=VALUE` sets a single setting on top of everything: the bookie gets it if it is a setting of
the bookie and not of the broker.

- `quick` (the default): the settings of the first four tables. They make a broker quick, and bring rollover, snapshots
  and chunks within reach of short histories. The last part of each run repeats the main machine of each document on
  `shipped`.
- `shipped`: the files as they are. The suite sets only what two brokers on one machine cannot share: `clusterName`, the
  ports (`brokerServicePort`, `webServicePort`, those of the bookie and the metadata store), `bindAddress`,
  `advertisedAddress`, `advertisedListeners` and `internalListenerName` (a second address, at which a proxy can
  listen), and the data folders. A deployment also needs the settings of the two tables after the first four, and a
  standalone broker `allowEphemeralPorts` (without it the bookie ignores its port). Clusters with
  geo-replication also get the settings of `conformance/clusters.py`, because the waits of their machines depend on
  them.
- `swarm`: `quick`, and a random subset of the last table on top of it, each setting with one of its values. They are
  drawn from the run's seed, printed, and stored in the report and in each history. `replay` uses the stored ones. A
  setting that the release does not have is left out.

The machines and the model read the settings of the running broker. If an operation would have to wait for minutes, for
example for a dirty cursor that is flushed after 60 s, it is skipped and marked so. Before the run the suite rejects a
setting that the release does not have, and a value that it cannot take. It reads names and types from the release's own
classes and configuration files. A running cluster keeps its own settings.

`python -m tests.quality.single_settings` runs a check for every setting that the suite changes, with that one
setting back at its shipped value. It takes half an hour and more; `--budget`, `--rules` and names of
settings narrow it."""


def settings_page() -> str:
    tables = {**_TABLES, **_DEPLOYMENT}
    sections = [f"## {title}\n\n" + _fixed(settings) for title, settings in tables.items()]
    return page("Settings", _INTRODUCTION, *sections, "## Drawn by a swarm\n\n" + _varied(SWARM))


def _fixed(settings: Mapping[str, Setting]) -> str:
    rows = [(f"`{name}`", f"`{setting.value}`", setting.why) for name, setting in settings.items()]
    return grid(("setting", "value", "why"), rows)


def _varied(settings: Sequence[Varied]) -> str:
    rows = [(f"`{one.name}`", ", ".join(f"`{value}`" for value in one.values), one.why) for one in settings]
    return grid(("setting", "values", "what changes"), rows)
