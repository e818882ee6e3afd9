"""The explorations of document 001: their configurations, and the expected result of each."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from model.explorations.configured import Configurations
from model.explorations.replication.statements import statements
from model.explorations.replication.world import Setup, Step, World, good_ending, initial, kinds, steps
from model.explore import System
from model.replication.variants import VARIANTS

BOTH = ("AB", "BA")
FREE = ("AB", "CA", "CB")

SETUPS: dict[str, tuple[str, Setup]] = {
    "repl-two": (
        "two clusters, a message in each; a snapshot; the consumer fails over",
        Setup(messages="AB", failovers="B", exact=True),
    ),
    "repl-there-and-back": (
        "two clusters, a message everywhere and one in the second; snapshots in both; the consumer fails over and back",
        Setup(stored="A", messages="B", snapshots="AB", failovers="BA", late=("AB",)),
    ),
    "repl-small-cache": (
        "two clusters, two messages, two snapshots and room for one; acknowledged one by one or up to one",
        Setup(messages="AA", snapshots="AA", cached=1, cumulative=True, exact=True),
    ),
    "repl-timeout": (
        "two clusters, a message; two snapshots, of which one may be given up",
        Setup(messages="A", snapshots="AA", timeouts=1, failovers="B"),
    ),
    "repl-cuts": (
        "two clusters, a message everywhere and one in the second; each link is cut, and repeats its last entry",
        Setup(stored="A", messages="B", cuts=("AB", "BA"), failovers="B", late=()),
    ),
    "repl-crash": (
        "two clusters, a message everywhere and one in the second; the broker of the first crashes",
        Setup(stored="A", messages="B", crashes="A", failovers="B", late=BOTH),
    ),
    "repl-crash-there": (
        "two clusters, a message everywhere and one in the second; the broker of the second crashes",
        Setup(stored="A", messages="B", crashes="B", failovers="B", late=BOTH),
    ),
    "repl-closed": (
        "two clusters, a message; the replicator back is closed",
        Setup(messages="A", closed=("BA",), failovers="B"),
    ),
    "repl-several": (
        "two clusters, a message everywhere; two replicated subscriptions, and in each cluster one that is not",
        Setup(stored="A", snapshots="AA", others=("t",), plain=(("u", "A"), ("v", "B")), late=BOTH),
    ),
    "repl-same-name": (
        "two clusters, a message in each; a subscription is replicated in one, and another of its name is not",
        Setup(messages="AB", plain=(("s", "B"),)),
    ),
    "repl-none": (
        "two clusters, a message in each; no subscription is replicated, the consumer fails over",
        Setup(messages="AB", replicated=False),
    ),
    "repl-three": (
        "three clusters, a message everywhere and one in the third; a snapshot, the consumer fails over",
        Setup(clusters="ABC", late=FREE, stored="A", messages="C", failovers="B"),
    ),
    "repl-three-slow": (
        "three clusters, the same; the first one's replicators handle the responses in another order than its log's",
        Setup(clusters="ABC", late=FREE, slow=("AB",), stored="A", messages="C", failovers="B"),
    ),
    "repl-three-cut": (
        "three clusters, a message everywhere and one in the third; the link from there is cut and repeats an entry",
        Setup(
            clusters="ABC",
            late=("AB", "CA"),
            stored="A",
            messages="C",
            cuts=("CA",),
        ),
    ),
}
"""The configurations in which the document must hold."""

GIVEN_UP: dict[str, tuple[str, Setup]] = {
    "repl-three-idle": (
        "three idle clusters, checked for more than the document promises: no redelivery after a failover",
        Setup(clusters="ABC", late=("CB",), stored="A", messages="C", exact=True),
    ),
}
"""The configurations that are checked for more than the document promises."""

_LITTLE = Setup(messages="AB", failovers="B", late=BOTH)
_THREE = Setup(clusters="ABC", stored="A", messages="C", failovers="B", late=FREE)
_VARIANT_SETUPS: dict[str, Setup] = {
    "repl-second-round-skipped": replace(_THREE, late=("AB", "AC", "CA", "CB")),
    "repl-first-round-response-counts-twice": replace(_THREE, late=("AB", "CA"), cuts=("CA",), failovers=""),
    "repl-snapshot-not-at-highest-response": replace(_THREE, slow=("AB",)),
    "repl-latest-answer-counts": replace(_THREE, late=("AB", "CA")),
    "repl-late-answer-accepted": Setup(stored="A", snapshots="AA", timeouts=1),
    "repl-never-timed-out": Setup(stored="A", timeouts=1),
    "repl-began-without-news": Setup(stored="A", snapshots="AA"),
    "repl-began-while-cut": Setup(stored="A", cuts=("AB",)),
    "repl-began-for-nobody": Setup(messages="A", replicated=False),
    "repl-handled-by-every-replicator": replace(_THREE, messages="", late=(), failovers=""),
    "repl-closed-not-opened": Setup(messages="A", closed=("BA",)),
    "repl-oldest-usable": replace(_LITTLE, snapshots="AA"),
    "repl-cache-unbounded": Setup(messages="AA", snapshots="AA", cached=1, late=()),
    "repl-newest-dropped": Setup(messages="AA", snapshots="AA", cached=1, late=()),
    "repl-in-flight-lost": Setup(messages="AA", cuts=("AB",)),
    "repl-snapshot-cache-not-recovered": replace(_LITTLE, messages="A", crashes="A"),
    "repl-wrong-cluster": replace(_THREE, late=("CB",)),
    "repl-snapshot-replicated": replace(_LITTLE, stored="A", messages="", late=()),
    "repl-unreplicated-published": Setup(messages="A", plain=(("u", "A"),)),
    "repl-update-of-unreplicated-subscription": Setup(messages="A", plain=(("s", "B"),)),
}


def system(setup: Setup) -> System[World, Step]:
    """The system to explore in a configuration."""
    always, every_step = statements(setup)
    return System(
        initial=(initial(setup),),
        steps=partial(steps, setup),
        always=always,
        every_step=every_step,
        kinds=kinds(setup),
        good_ending=good_ending,
    )


EXPLORED = Configurations(
    system=system,
    holding=SETUPS,
    given_up=GIVEN_UP,
    variants=VARIANTS,
    little=_LITTLE,
    for_variants=_VARIANT_SETUPS,
)
