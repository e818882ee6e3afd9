"""Shows the progress of a soak and its result: a live display on a terminal, plain lines elsewhere.

*Anomalies* are visible without the whole history: damaged messages, confirmed positions that do not rise, subscriptions
without progress. ``verify`` finds all others.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from conformance.report.sentences.lists import count
from conformance.soak.request import SoakProgress, SoakRequest, SoakResult, SoakStage
from conformance.workers.protocol import Counts

PLAIN_EVERY_S = 30.0
"""The interval of the lines of a plain display, in seconds."""

RATE_OVER_S = 5.0
"""The time over which rates are computed, in seconds."""


class SoakDisplay:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, transient=True, auto_refresh=False) if console.is_terminal else None
        self._rates = _Rates()
        self._stage: SoakStage | None = None
        self._said_s = float("-inf")

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, state: SoakProgress) -> None:
        rates = self._rates.with_(state)
        now_s = time.monotonic()
        if self._live is not None:
            self._live.update(_picture(state, rates), refresh=True)
        elif state.stage is not self._stage or now_s - self._said_s >= PLAIN_EVERY_S:
            self.say(": ".join((state.stage.value, ", ".join(_lines(state, rates)))), now_s)
        self._stage = state.stage

    def say(self, line: str, now_s: float) -> None:
        """Print a line that stays on the screen."""
        self._said_s = now_s
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def display(console: Console) -> SoakDisplay:
    return SoakDisplay(console)


class _Rates:
    def __init__(self) -> None:
        self._then: tuple[float, Counts] | None = None
        self._latest = (0.0, 0.0)

    def with_(self, state: SoakProgress) -> tuple[float, float]:
        """Messages sent and received a second."""
        now_s = time.monotonic()
        if self._then is None or state.elapsed_s < 0:
            self._then = now_s, state.counts
        since_s, counts = self._then
        if now_s - since_s >= RATE_OVER_S:
            sent, received = state.counts.sent - counts.sent, state.counts.received - counts.received
            self._latest = sent / (now_s - since_s), received / (now_s - since_s)
            self._then = now_s, state.counts
        return self._latest


def anomalies(counts: Counts, recovered: int = 0, stuck: int = 0) -> str:
    """The anomalies in words."""
    numbers = {
        "damaged": counts.damaged,
        "positions that do not rise": counts.backwards,
        "subscriptions that made no progress by themselves": recovered,
        "stuck": stuck,
    }
    return _listed(numbers) or "none"


def _listed(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in numbers.items() if number)


def _lines(state: SoakProgress, rates: tuple[float, float]) -> list[str]:
    counts = state.counts
    sent, received = rates
    lines = [
        f"{_time(state.elapsed_s)} of {_time(state.length_s)}",
        f"{counts.sent} messages sent ({sent:.0f}/s), {counts.received} received ({received:.0f}/s)",
        f"{counts.duplicates} duplicates, {counts.unanswered} unanswered, {counts.redelivered} redelivered",
        f"faults: {_listed(state.faults) or 'none'}" + (f" (now: {state.fault})" if state.fault else ""),
        f"anomalies: {anomalies(counts)}",
    ]
    if state.stage is SoakStage.QUIESCE:
        lines.append(f"{state.left} entries left, {counts.waiting} sends unanswered")
    return lines


def _picture(state: SoakProgress, rates: tuple[float, float]) -> RenderableType:
    head = Spinner("dots", text=Text(f" {state.stage.value}", style="bold"))
    return Group(head, *(Text(f"  {line}") for line in _lines(state, rates)))


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"


def show(result: SoakResult, asked: SoakRequest, console: Console) -> None:
    """Show the result, and the command that verifies the history."""
    counts, quiesced = result.counts, result.quiesced
    sent_per_s = counts.sent / result.seconds if result.seconds else 0.0
    lines = [
        f"Pulsar {result.release}, seed {asked.seed}, {_time(result.seconds)} of load, "
        f"{count(asked.clients, 'client', 'clients')}, {count(asked.topics, 'topic', 'topics')}",
        f"Sent {counts.sent} ({sent_per_s:.0f}/s): {counts.confirmed} stored, {counts.duplicates} duplicates, "
        f"{counts.unanswered} unanswered; {result.logged} in the logs",
        f"Received {counts.received}, {counts.redelivered} of them again; {counts.acknowledged} acknowledged, "
        f"{counts.nacked} nacked",
        f"Faults: {_listed(result.faults) or 'none'}; {counts.reopened} producers and consumers reconnected",
        f"Anomalies seen: {anomalies(counts, len(quiesced.helped), len(quiesced.stuck))}",
    ]
    for (topic, subscription), how in quiesced.helped:
        lines.append(f"  {subscription} of {topic} made no progress until {how}")
    for (topic, subscription), left in quiesced.stuck:
        lines.append(
            f"  {subscription} of {topic} is stuck: {count(len(left), 'entry', 'entries')} from {min(left)} on"
        )
    lines.append(f"History: {asked.history}, {count(result.events, 'event', 'events')}. To verify it:")
    lines.append(f"  pulsar-conformance verify {asked.history}")
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
