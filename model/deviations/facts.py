"""Facts about a topic that several deviations ask for, from the state and from the steps before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from msgspec import structs

from model.administrator_operations import AtOnce, Concurrent
from model.cluster_operations import LoseCluster
from model.cursors import acked
from model.cursors.acked import Acked
from model.cursors.log import Place
from model.events import AnyOutcome, BothAnswered, Refused, Sent, Skipped, TakenOver, Terminated, Unknown
from model.example.expiry import ages_of
from model.example.readers import PassedOver
from model.example.state import Example, Judgement, Past
from model.example.step import Step
from model.judgement import Broken
from model.log import EARLIEST, Position
from model.operations import (
    CrashProducer,
    CreateTopic,
    FreezeOwner,
    Kill,
    OpenProducer,
    Restart,
    Send,
    StartSource,
    TakeOver,
    Terminate,
    Unload,
)
from model.reader_operations import CloseReader, CutReader, OpenReader, ReaderOperation, SeekReader
from model.service.state import OpenedProducer
from model.service.unexpected import BeyondPermits, Closed, ErrorAnswer
from model.subscription_operations import Subscribe
from model.subscriptions.state import TrackedTopic
from model.vocabulary import SubscriptionType, partition_name

ANY_SIZES: Final = (1, 2)
FAILED: Final = "500"
NO_ELEMENT: Final = "null"
"""The message of an exception that has none."""


def failed(step: Step, broken: Broken, operation: type, path: str) -> tuple[str | None, str] | None:
    """The topic and the message, if an operation of this type was answered with an error, or a request of it to a
    ``path`` that has this part."""
    match broken.evidence:
        case ErrorAnswer(request=request, message=message, topic=topic) if path in request:
            return topic, message
        case Refused(message=message) if isinstance(step.operation, operation):
            return step.operation.topic, message
        case _:
            return None


def failed_beside(step: Step, broken: Broken) -> tuple[Concurrent, Concurrent, AnyOutcome] | None:
    """Of two requests at once, the one that failed with an internal error, the other one, and what that came to."""
    match step.operation, step.outcome:
        case AtOnce(first, second), BothAnswered(of_first, of_second):
            failed = broken.evidence if isinstance(broken.evidence, Refused) else None
            if failed is None or failed.code != FAILED:
                return None
            if failed == of_first:
                return first, second, of_second
            return (second, first, of_first) if failed == of_second else None
        case _:
            return None


def tracked(state: Example, topic: str | None) -> TrackedTopic | None:
    return state.consumption.topics.get(topic or "")


def is_empty(state: Example, topic: str | None) -> bool:
    """Whether a topic has no entries."""
    one = tracked(state, topic)
    return one is not None and not one.log.ledgers


def is_reopened(state: Example, topic: str | None) -> bool:
    """Whether a topic was terminated, and reloaded since."""
    one = tracked(state, topic)
    return one is not None and one.is_reopened


def is_terminated_at_empty_ledger(state: Example, topic: str) -> bool:
    """Whether a topic was terminated while its last ledger was empty."""
    return any(
        past.step.operation == Terminate(topic)
        and isinstance(past.step.outcome, Terminated)
        and past.step.outcome.end.entry < 0
        for past in state.trace
    )


def is_new(state: Example, topic: str | None) -> bool:
    """Whether nothing was done to a topic since it was created."""
    for past in state.trace:
        operation = past.step.operation
        if isinstance(operation, CreateTopic):
            names = {operation.topic, *(partition_name(operation.topic, n) for n in range(operation.partitions))}
            if topic in names:
                return True
        elif operation.topic == topic and not isinstance(past.step.outcome, Skipped):
            return False
    return False


def is_reloaded_by(past: Past, topic: str) -> bool:
    """Whether a step reloaded a topic."""
    if isinstance(past.step.outcome, Skipped):
        return False
    match past.step.operation:
        case Unload(name):
            return name == topic
        case TakeOver() | FreezeOwner():
            return isinstance(past.step.outcome, TakenOver) and topic in past.step.outcome.topics
        case Restart() | Kill():
            return True
        case Send(session):
            is_unloaded = isinstance(past.step.outcome, Sent) and past.step.outcome.is_unloaded
            return is_unloaded and past.before.sessions[session].topic == topic
        case _:
            return False


def is_unloaded(state: Example, topic: str) -> bool:
    """Whether nobody has loaded a topic since it was unloaded: requests for its whole namespace load none."""
    for past in state.trace:
        if is_reloaded_by(past, topic):
            return True
        if getattr(past.step.operation, "scope", "topic") == "topic":
            return False
    return False


def is_current_ledger_empty(state: Example, topic: str | None) -> bool:
    """Whether a topic has no entries, or was sent none since it was reloaded."""
    return topic is not None and (is_empty(state, topic) or _is_reloaded_since_send(state, topic))


def _is_reloaded_since_send(state: Example, topic: str) -> bool:
    for past in state.trace:
        match past.step.operation:
            case Send(session):
                producer = past.before.service.producers.get(session)
                if producer is not None and producer.topic == topic:
                    return False
            case StartSource(topic=name) if name == topic:
                return False
            case _ if is_reloaded_by(past, topic):
                return True
            case _:
                pass
    return False


def batch_sizes(state: Example, step: Step, topic: str | None) -> tuple[int, ...]:
    """How many messages each entry of a topic has, those of this step among them; if they are not known for sure, of
    different sizes."""
    one = tracked(state, topic)
    if one is None or not one.is_sure:
        return ANY_SIZES
    log = state.consumption.log(topic or "")
    sent = step.operation.entries if isinstance(step.operation, Send) else ()
    return (*(log.size(position) for position in log.all_after(EARLIEST)), *(len(entry.messages) for entry in sent))


def sent_beyond_permits(state: Example, step: Step, broken: Broken) -> tuple[SubscriptionType, tuple[int, ...]] | None:
    """The type of a subscription, and how many messages each entry of its topic has, if a consumer was sent messages
    beyond its permits, and no more entries than these."""
    match broken.evidence:
        case BeyondPermits(actor, entries=entries, topic=topic) if entries > 0:
            request = subscribed_by(state, actor)
            return None if request is None else (request.kind, batch_sizes(state, step, topic))
        case _:
            return None


def subscribed_by(state: Example, consumer: str) -> Subscribe | None:
    """The last request of a consumer to subscribe, also if it is not tracked any more because the log is unknown."""
    operations = (past.step.operation for past in state.trace)
    return next((one for one in operations if isinstance(one, Subscribe) and one.consumer == consumer), None)


def opened_by(state: Example, session: str) -> OpenProducer | None:
    """The last request of a session to open its producer."""
    operations = (past.step.operation for past in state.trace)
    return next((one for one in operations if isinstance(one, OpenProducer) and one.session == session), None)


def library_in(state: Example, step: Step, broken: Broken | None = None) -> str | None:
    """The released client that a step, or what it breaks, is about; None if it is not known, or not the only one."""
    operation, evidence = step.operation, None if broken is None else broken.evidence
    of_operation: str | None = getattr(operation, "library", None)
    of_evidence: str | None = getattr(evidence, "consumer", None)
    if of_operation is not None:
        return of_operation
    names = [of_evidence or operation.actor, *(one.session for one in step.late)]
    found = [subscribed_by(state, one) or opened_by(state, one) for one in names if one is not None]
    libraries = {one.library for one in found if one is not None}
    return libraries.pop() if len(libraries) == 1 else None


def is_by(state: Example, step: Step, client: str, broken: Broken | None = None) -> bool:
    """Whether a step, or what it breaks, is of a released client of this name, such as ``go``."""
    return (library_in(state, step, broken) or "").partition(":")[0] == client


def by_java(step: Step) -> Step:
    """The step, which opens a producer, by another client."""
    assert isinstance(step.operation, OpenProducer)
    return structs.replace(step, operation=structs.replace(step.operation, library="java:4.0.8"))


def is_last_ledger_full(state: Example, topic: str | None) -> bool:
    """Whether the last ledger of a topic is full, or may be."""
    one = tracked(state, topic)
    return one is not None and (one.log.ends_full or not one.is_sure)


def cut_off_by(state: Example, step: Step, topic: str) -> frozenset[str]:
    """The producers of a topic some of whose unanswered sends a step left without a confirmation."""
    late = ((state.sessions[one.session], one.answers) for one in step.late)
    left = [one for one, answers in late if any(isinstance(each, Refused | Unknown) for each in answers)]
    return frozenset(one.producer for one in left if one.topic == topic)


def cut_off_in_rollover(state: Example, step: Step, topic: str) -> frozenset[str]:
    """The producers of a topic some of whose sends waited for its next ledger when a step terminated it."""
    return cut_off_by(state, step, topic) if ends_in_full_ledger(state, step, topic) else frozenset()


def ends_in_full_ledger(state: Example, step: Step, topic: str) -> bool:
    """Whether a step terminated a topic at the last entry of a ledger, which no reload has replaced since."""
    if step.operation != Terminate(topic) or not isinstance(step.outcome, Terminated):
        return False
    room = state.topics[topic].ledger_room
    is_full = room is not None and step.outcome.end.entry + 1 >= room
    return is_full and not _is_reloaded_since_send(state, topic)


def contention_forgotten(state: Example, topic: str) -> Example:
    """The state if it is not known any more which producers of a topic have access."""
    contentions = state.service.contentions
    after = contentions.set(topic, state.service.contention(topic).forgotten())
    return replace(state, service=replace(state.service, contentions=after))


def pasts_since_load(state: Example, topic: str) -> Iterator[Past]:
    """The steps since a topic was loaded, the last one first."""
    for past in state.trace:
        if is_reloaded_by(past, topic):
            return
        yield past


def left_queue(past: Past, topic: str) -> str | None:
    """The session that waited for exclusive access to a topic, and left or asked again in a step."""
    actor = past.step.operation.actor
    waited = actor is not None and actor in _queue(past, topic) and not isinstance(past.step.outcome, Skipped)
    return actor if waited else None


def place_at_reload(state: Example, topic: str, session: str) -> int | None:
    """A session's place in the queue for exclusive access when its topic was reloaded; None: it did not wait then.

    The broker keeps the places of those that left the queue before (closed-producer-stays-queued).
    """
    place: int | None = None
    for past in state.trace:
        queue = _queue(past, topic)
        if place is not None:
            if is_reloaded_by(past, topic):
                break
            left = left_queue(past, topic)
            if left is not None and (session not in queue or queue.index(left) <= queue.index(session)):
                place += 1
        elif session in queue:
            if not is_reloaded_by(past, topic):
                return None
            place = queue.index(session)
    return place


def _queue(past: Past, topic: str) -> list[str]:
    return [one.session for one in past.before.service.contention(topic).waiting]


def reconnects(state: Example, step: Step) -> bool:
    """Whether a producer opens whose former connection ended, which the broker may not have noticed yet."""
    if not isinstance(step.operation, OpenProducer):
        return False
    opens = step.operation
    for past in state.trace:
        before, after = (_sessions_of(one, opens) for one in (past.before, past.after))
        if gone := before.keys() - after.keys():
            return any(before[name].is_wire and _is_cut_by(past.step, name) for name in gone)
        if after.keys() - before.keys() or is_reloaded_by(past, opens.topic):
            return False
    return False


def _sessions_of(state: Example, opens: OpenProducer) -> dict[str, OpenedProducer]:
    same = opens.topic, opens.cluster, opens.producer
    producers = state.service.producers.items()
    return {name: one for name, one in producers if (one.topic, one.cluster, one.name) == same}


def _is_cut_by(step: Step, session: str) -> bool:
    """Whether a step ended the connection of a session, and not the session."""
    is_closed = any(isinstance(one, Closed) and one.actor == session for one in step.unexpected)
    match step.operation:
        case CrashProducer():
            return True
        case LoseCluster(how=how):
            return how != "kill"
        case _:
            return is_closed


def passed_over_by_expiry(
    state: Example, step: Step, broken: Broken, seconds_of: Callable[[Past, str], int | None]
) -> Judgement | None:
    """What a step comes to if all that a reader passes over may have expired on its cursor since it connected.

    ``seconds_of``: how old messages had to be that expired in a step.
    """
    match broken.evidence:
        case PassedOver(reader, places):
            last = _expired_of_reader(state, step, reader, seconds_of)
            return broken.passing() if last is not None and all(one.position <= last for one in places) else None
        case _:
            return None


def _expired_of_reader(
    state: Example, step: Step, reader: str, seconds_of: Callable[[Past, str], int | None]
) -> Position | None:
    """The last entry that may have expired on the cursor of a reader since it connected."""
    topic, last, so_far = state.readers[reader].topic, EARLIEST, EARLIEST
    for past in (Past(state, step, state), *state.trace):
        operation = past.step.operation
        is_its_own = isinstance(operation, ReaderOperation) and operation.reader == reader
        if is_its_own and isinstance(operation, CutReader | CloseReader):
            break
        if (seconds := seconds_of(past, topic)) is not None:
            ages, log = ages_of(past.before, topic, past.step.at), past.before.consumption.log(topic)
            older = (at for at in log.all_after(EARLIEST) if ages.may_be_older(log.entries[at], seconds))
            so_far = max(so_far, *older, EARLIEST)
        if is_reloaded_by(past, topic):
            break
        if is_its_own and past.step is not step:  # it was connected then
            last = so_far
        if is_its_own and isinstance(operation, OpenReader | SeekReader):
            break
    return None if last == EARLIEST else last


def with_non_durable_expired(state: Example, step: Step, topic: str, seconds: int) -> Iterator[Example]:
    """The same, after the older messages of the topic's non-durable subscriptions expired, too; nothing if it has no
    such subscription."""
    ages, consumption = ages_of(state, topic, step.at), state.consumption
    for subscription, cursor in consumption.cursors.items():
        if subscription.topic == topic and not cursor.durable:
            log = consumption.log(topic)

            def moved(one: Acked) -> Acked:
                last = ages.perhaps_up_to([one], log, seconds)  # noqa: B023 - called at once
                return one if last is None else acked.acknowledge_up_to(one, log, Place(last))  # noqa: B023

            possible = frozenset(map(moved, cursor.possible))
            consumption = consumption.with_cursor(subscription, replace(cursor, possible=possible))
    if consumption is not state.consumption:
        yield replace(state, consumption=consumption)
