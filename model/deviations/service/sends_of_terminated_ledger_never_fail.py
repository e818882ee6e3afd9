from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.facts import cut_off_by, pasts_since_load
from model.events import Refused
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.operations import Terminate
from model.service.unexpected import ErrorAnswer

ENTRY = Deviation(
    name="sends-of-terminated-ledger-never-fail",
    rule="SERVE-12",
    statement="A topic is terminated during sends. From then on it refuses each client with ServiceNotReady (Topic is temporarily unavailable), until it is reloaded.",
    cause="asyncTerminate closes the current ledger, which fails its writes in flight. ManagedLedgerImpl.ledgerClosed returns in the state Terminated without failing their OpAddEntry, so PersistentTopic.pendingWriteOps never returns to 0. A write after that fails with ManagedLedgerTerminatedException and fences the topic, which is only unfenced when no write is pending. ledgerClosed was read in the byte code of 4.0.8 and 4.2.4; that of 5.0.1 fails them. The rest is the analysis of apache/pulsar#26678.",
    upstream=("apache/pulsar#26678",),
    side="broker",
    releases=(">=3.3.6,<=4.2.4",),
    seen=("4.2.4", "4.0.8", "3.3.6"),
    gone=("5.0.1",),
    occurrence="In 1 of 60 replays on 4.0.8, in 1 of 4 each on 4.2.4 and 3.3.6.",
    also=("SERVE-01",),
    shadow=Shadow(
        name="test_only_unanswered_sends_fence_a_terminated_topic",
        by="small history",
        statement="A client of a terminated topic is refused although no send was unanswered, or after the topic was reloaded.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case Refused(code="ServiceNotReady"):
            topic = step.operation.topic
        case ErrorAnswer(code="ServiceNotReady", topic=topic):
            pass
        case _:
            return None
    return broken.passing() if topic is not None and _has_pending_writes(state, topic) else None


def _has_pending_writes(state: Example, topic: str) -> bool:
    return any(
        past.step.operation == Terminate(topic) and cut_off_by(past.before, past.step, topic)
        for past in pasts_since_load(state, topic)
    )
