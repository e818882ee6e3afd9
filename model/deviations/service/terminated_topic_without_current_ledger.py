from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.facts import is_empty, is_reopened
from model.events import Refused
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.service.reasons import NO_CURRENT_LEDGER, NO_ELEMENT, RESET, SKIP_ENTRIES
from model.service.unexpected import ErrorAnswer
from model.subscription_operations import PeekMessage, ResetCursor, Skip
from model.subscriptions.consumers import SHARED
from model.subscriptions.counts import Starving
from model.subscriptions.state import Consumption
from model.vocabulary import SubscriptionId

ENTRY = Deviation(
    name="terminated-topic-without-current-ledger",
    aliases=("stats-of-terminated-topic-fail",),
    rule="SERVE-01",
    also=("ACK-12", "ACK-13"),
    statement="After a terminated topic is reloaded, requests for its stats or one of its messages, to expire messages up to one, to reset a cursor to a time, or to skip messages of a topic without any are answered with an internal error (500). Once a message of its last ledger is due for redelivery, its Shared or Key_Shared subscription dispatches nothing more.",
    cause='The managed ledger of a terminated topic has no current ledger once it is reloaded. What reads the id of that ledger fails: `Cannot invoke "org.apache.bookkeeper.client.LedgerHandle.getId()" because "currentLedger" is null`. ManagedLedgerImpl.asyncReadEntry does so for a peek and for each entry of a replay read (2.11.0, line 1917), and leaves the dispatcher waiting for that read. To expire up to a message, the broker reads it for the size of its batch. In a topic without ledgers, ManagedLedgerImpl.getPositionAfterN asks an empty map for its last key (2.11.0, line 3310), whose exception has no message. Which method of the stats does so was not looked up. Releases from 3.3.6 and 4.0.4 on make the last ledger the current one (ManagedLedgerImpl.initialize). Read in 2.10.1, 2.10.5, 2.11.0, 3.0.7 and 3.3.5, and in the byte code of 2.5.1 to 2.9.1, 3.2.3 and 4.0.1.',
    upstream=("apache/pulsar#24058",),
    side="broker",
    releases=("<3.3.6", ">=4.0,<4.0.4"),
    seen=("3.3.5", "2.11.0"),
    gone=("3.3.6", "4.0.4", "4.0.8"),
    shadow=Shadow(
        name="test_a_missing_current_ledger_fails_requests_of_a_terminated_topic_only",
        by="small history",
        statement="A request for the stats or for a message fails before the topic is terminated and reloaded, or with another error. A message is not dispatched before any of the last ledger is due for redelivery.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    return broken.passing() if _is_of_it(state, step, broken.evidence) else None


def _is_of_it(state: Example, step: Step, evidence: object) -> bool:
    match evidence:
        case ErrorAnswer(request=request, message=message, topic=topic) if is_reopened(state, topic):
            is_of_nothing = is_empty(state, topic) and (SKIP_ENTRIES in request or RESET in request)
            return bool(NO_CURRENT_LEDGER.search(message)) or (is_of_nothing and message == NO_ELEMENT)
        case Refused():
            return _is_refused(state, step)
        case Starving(then, consumers):
            here = [then.consumers[name] for name in consumers]
            every = [one for consumer in here if consumer.kind in SHARED for one in consumer.subscriptions]
            return any(_is_replay_lost(then, one) for one in every)
        case _:
            return False


def _is_refused(state: Example, step: Step) -> bool:
    match step.operation:
        case PeekMessage(topic) | ResetCursor(topic):
            return is_reopened(state, topic)
        case Skip(topic):
            return is_reopened(state, topic) and is_empty(state, topic)
        case _:
            return False


def _is_replay_lost(then: Consumption, subscription: SubscriptionId) -> bool:
    """Whether a message of the last ledger is due for redelivery, of a terminated topic that was reloaded."""
    topic, due = then.topics[subscription.topic], then.due(subscription)
    return topic.is_reopened and any(
        why != "unloaded" and message[1].position > topic.log.before_last_ledger for message, why in due.items()
    )
