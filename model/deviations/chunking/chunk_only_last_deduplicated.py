from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from model.chunking.variants import DOCUMENT, ChunksVariant
from model.deduplication.topic_observer import WrongAnswer
from model.deviation import Deviation, Shadow
from model.deviations.chunk_logs import ONLY_LAST, explained
from model.deviations.loads import answers_in, sessions_in
from model.deviations.subscriptions import before, judged_from
from model.events import Unknown
from model.example.judge import judge_step
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Allowed, Broken

ENTRY = Deviation(
    name="chunk-only-last-deduplicated",
    aliases=("chunk-last-judged",),
    rule="CHUNK-13",
    statement="With deduplication only the last chunk of a message is deduplicated. The other chunks are stored again whenever they are sent again.",
    cause="MessageDeduplication compares and records an entry only if it is the last chunk of its message (4.0.8, line 447), and does not remember which chunks the log has. If a producer loses its connection between two chunks and sends both again, the log has them twice. If it sends a complete message again, all chunks but the last stay in the backlog of every subscription. Since apache/pulsar#20948; 4.2.4 has the same code.",
    upstream=("apache/pulsar#20948",),
    side="broker",
    releases=(">=3.0.1,<=5.0.1",),
    seen=("5.0.0-M1", "4.0.8", "3.3.6", "5.0.1"),
    gone=("2.11.0",),
    shadow=Shadow(
        name="test_a_confirmed_message_that_no_deviation_lost_is_complete_in_the_log",
        by="small history",
        statement="A later message is confirmed, although the log has only its first chunk.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case WrongAnswer(view, _, entry) if view.enabled and entry.chunk is not None and view.chunks == DOCUMENT:
            judged = judge_step(_treating(state, step, ONLY_LAST), step)
            is_left = isinstance(judged, Broken) and isinstance(judged.evidence, WrongAnswer)
            return None if is_left else judged.then(lambda after: Allowed(_treating(after, step, DOCUMENT)))
        case _:
            return explained(broken, ONLY_LAST, lambda _: set())


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    """Chunks whose answers are missing were stored again, and until the log is read others may be."""
    former = before(state)
    if any(isinstance(answer, Unknown) for answer in answers_in(step)):
        yield from judged_from(_treating(former, step, ONLY_LAST), step)


def _treating(state: Example, step: Step, variant: ChunksVariant) -> Example:
    """The state if brokers treat chunks so on the topics to which those were sent that are judged in a step."""
    for topic in {session.topic for session in sessions_in(state, step)} & state.topics.keys():
        state = state.with_topic(topic, replace(state.topics[topic], chunks=variant))
    return state
