from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from model.deviation import Deviation, Shadow
from model.deviations.facts import cut_off_in_rollover, ends_in_full_ledger
from model.events import Terminated
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.operations import Terminate
from model.service.confirmed import AfterTheEnd
from model.subscriptions import written

ENTRY = Deviation(
    name="rollover-reopens-terminated-topic",
    rule="SERVE-12",
    statement="A topic is terminated while its full ledger is being replaced. The broker closes the producers and answers the termination, but the managed ledger becomes writable again: it stores the waiting sends after the end, consumers receive them, and producers are admitted again.",
    cause="ManagedLedgerImpl.asyncTerminate does not wait for a rollover. The rollover's callback updateLedgersIdsComplete then sets the state from Terminated to LedgerOpened, and writes all pending entries to the new ledger. Read in the byte code of 4.0.8; that of 3.3.6, 4.2.4 and 5.0.1 is the same.",
    upstream=("apache/pulsar#25858", "apache/pulsar#26680"),
    side="broker",
    releases=(">=3.3.6,<=4.0.8",),
    seen=("4.0.8", "3.3.6"),
    occurrence="In 11 of 30 replays on 4.0.8, in 1 of 4 on 3.3.6. Not seen in 16 each on 4.2.4 and 5.0.1.",
    shadow=Shadow(
        name="test_only_a_rollover_reopens_a_terminated_topic",
        by="small history",
        statement="A topic whose last ledger has room has an entry after its end, or one that was reloaded since its last entry.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    """Sends that waited for the next ledger are confirmed there before the broker has closed their producer."""
    match broken.evidence, step.operation, step.outcome:
        case AfterTheEnd(topic, positions), Terminate(), Terminated(end) if positions:
            is_next = ends_in_full_ledger(state, step, topic) and all(end.ledger < one.ledger for one in positions)
            return broken.passing() if is_next else None
        case _:
            return None


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    if not isinstance(step.operation, Terminate):
        return
    topic = step.operation.topic
    if producers := cut_off_in_rollover(state, step, topic):
        consumption = written.lost(state.consumption, topic)  # waiting sends may be stored at any time
        tracked = replace(consumption.topics[topic], in_doubt=producers)
        after = replace(state, consumption=consumption.with_topic(topic, tracked))
        yield after.with_confirmed(topic, lambda log: replace(log, end=None))
    elif ends_in_full_ledger(state, step, topic):  # no send waits
        yield state.with_confirmed(topic, lambda log: replace(log, end=None))
