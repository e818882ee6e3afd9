"""The observer of the logs of all clusters, compared with the reference: it accepts it and detects its variants."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
from msgspec.structs import replace

from model.explorations import replication
from model.explorations.replication.world import Setup
from model.replication.agreement import CHECKS
from model.replication.evidence import Finding
from model.replication.variants import VARIANTS
from tests.model.explored import explored
from tests.model.replication.read_back import as_read

MOST = 1000
"""How many states of a configuration are judged, evenly distributed over all: there are too many to judge each."""

JUDGED = [name for name in replication.SETUPS if name != "repl-same-name"]
NOT_JUDGED = {"repl-update-of-unreplicated-subscription"}
"""The states of the reference lack what these rules need: which consumer acknowledged what at which cluster."""

BLAMED: dict[str, set[str]] = {
    "repl-second-round-skipped": {"REPL-07", "REPL-14"},
    "repl-first-round-response-counts-twice": {"REPL-07", "REPL-14"},
    "repl-snapshot-not-at-highest-response": {"REPL-09"},
    "repl-latest-answer-counts": {"REPL-06", "REPL-14"},
    "repl-local-too-early": {"REPL-09", "REPL-14"},
    "repl-local-too-late": {"REPL-09"},
    "repl-position-too-far": {"REPL-04", "REPL-14"},
    "repl-late-answer-accepted": {"REPL-09"},
    "repl-began-without-news": {"REPL-02"},
    "repl-began-for-nobody": {"REPL-18"},
    "repl-handled-by-every-replicator": {"REPL-05"},
    "repl-in-flight-lost": {"REPL-01", "REPL-13"},
    "repl-snapshot-replicated": {"REPL-12"},
    "repl-markers-held": {"REPL-10"},
    "repl-next-snapshot": {"REPL-14"},
    "repl-individual-publishes": {"REPL-14"},
    "repl-wrong-cluster": {"REPL-13"},
    "repl-all-there": {"REPL-14"},
    "repl-update-creates-at-latest": {"REPL-14"},
    "repl-created-unreplicated": {"REPL-13"},
    "repl-missing-not-created": {"REPL-13"},
    "repl-unreplicated-published": {"REPL-18"},
}
"""The variants that are visible in the logs and subscriptions alone, and the rules that they break."""

UNSEEN = {
    "repl-never-timed-out": "a matter of time, which the reference has none of",
    "repl-began-while-cut": "a matter of time as well: since when a link is cut is read from the clusters' stats",
    "repl-closed-not-opened": "the answer never comes: no snapshot is complete, and nobody catches up",
    "repl-oldest-usable": "the remote is further behind than it need be, and catches up later",
    "repl-cache-unbounded": "a cache is not to be seen from outside",
    "repl-newest-dropped": "the same",
    "repl-snapshot-cache-not-recovered": "the remote stays behind until the next message",
    "repl-update-unpublished": "nobody catches up",
}
"""The variants that are not visible there, and why."""


def violations(name: str, setup: Setup) -> Iterator[tuple[str, str | Finding]]:
    """The violations in some of the states of a configuration: the rule and the reason."""
    worlds = list(explored(name).graph)
    for world in worlds[:: 1 + len(worlds) // MOST]:
        topic, logs = as_read(setup, world)
        shown = ((rule, one) for rule, check in CHECKS for one in check(topic, logs))
        yield from ((rule, one) for rule, one in shown if isinstance(one, str | Finding))


@cache
def rules_broken(variant: str) -> set[str]:
    named = next(one for one in VARIANTS if one.name == variant)
    setup = replication.EXPLORED.for_variants.get(variant, replication.EXPLORED.little)
    return {rule for rule, _ in violations(variant, replace(setup, variant=named.variant))}


@pytest.mark.parametrize("name", JUDGED)
def test_the_observer_accepts_correct_clusters(name: str) -> None:
    _, setup = replication.SETUPS[name]
    assert list(violations(name, setup)) == []


def test_these_variants_break_exactly_these_rules() -> None:
    assert {variant: rules_broken(variant) for variant in BLAMED} == BLAMED


def test_the_other_variants_are_known_to_be_invisible() -> None:
    assert {named.name for named in VARIANTS} == {*BLAMED, *UNSEEN} | NOT_JUDGED
    assert {variant: rules_broken(variant) for variant in UNSEEN if rules_broken(variant)} == {}
