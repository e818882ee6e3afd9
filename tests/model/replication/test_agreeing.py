"""What judges the logs of real clusters, held against the reference: it accepts it, and which variants it notices."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
from msgspec.structs import replace

from model.explorations import replication
from model.explorations.replication.world import Setup
from model.replication.agreement import CHECKS
from model.replication.evidence import Deviating
from model.replication.variants import VARIANTS
from tests.model.explored import explored
from tests.model.replication.as_read import as_read

MOST = 1000
"""How many states of a configuration are looked at, evenly spread over all: there are too many to look at each."""

JUDGED = [name for name in replication.SETUPS if name != "repl-same-name"]
NOT_JUDGED = {"repl-update-of-unreplicated-subscription"}
"""What consumers acknowledged at which cluster, which this is judged by, the states of the reference do not say."""

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
"""The variants that show in the logs and subscriptions alone, and the rules that they are blamed on."""

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
"""The variants that do not show there, and why."""


def complaints(name: str, setup: Setup) -> Iterator[tuple[str, str | Deviating]]:
    """What is held against some of the states of a configuration: the rule, and why it is broken."""
    worlds = list(explored(name).graph)
    for world in worlds[:: 1 + len(worlds) // MOST]:
        topic, logs = as_read(setup, world)
        yield from ((rule, shown) for rule, check in CHECKS for shown in check(topic, logs) if shown is not None)


@cache
def blamed(variant: str) -> set[str]:
    named = next(one for one in VARIANTS if one.name == variant)
    setup = replication.EXPLORED.for_variants.get(variant, replication.EXPLORED.little)
    return {rule for rule, _ in complaints(variant, replace(setup, variant=named.variant))}


@pytest.mark.parametrize("name", JUDGED)
def test_nothing_is_held_against_clusters_that_do_as_the_document_says(name: str) -> None:
    _, setup = replication.SETUPS[name]
    assert list(complaints(name, setup)) == []


def test_these_variants_are_noticed_and_blamed_on_these_rules() -> None:
    assert {variant: blamed(variant) for variant in BLAMED} == BLAMED


def test_of_the_others_it_is_known_why_they_do_not_show() -> None:
    assert {named.name for named in VARIANTS} == {*BLAMED, *UNSEEN} | NOT_JUDGED
    assert {variant: blamed(variant) for variant in UNSEEN if blamed(variant)} == {}
