"""The page on the second round of snapshots (document 001, REPL-07): the messages that are missed without it."""

from __future__ import annotations

from conformance.report.docs.markdown import page
from model.explorations import explorations
from model.explorations.replication.statements import NOTHING_MISSED, SOUND
from model.explorations.replication.world import Step, World
from model.explore import Path

_SENT = frozenset({"replicates", "sends"})
"""The kinds of steps that send from one cluster to another."""


def rounds_page() -> str:
    """The shortest histories in which a message is missed: without a second round, and with rounds not told apart."""
    return page(
        "Why three clusters need two rounds",
        "Document 001 leaves it open. Each of these is a shortest history of the model (`model/replication`) in which "
        "a subscription acknowledges a message that its consumer has never seen: a consumer that fails over then "
        "misses it. In both of them message A1 is entry 0 of every cluster at first, and `s` has its consumer in A. "
        "[Replication](../documents/replication.md#why-two-rounds) explains them.",
        _section("One round of answers", "repl-second-round-skipped"),
        _section("Two rounds that are not told apart", "repl-first-round-response-counts-twice"),
    )


def _section(heading: str, variant: str) -> str:
    (named,) = explorations(variant)
    broken = {one.broken.says: one for one in named.run().counterexamples}
    missed = broken.get(NOTHING_MISSED.says, broken[SOUND.says])
    return f"## {heading}\n\n{named.what}\n\n```mermaid\n{sequence(missed.path)}\n```"


def sequence(path: Path[World, Step]) -> str:
    """A path of replicated subscriptions as a sequence diagram: a lane for each cluster."""
    lanes = [f"  participant {cluster.name}" for cluster in path.states[0].clusters]
    return "\n".join(("sequenceDiagram", *lanes, *(_drawn(step) for step in path.labels)))


def _drawn(step: Step) -> str:
    words = step.words.replace("#", "/").replace(";", ",")
    if step.kind in _SENT:
        return f"  {step.cluster}->>{step.remote}: {words}"
    return f"  Note over {step.cluster}: {words}"
