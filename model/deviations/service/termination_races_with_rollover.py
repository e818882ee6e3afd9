from __future__ import annotations

from dataclasses import replace
from typing import Final

from msgspec import structs

from model.deviation import Deviation, Shadow
from model.deviations.facts import (
    cut_off_in_rollover,
    is_last_ledger_full,
    pasts_since_load,
    tracked,
)
from model.events import Refused
from model.example.judge import judge_step
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.operations import OpenProducer, ReadLog, Terminate, Unload
from model.service.unexpected import Closed, ErrorAnswer, Unexpected
from model.subscription_operations import Subscribe
from model.subscriptions import written

ENTRY = Deviation(
    name="termination-races-with-rollover",
    rule="SERVE-01",
    statement="A topic is terminated while its last ledger, which is full, is being replaced. The termination is answered with an internal error (BadVersionException), again and again, until a client opens the topic; or it succeeds and the managed ledger is fenced soon after, which also closes the consumers, at once or a little later. Then the next client is refused once, because the managed ledger is fenced.",
    cause="ManagedLedgerImpl.asyncTerminate writes the list of ledgers to the metadata store without metadataMutex, with which a rollover writes it. The later of the two writes fails with BadVersion, on which handleBadVersion fences the managed ledger. If that is the rollover's, the sends that waited for the new ledger fail as well, and PersistentTopic.addFailed closes the topic with its consumers, perhaps after the answer to the termination. Otherwise the broker closes the topic and loads it again only after a client was refused.",
    upstream=("apache/pulsar#25858",),
    side="broker",
    releases=(">=3.3.6,<=4.2.4",),
    seen=("4.2.4", "4.0.8", "3.3.6"),
    gone=("2.11.0",),
    occurrence="18 of 40 terminations right after the entry that fills a ledger on 4.0.8, 13 of 40 on 3.3.6, none of 40 on 2.11.0. Of a broker that has run for some minutes 3 of 75; with the failpoint `ledger-list-slow`, which delays the write of the rollover, each time on 3.3.6, 4.0.8 and 4.2.4, and never on 2.11.0.",
    shadow=Shadow(
        name="test_only_a_rollover_excuses_a_fenced_managed_ledger",
        by="small history",
        statement="A topic whose last ledger has room is fenced when it is terminated, or a client of such a topic is refused for good.",
    ),
)


RACES: Final = ("BadVersionException", "ManagedLedgerFencedException", "fenced managed ledger")
"""The errors of a managed ledger, two of whose writes to the metadata store raced."""
Loads = OpenProducer | Subscribe | ReadLog | Unload
"""A client for which the broker loads the topic again, or an unload."""


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case ErrorAnswer(topic=str(topic)) as error if _is_race(error) and _may_be_fenced(state, step, topic):
            return _fenced_in(state, step, topic)
        case Closed(topic=str(topic)) if _is_fenced(state, topic):
            return broken.passing()
        case Closed(topic=str(topic)) if _is_closing(state, step, topic):
            return _fenced_in(state, step, topic)
        case Refused() if isinstance(step.operation, Terminate) and _failed(step, step.operation.topic):
            return broken.passing()
        case _:
            return None


def _fenced_in(state: Example, step: Step, topic: str) -> Judgement:
    """The step if the topic is fenced in it: its clients are closed, and the broker reloads it by itself."""
    others = tuple(
        one for one in step.unexpected if one.topic != topic or not (_is_race(one) or isinstance(one, Closed))
    )
    lost = replace(state, consumption=written.lost(state.consumption, topic))
    return judge_step(lost, structs.replace(step, unexpected=others))


def _may_be_fenced(state: Example, step: Step, topic: str) -> bool:
    """Whether a topic with a full ledger is or was terminated, and not reloaded since."""
    one = tracked(state, topic)
    is_ending = one is not None and (one.is_terminated or step.operation == Terminate(topic)) and not one.is_reopened
    return (is_ending and is_last_ledger_full(state, topic)) or _is_fenced(state, topic)


def _is_fenced(state: Example, topic: str) -> bool:
    """Whether a termination failed so, and no client opened the topic since."""
    for past in state.trace:
        if isinstance(past.step.operation, Loads) and past.step.operation.topic == topic:
            return False
        if isinstance(past.step.operation, Terminate) and _failed(past.step, topic):
            return True
    return False


def _is_closing(state: Example, step: Step, topic: str) -> bool:
    """Whether a topic with a full ledger is terminated, or was, and sends waited for the next ledger. These may fail
    after the answer to the termination."""
    is_now = step.operation == Terminate(topic) and _may_be_fenced(state, step, topic)
    return is_now or any(cut_off_in_rollover(past.before, past.step, topic) for past in pasts_since_load(state, topic))


def _failed(step: Step, topic: str) -> bool:
    return step.operation.topic == topic and any(_is_race(one) and one.topic == topic for one in step.unexpected)


def _is_race(one: Unexpected) -> bool:
    return isinstance(one, ErrorAnswer) and not one.is_last and any(words in one.message for words in RACES)
