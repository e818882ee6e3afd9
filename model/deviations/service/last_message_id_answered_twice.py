from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from model.deviation import Deviation, Shadow
from model.deviations.facts import is_empty
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.service.unexpected import ANSWERED, ErrorAnswer

ENTRY = Deviation(
    name="last-message-id-answered-twice",
    rule="SERVE-01",
    statement="A request for the last message id of a topic without messages is answered twice: with the id, and with an internal error (MetadataError, Failed to get batch size).",
    cause="ServerCnx.getLargestBatchIndexWhenPossible answers if there is no entry, but does not return: it reads the entry all the same, and answers again when that fails (2.5.1 and 2.6.0, lines 1428 to 1462 and 1477 to 1511). 2.7.4 returns.",
    side="broker",
    releases=(">=2.5.1,<2.7.4",),
    seen=("2.6.0", "2.5.1"),
    gone=("2.7.4", "4.0.8"),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_only_the_last_message_id_of_a_topic_without_entries_is_answered_twice_by_a_deviation",
        by="small history",
        statement="The last message id of a topic with entries is answered twice, or with an error first, or another request is answered twice.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case ErrorAnswer(request=request, message=message, topic=topic) if ANSWERED in request:
            is_of_last_id = request.startswith("the last message id of") and "Failed to get batch size" in message
            return broken.passing() if is_of_last_id and is_empty(state, topic) else None
        case _:
            return None


def shadows(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    """Another request is answered twice, or this one with another error."""
    *before, last = steps
    (error,) = last.unexpected
    assert isinstance(error, ErrorAnswer)
    for other in (replace(error, request=f"another request {ANSWERED}"), replace(error, message="another reason")):
        yield (*before, replace(last, unexpected=(other,)))
