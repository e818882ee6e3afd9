"""Shows what passes through a tap, and what came of it."""

from __future__ import annotations

from typing import Final

from rich.console import Console

from conformance.report.sentences.lists import count
from conformance.tap.request import TapCounts, TapRequest, TapResult

EVERY_S: Final = 10.0
"""The interval of the lines."""
SHOWN_AT_MOST: Final = 20
"""How many topics and subscriptions are listed that are not judged."""


class TapDisplay:
    """Prints a line now and then."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._then: tuple[float, int, int] | None = None

    def listening(self, asked: TapRequest, url: str) -> None:
        """The tap is ready."""
        self.say(f"Clients connect to {url} instead of {asked.service}. Ctrl-C ends the tap. History: {asked.history}")

    def show(self, counts: TapCounts, now_s: float) -> None:
        """Print the rates, if it is time."""
        if self._then is None:
            self._then = now_s, 0, 0
        then_s, sent, received = self._then
        if now_s - then_s < EVERY_S or (sent, received) == (counts.sent, counts.received):
            return
        self._then = now_s, counts.sent, counts.received
        for_s = now_s - then_s
        connections = count(counts.connections, "connection", "connections")
        self.say(
            f"{counts.sent} messages sent ({(counts.sent - sent) / for_s:.0f}/s), {counts.received} dispatched "
            f"({(counts.received - received) / for_s:.0f}/s), {connections}, "
            f"{counts.lagging} commands behind"
        )

    def say(self, line: str) -> None:
        _print(self._console, line)


def show(result: TapResult, asked: TapRequest, console: Console) -> None:
    """Show the result, what is not judged, and the command that verifies the history."""
    counts = result.counts
    _print(
        console,
        f"{'Pulsar ' + result.release + ', ' if result.release else ''}{result.seconds:.0f} s, "
        f"{count(counts.connections, 'connection', 'connections')}, {count(result.topics, 'topic', 'topics')}: "
        f"{counts.sent} messages sent, {counts.received} dispatched"
        + (f", {result.logged} in the logs" if asked.admin is not None else ""),
    )
    if asked.admin is None:
        _print(
            console,
            "Without --admin, the history has neither logs nor cursors: what was lost, stored twice, missed or skipped "
            "is not judged",
        )
    if result.not_judged:
        _print(console, "Not judged as a whole:")
    for (topic, subscription), why in list(result.not_judged.items())[:SHOWN_AT_MOST]:
        _print(console, f"  {topic}{f', subscription {subscription}' if subscription is not None else ''}: {why}")
    if len(result.not_judged) > SHOWN_AT_MOST:
        _print(console, f"  and {len(result.not_judged) - SHOWN_AT_MOST} more")
    _print(console, f"History: {asked.history}, {count(counts.events, 'event', 'events')}. To verify it:")
    _print(console, f"  pulsar-conformance verify {asked.history}")


def _print(console: Console, line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)
