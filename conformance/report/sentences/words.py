"""A history in words: each step as a numbered sentence with its actor, its action and its results.

The terminal, the HTML page and the JUnit file all use this module. It judges nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from conformance.history.document import History, Step
from conformance.report.sentences.actions import actor_and_action
from conformance.report.sentences.participants import BROKER, SUITE, Participants
from conformance.report.sentences.results import Result, Tone, late_in_words, results, unexpected_in_words


@dataclass(frozen=True, slots=True, kw_only=True)
class StepInWords:
    """One step: the ``action`` of an ``actor`` and its ``results``.

    ``subject`` describes the actor in a sentence. ``late``: answers to earlier operations that arrived before it.
    """

    step: int
    actor: str
    subject: str
    action: str
    results: tuple[Result, ...]
    late: str = ""
    invoked_ms: float = 0.0
    completed_ms: float = 0.0

    @property
    def tone(self) -> Tone:
        """The tone of its worst result."""
        tones = {result.tone for result in self.results}
        return next(tone for tone in reversed(Tone) if tone in tones or tone is Tone.PLAIN)

    def __str__(self) -> str:
        came = "; ".join(result.words for result in self.results)
        late = f" Before that, {self.late}." if self.late else ""
        return f"{self.step}. {self.subject} {self.action}{': ' if came else ''}{came}.{late}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """The steps in the middle of a long history, by the numbers of the first and the last."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"… {self.last - self.first + 1} steps, {self.first} to {self.last}, are left out …"


def explain(history: History) -> tuple[StepInWords, ...]:
    participants = Participants()
    steps = []
    for number, step in enumerate(history.steps, start=1):
        participants.add(step.operation)
        steps.append(_step_in_words(number, step, participants))
    return tuple(steps)


def cut(steps: Sequence[StepInWords], *, at_most: int) -> tuple[StepInWords | LeftOut, ...]:
    """Keep a history within ``at_most`` steps: a third of them from the beginning, the rest from the end."""
    if len(steps) <= at_most:
        return tuple(steps)
    head = at_most // 3
    tail = at_most - head
    gap = LeftOut(first=steps[head].step, last=steps[-tail].step - 1)
    return (*steps[:head], gap, *steps[-tail:])


def actors(steps: Iterable[StepInWords | LeftOut]) -> tuple[str, ...]:
    """The actors in the order of their first action; the broker and the suite last."""
    seen = dict.fromkeys(step.actor for step in steps if isinstance(step, StepInWords))
    last = [actor for actor in (BROKER, SUITE) if actor in seen]
    return (*(actor for actor in seen if actor not in last), *last)


def _step_in_words(number: int, step: Step, participants: Participants) -> StepInWords:
    actor, subject, action = actor_and_action(step.operation, participants)
    return StepInWords(
        step=number,
        actor=actor,
        subject=subject,
        action=action,
        results=(
            *results(step.operation, step.outcome),
            *(Result(unexpected_in_words(one), Tone.REFUSED) for one in step.unexpected),
        ),
        late="; ".join(late_in_words(late) for late in step.late),
        invoked_ms=step.invoked_ms,
        completed_ms=step.completed_ms,
    )
