"""A history as a space-time diagram, as data: a lane for each client and broker, a band for each step, arrows.

The height of a band follows from the time of its step and from its arrows. A long step or pause is compressed, and
labelled with its length. A diagram has the last :data:`STEPS_AT_MOST` steps that concern the topic of the step that
breaks the rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from conformance.engine.slices import topics_of
from conformance.history.document import History, Step
from conformance.report.pages.arrows import Arrow, arrows_of
from conformance.report.sentences.participants import BROKER, SUITE
from conformance.report.sentences.results import Tone
from conformance.report.sentences.words import StepInWords, explain
from model.events import Skipped

STEPS_AT_MOST = 60
"""How many steps a diagram has."""

AFTERWARDS_AT_MOST = 3
"""How many steps are drawn after the one that breaks the rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagramLane:
    """The lane of an actor: a client, a broker or the suite itself."""

    name: str
    heading: str
    is_broker: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """One step in the lane of its actor, with the arrows between a client and ``broker``."""

    step: int
    lane: str
    broker: str
    action: str
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

    lanes: tuple[DiagramLane, ...]
    bands: tuple[Band, ...]
    left_out: int
    because: str

    @property
    def has_seen(self) -> bool:
        """Whether the proxy's own record is among the arrows."""
        return any(arrow.is_seen for band in self.bands for arrow in band.arrows)


def diagram_of(history: History) -> Diagram | None:
    """The diagram; None if no step is to be drawn."""
    chosen = _chosen(history)
    if not chosen:
        return None
    steps_in_words = explain(history)
    homes = _homes(history.steps)
    bands = tuple(_band(at, history, steps_in_words[at], homes) for at in chosen)
    violation = history.violation
    return Diagram(
        lanes=tuple(_lanes(bands, steps_in_words)),
        bands=bands,
        left_out=len(history.steps) - len(bands),
        because=violation.because if violation is not None else "",
    )


def _chosen(history: History) -> list[int]:
    """The indices of the steps that are drawn."""
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


def _band(at: int, history: History, step_in_words: StepInWords, homes: dict[str, str]) -> Band:
    step, violation = history.steps[at], history.violation
    lane = step_in_words.actor
    broker = step.operation.cluster or homes.get(lane, BROKER)
    # A request on a topic of several clusters is to no one of them.
    not_drawn = {BROKER, broker, SUITE} if any(homes.values()) and broker == BROKER else {BROKER, broker}
    return Band(
        step=step_in_words.step,
        lane=lane,
        broker=broker,
        action=step_in_words.action,
        words=str(step_in_words),
        tone=step_in_words.tone,
        invoked_ms=step.invoked_ms,
        completed_ms=step.completed_ms,
        arrows=tuple(arrow for arrow in arrows_of(step, lane) if arrow.client not in not_drawn),
        breaks=violation.rule if violation is not None and violation.step == step_in_words.step else None,
    )


def _lanes(bands: Sequence[Band], steps_in_words: Sequence[StepInWords]) -> Iterable[DiagramLane]:
    """The suite first, then brokers, then clients in the order of their first act."""
    headings = {step.actor: step.subject for step in reversed(steps_in_words)}
    brokers = dict.fromkeys(band.broker for band in bands if band.arrows)
    brokers |= dict.fromkeys(band.lane for band in bands if _is_broker(band.lane, headings))
    clients = dict.fromkeys(band.lane for band in bands)
    for band in bands:
        clients |= dict.fromkeys(arrow.client for arrow in band.arrows)
    if SUITE in clients:
        yield DiagramLane(name=SUITE, heading="the suite")
    for broker in sorted(brokers):
        heading = "the broker" if broker == BROKER else f"cluster {broker}"
        yield DiagramLane(name=broker, heading=heading, is_broker=True)
    for client in clients:
        if client != SUITE and client not in brokers:
            yield DiagramLane(name=client, heading=headings.get(client, client))


def _is_broker(lane: str, headings: dict[str, str]) -> bool:
    return lane == BROKER or headings.get(lane) == f"cluster {lane}"
