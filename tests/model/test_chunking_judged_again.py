"""A real history of chunked messages, judged again as it was and with one thing changed: each change is noticed.

The history was recorded on 4.0.8 with pulsar-client 3.13.0; what is changed is what a broker or a client that breaks a
rule would have shown.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from conformance.history import document
from conformance.history.document import Step
from model.chunking.vocabulary import (
    Acking,
    AcknowledgeChunked,
    Asking,
    Came,
    ChunkedAsked,
    ChunkedGathered,
    GatherChunked,
    GiveBack,
    Given,
    Life,
    LoggedPart,
    Part,
    PayloadsInterleaved,
    PayloadsSent,
    ReadChunkedBacklog,
    SendInterleaved,
    SendPayloads,
    Stream,
)
from model.judgement import Allowed, Broken
from model.log import Position
from tests.judging_again import judged_again

RECORDED = document.read(Path(__file__).with_name("chunking_recorded.json")).steps
Change = Callable[[Any], Any]


def with_outcome(operation: type[Struct], change: Change, nth: int = 0) -> tuple[Step, ...]:
    """The history with the outcome of an operation changed, the ``nth`` of its kind."""
    at = [number for number, step in enumerate(RECORDED) if isinstance(step.operation, operation)][nth]
    changed = replace(RECORDED[at], outcome=change(RECORDED[at].outcome))
    assert changed != RECORDED[at], "nothing was changed"
    return (*RECORDED[:at], changed, *RECORDED[at + 1 :])


def in_stream(change: Change) -> Change:
    """Change the one consumer's stream."""

    def changed(outcome: ChunkedGathered | ChunkedAsked) -> Struct:
        if isinstance(outcome, ChunkedAsked):
            return replace(outcome, stream=change(outcome.stream))
        return replace(outcome, streams=(change(outcome.streams[0]),))

    return changed


def given(change: Change) -> Change:
    """Change what an application received."""

    def changed(stream: Stream) -> Stream:
        return replace(stream, given=tuple(change(list(stream.given))))

    return in_stream(changed)


def passed(kind: type[Struct], change: Change) -> Change:
    """Change the first thing of a kind that passed, or leave it out where it becomes None."""

    def changed(stream: Stream) -> Stream:
        at = next(number for number, one in enumerate(stream.passed) if isinstance(one, kind))
        one = change(stream.passed[at])
        rest = () if one is None else (one,)
        return replace(stream, passed=(*stream.passed[:at], *rest, *stream.passed[at + 1 :]))

    return in_stream(changed)


def logged(change: Change) -> Change:
    """Change the log that was read."""

    def changed(outcome: ChunkedGathered) -> ChunkedGathered:
        return replace(outcome, log=tuple(change(list(outcome.log))))

    return changed


def lived(change: Callable[[Life], Life]) -> Change:
    """Change the life of the producer that was held up."""

    def changed(outcome: PayloadsInterleaved) -> PayloadsInterleaved:
        life = change(outcome.sent.lives[0])
        return replace(outcome, sent=replace(outcome.sent, lives=(life, *outcome.sent.lives[1:])))

    return changed


def split_at(log: list[LoggedPart]) -> int:
    """The number of the first entry that is a chunk."""
    return next(number for number, entry in enumerate(log) if entry.part.is_chunk)


def other_digest(one: Given | Came) -> Given | Came:
    """With other bytes."""
    return (
        replace(one, part=replace(one.part, digest="0" * 16))
        if isinstance(one, Came)
        else replace(one, digest="0" * 16)
    )


def swapped(items: list[Any]) -> list[Any]:
    """The last two in the other order."""
    return [*items[:-2], items[-1], items[-2]]


def with_chunk(change: Callable[[LoggedPart], LoggedPart]) -> Change:
    """Change the first chunk of the log."""

    def changed(log: list[LoggedPart]) -> list[LoggedPart]:
        at = split_at(log)
        return [*log[:at], change(log[at]), *log[at + 1 :]]

    return logged(changed)


def part_with(life: Life, nth: int, **fields: Any) -> Life:
    """A life with one of its sends changed."""
    sends: list[Part] = list(life.sends)
    sends[nth] = replace(sends[nth], **fields)
    return replace(life, sends=tuple(sends))


CHANGES: dict[str, tuple[type[Struct], Change, str, str]] = {
    "a message is not delivered": (GatherChunked, given(lambda got: got[:-1]), "CHUNK-06", "client"),
    "a message is delivered twice": (GatherChunked, given(lambda got: [*got, got[-1]]), "CHUNK-04", "client"),
    "messages are delivered in another order": (GatherChunked, given(swapped), "CHUNK-05", "client"),
    "other bytes are delivered": (
        GatherChunked,
        given(lambda got: [*got[:-1], other_digest(got[-1])]),
        "CHUNK-04",
        "client",
    ),
    "an entry is not sent": (GatherChunked, passed(Came, lambda _: None), "CHUNK-07", "broker"),
    "other bytes are sent": (GatherChunked, passed(Came, other_digest), "CHUNK-03", "broker"),
    "an entry is lost": (GatherChunked, logged(lambda log: log[1:]), "CHUNK-03", "broker"),
    "entries are stored in another order": (
        GatherChunked,
        logged(lambda log: [*log[:1], replace(log[1], part=log[2].part), replace(log[2], part=log[1].part), *log[3:]]),
        "CHUNK-03",
        "broker",
    ),
    "a chunk is too small": (
        GatherChunked,
        with_chunk(lambda one: replace(one, size_bytes=one.size_bytes - 1)),
        "CHUNK-02",
        "client",
    ),
    "a chunk is not acknowledged": (
        AcknowledgeChunked,
        passed(Acking, lambda one: replace(one, positions=one.positions[:1])),
        "CHUNK-07",
        "client",
    ),
    "too much is acknowledged": (
        AcknowledgeChunked,
        passed(Acking, lambda one: replace(one, positions=(*one.positions, Position(10**6, 0)))),
        "CHUNK-07",
        "client",
    ),
    "nothing is asked for again": (GiveBack, passed(Asking, lambda _: None), "CHUNK-07", "client"),
    "an acknowledgment has no effect": (
        ReadChunkedBacklog,
        lambda read: replace(read, unacknowledged=(RECORDED[5].outcome.log[0].position,)),  # type: ignore[union-attr]
        "CHUNK-07",
        "broker",
    ),
    "a chunk says another total": (
        SendInterleaved,
        lived(lambda life: part_with(life, -1, total_bytes=1)),
        "CHUNK-02",
        "client",
    ),
    "a chunk is left out": (
        SendInterleaved,
        lived(lambda life: replace(life, sends=(*life.sends[:-2], life.sends[-1]))),
        "CHUNK-03",
        "client",
    ),
    "something is confirmed elsewhere": (
        SendInterleaved,
        lived(lambda life: replace(life, receipts=((1, Position(10**6, 0)), *life.receipts[1:]))),
        "CHUNK-03",
        "broker",
    ),
    "what is too large is not refused": (
        SendPayloads,
        lambda sent: PayloadsSent(confirmed=(True,), errors=("",), lives=sent.lives),
        "CHUNK-01",
        "client",
    ),
}


def test_the_history_as_it_was_breaks_nothing() -> None:
    assert isinstance(judged_again(RECORDED), Allowed)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_breaks_its_rule_on_its_side(name: str) -> None:
    operation, change, rule, side = CHANGES[name]
    broken = judged_again(with_outcome(operation, change))
    assert isinstance(broken, Broken)
    assert (broken.rule, broken.side, broken.deviation) == (rule, side, None)
