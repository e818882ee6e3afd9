from __future__ import annotations

from collections.abc import Iterator

from model.deviation import Deviation, Shadow
from model.deviations.loads import may_recover_twice
from model.deviations.purges import forgetting
from model.events import Opened
from model.example.state import Example, Past
from model.example.step import Step
from model.operations import CloseProducer, CrashProducer, OpenProducer

ENTRY = Deviation(
    name="second-recovery-counts-as-leave",
    rule="DEDUP-20",
    statement="A producer opens while a topic with its own policy is loaded. Once the time of inactivity has passed since then, the broker forgets it while it is connected. What it sends again is stored again.",
    cause="Such a topic starts two recoveries (second-recovery-not-awaited). MessageDeduplication.replayCursor calls producerRemoved for each producer that it finds, which has no effect while recovering. One of the two recoveries has enabled deduplication when the other applies its entries, so those producers go into inactiveProducers, also one whose producerAdded came before. Read in the byte code of 4.0.8 and 4.2.4. Since 5.0.0-M1 the status is Recovering, so there is one recovery.",
    upstream=("apache/pulsar#25954",),
    side="broker",
    releases=(">=3.3.6,<=4.2.4",),
    seen=("4.0.8", "3.3.6"),
    gone=("5.0.1",),
    read=("4.2.4",),
    occurrence="In 1 of 10 replays; with the failpoint `replay-slow` in 2 of 10.",
    shadow=Shadow(
        name="test_a_second_recovery_counts_only_for_producers_that_open_during_it",
        by="small history",
        statement="A connected producer is forgotten that opened after the recovery was over, or on a topic without its own policy.",
    ),
)


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    """Producers are forgotten that opened while a second recovery may have been under way."""
    return forgetting(state, step, _opened_in_recovery)


def _opened_in_recovery(past: Past, topic: str) -> dict[str, bool]:
    match past.step.operation, past.step.outcome:
        case OpenProducer(topic=at, producer=producer), Opened() if at == topic:
            return {producer: may_recover_twice(past.before, past.step, topic)}
        case ((CloseProducer(session) | CrashProducer(session)), _):
            left = past.before.sessions.get(session)
            return {left.producer: False} if left is not None and left.topic == topic else {}
        case _:
            return {}
