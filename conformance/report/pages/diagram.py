"""A history as a space-time diagram, as data: a lane for each client and broker, its steps in bands of time, arrows.

Steps follow one another, so each has a band of its own, as high as it took long or as its arrows need. What would make
the diagram endless is compressed: a long step or a long pause keeps its place and says how long it was. A diagram has
at most :data:`STEPS_AT_MOST` steps: the last ones that concern the topic of the step that breaks the rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from conformance.engine.slices import topics_of
from conformance.history.document import History, Step
from conformance.report.pages.arrows import Arrow, arrows_of
from conformance.report.sentences.participants import BROKER, SUITE
from conformance.report.sentences.results import Tone
from conformance.report.sentences.words import Telling, explain
from model.events import Skipped

STEPS_AT_MOST = 60
"""How many steps a diagram has."""

AFTERWARDS_AT_MOST = 3
"""How many steps are drawn behind the one that breaks the rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Who acts: a client, a broker or the suite itself."""

    name: str
    heading: str
    is_broker: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """One step: in whose lane, what it does, what came of it, the arrows between a client and ``broker``."""

    step: int
    lane: str
    broker: str
    did: str
    words: str
    tone: Tone
    invoked_ms: float
    completed_ms: float
    arrows: tuple[Arrow, ...]
    breaks: str | None = None
    """The rule that it breaks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagram:
    """``left_out``: how many steps of the history are not drawn. ``because``: why the rule counts as broken."""

    lanes: tuple[Lane, ...]
    bands: tuple[Band, ...]
    left_out: int
    because: str

    @property
    def has_seen(self) -> bool:
        """Whether the proxy's own record is among the arrows."""
        return any(arrow.is_seen for band in self.bands for arrow in band.arrows)


def diagram_of(history: History) -> Diagram | None:
    """The diagram; None where there is nothing to draw."""
    chosen = _chosen(history)
    if not chosen:
        return None
    tellings = explain(history)
    homes = _homes(history.steps)
    bands = tuple(_band(at, history, tellings[at], homes) for at in chosen)
    violation = history.violation
    return Diagram(
        lanes=tuple(_lanes(bands, tellings)),
        bands=bands,
        left_out=len(history.steps) - len(bands),
        because=violation.because if violation is not None else "",
    )


def _chosen(history: History) -> list[int]:
    """Which steps are drawn, counted from 0."""
    steps = history.steps
    breaks_at = history.violation.step - 1 if history.violation is not None else len(steps) - 1
    topics = topics_of([step.operation for step in steps])
    about = topics[breaks_at] if 0 <= breaks_at < len(topics) else None
    chosen = [
        at
        for at, step in enumerate(steps[: breaks_at + 1 + AFTERWARDS_AT_MOST])
        if at == breaks_at or (not isinstance(step.outcome, Skipped) and (about is None or topics[at] in (None, about)))
    ]
    return chosen[-STEPS_AT_MOST:]


def _homes(steps: Iterable[Step]) -> dict[str, str]:
    """The lane of the broker that each session and consumer of several clusters is connected to."""
    operations = [step.operation for step in steps]
    return {one.actor: one.cluster for one in operations if one.actor is not None and one.cluster is not None}


def _band(at: int, history: History, telling: Telling, homes: dict[str, str]) -> Band:
    step, violation = history.steps[at], history.violation
    lane, broker = telling.actor, homes.get(telling.actor, BROKER)
    return Band(
        step=telling.step,
        lane=lane,
        broker=broker,
        did=telling.did,
        words=str(telling),
        tone=telling.tone,
        invoked_ms=step.invoked_ms,
        completed_ms=step.completed_ms,
        arrows=arrows_of(step, lane),
        breaks=violation.rule if violation is not None and violation.step == telling.step else None,
    )


def _lanes(bands: Sequence[Band], tellings: Sequence[Telling]) -> Iterable[Lane]:
    """The suite first, then brokers, then clients in the order of their first act."""
    headings = {telling.actor: telling.subject for telling in reversed(tellings)}
    brokers = dict.fromkeys(band.broker for band in bands if band.arrows)
    brokers |= dict.fromkeys(band.lane for band in bands if _is_broker(band.lane, headings))
    clients = dict.fromkeys(band.lane for band in bands)
    for band in bands:
        clients |= dict.fromkeys(arrow.client for arrow in band.arrows)
    if SUITE in clients:
        yield Lane(name=SUITE, heading="the suite")
    for broker in sorted(brokers):
        heading = "the broker" if broker == BROKER else f"cluster {broker}"
        yield Lane(name=broker, heading=heading, is_broker=True)
    for client in clients:
        if client != SUITE and client not in brokers:
            yield Lane(name=client, heading=headings.get(client, client))


def _is_broker(lane: str, headings: dict[str, str]) -> bool:
    return lane == BROKER or headings.get(lane) == f"cluster {lane}"
