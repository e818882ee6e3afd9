from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.facts import is_empty, is_reopened, is_terminated_at_empty_ledger, tracked
from model.events import Refused
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.reader_operations import OpenReader
from model.service.unexpected import Silence
from model.subscription_operations import CreateSubscription, Subscribe

ENTRY = Deviation(
    name="terminated-empty-topic-refuses-subscriptions",
    rule="SERVE-01",
    statement="After a topic without messages, or without any that are kept, was terminated and reloaded, a reader or a consumer of a new subscription is refused with UnknownError or not answered, and a request to create one is not answered.",
    cause="Such a topic has no ledger. PersistentTopic.getDurableSubscription opens a cursor, for which ManagedLedgerImpl.getFirstPosition asks an empty map for its first key (4.0.8, line 3984). Nothing completes the request of the admin API after that exception, which has no message.",
    side="broker",
    releases=(">=2.7.4,<=5.0.1",),
    seen=("4.0.8", "3.3.6", "4.2.4", "5.0.0-M1", "4.0.4", "2.11.0", "2.10.1", "2.7.4", "5.0.1"),
    occurrence="Every time, in 4 steps. Until 2.11.0 the consumer is not answered, and from 3.3.6 on refused.",
    shadow=Shadow(
        name="test_new_subscriptions_are_refused_only_on_a_terminated_topic_without_messages",
        by="small history",
        statement="A consumer is refused so on a topic that has a message, or that was not terminated, or not reloaded.",
    ),
)


NEW_SUBSCRIPTIONS = (CreateSubscription.__name__, Subscribe.__name__)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case Silence(request=request, topic=topic) if request.startswith(NEW_SUBSCRIPTIONS):
            pass
        case Refused(message="") if isinstance(step.operation, Subscribe | OpenReader):
            topic = step.operation.topic
        case _:
            return None
    return broken.passing() if is_reopened(state, topic) and _may_have_no_ledger(state, topic) else None


def _may_have_no_ledger(state: Example, topic: str | None) -> bool:
    """Whether a topic has no entries, or none of them had to be kept when its last ledger was empty."""
    if is_empty(state, topic):
        return True
    one = tracked(state, topic)
    if one is None or topic is None or not one.is_trimmed or not is_terminated_at_empty_ledger(state, topic):
        return False
    cursors = (cursor for (on, _), cursor in state.consumption.cursors.items() if on == topic and cursor.durable)
    return all(any(not tuple(each.unacknowledged(one.log)) for each in cursor.possible) for cursor in cursors)
