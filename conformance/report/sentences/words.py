"""A history in words: who did what, and what came of it, as numbered sentences that a person can follow.

The terminal, the HTML page and the JUnit file all tell a history through this module. It describes, in the terms of the
documents; whether something was right is not its business.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from conformance.history.document import History, Step
from conformance.report.sentences.actions import who_did_what
from conformance.report.sentences.participants import BROKER, SUITE, Participants
from conformance.report.sentences.results import Result, Tone, results, told_late, unexpected_in_words


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """One step, told: ``actor`` did ``did``, and ``results`` came of it.

    ``late`` tells what arrived before it, for earlier operations whose answers nobody awaited. ``subject`` is who the
    actor is, for a sentence of its own; a lane that is headed by the actor needs only ``did``.
    """

    step: int
    actor: str
    subject: str
    did: str
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
        return f"{self.step}. {self.subject} {self.did}{': ' if came else ''}{came}.{late}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Steps in the middle of a history that is too long to be told whole: from one number to another."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"… {self.last - self.first + 1} steps, {self.first} to {self.last}, are left out …"


def explain(history: History) -> tuple[Telling, ...]:
    """Tell every step of a history, in its order."""
    participants = Participants()
    told = []
    for number, step in enumerate(history.steps, start=1):
        participants.meet(step.operation)
        told.append(_telling(number, step, participants))
    return tuple(told)


def cut(tellings: Sequence[Telling], *, at_most: int) -> tuple[Telling | LeftOut, ...]:
    """Keep a telling within ``at_most`` steps: a third of them from the beginning, the rest from the end."""
    if len(tellings) <= at_most:
        return tuple(tellings)
    head = at_most // 3
    tail = at_most - head
    gap = LeftOut(first=tellings[head].step, last=tellings[-tail].step - 1)
    return (*tellings[:head], gap, *tellings[-tail:])


def actors(tellings: Iterable[Telling | LeftOut]) -> tuple[str, ...]:
    """Everyone who acts, sessions first and in the order of their first act, then the broker and the suite."""
    seen = dict.fromkeys(telling.actor for telling in tellings if isinstance(telling, Telling))
    last = [actor for actor in (BROKER, SUITE) if actor in seen]
    return (*(actor for actor in seen if actor not in last), *last)


def _telling(number: int, step: Step, participants: Participants) -> Telling:
    actor, subject, did = who_did_what(step.operation, participants)
    return Telling(
        step=number,
        actor=actor,
        subject=subject,
        did=did,
        results=(
            *results(step.operation, step.outcome),
            *(Result(unexpected_in_words(one), Tone.REFUSED) for one in step.unexpected),
        ),
        late="; ".join(told_late(late) for late in step.late),
        invoked_ms=step.invoked_ms,
        completed_ms=step.completed_ms,
    )
