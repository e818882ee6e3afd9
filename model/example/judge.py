"""Judges one example, operation by operation: the state of all its topics and sessions.

This is the entry point of the model. :func:`judge` takes the state, an operation, its outcome and the late answers, and
returns the next state or the broken rule. It is pure, so a stored history is judged again with the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from model.administrator_operations import AdministratorRequest
from model.applications import tracker as applications_tracker
from model.chunking import tracker as chunking_tracker
from model.chunking.state import Chunking
from model.cluster_operations import HOME, ReplicationOperation
from model.cursors.cursor import Persisting
from model.cursors.ledger import Interval
from model.deduplication import account, observer, policies, snapshots, topic_observer
from model.deduplication.due import DueSnapshots
from model.deduplication.producer_state import NONE, Circumstances
from model.deduplication.topic_observer import TopicView
from model.events import (
    Abandoned,
    Answer,
    AnyOutcome,
    Cleared,
    Created,
    CursorRead,
    DeduplicationSet,
    Late,
    LogRead,
    NetworkFaultsCleared,
    Opened,
    PolicyIgnored,
    Refused,
    Sent,
    Skipped,
    SnapshotRead,
    Stored,
)
from model.example import deployment, elsewhere, expiry, holes, producers, readers, reads, replica
from model.example.remote import Remote
from model.example.state import Example, Judgement
from model.example.step import Step
from model.example.unexpected import failed_again
from model.example.unexpected import judge as judge_unexpected
from model.example.waits import in_time
from model.expiry_operations import ExpiryRequest
from model.failpoints import CUTS, RACES, WRITE_FAILURES, FailpointKind
from model.hole_operations import HoleOperation
from model.judgement import Allowed, Broken, in_turn
from model.operations import (
    AnyOperation,
    ApplicationOperation,
    ClearFailpoints,
    ClearNetworkFaults,
    CloseProducer,
    CrashProducer,
    CreateTopic,
    DeploymentOperation,
    FreezeOwner,
    InjectNetworkFault,
    Kill,
    NetworkOperation,
    OnSubscriptions,
    OnTopics,
    OpenProducer,
    ReadChunkRate,
    ReadLog,
    ReadSnapshot,
    Restart,
    Send,
    SetDeduplication,
    SetFailpoint,
    StartSource,
    TakeOver,
    Terminate,
    Unload,
    UseProxy,
)
from model.policy_operations import PolicyRequest, SetPolicy
from model.producer_operations import AwaitProducers, PurgeProducers
from model.read_operations import ReadRequest
from model.reader_operations import ReaderOperation
from model.replication import tracker as replication
from model.service import access, confirmed
from model.service import policies as limits_by_policy
from model.service import tracker as service
from model.service.levels import Policy
from model.service.unexpected import Unexpected
from model.sessions import Pending, Session, session_of
from model.subscription_operations import ReceiveAll, ReceiveDue
from model.subscriptions import membership, watched, written
from model.subscriptions import tracker as subscriptions
from model.subscriptions.state import Consumption
from model.vocabulary import Limits, LookAhead

NO_TIME = Interval(0.0, 0.0)
"""For histories without times: everything happens at once."""


def judge(
    state: Example,
    operation: AnyOperation,
    outcome: AnyOutcome,
    late: tuple[Late, ...] = (),
    at: Interval = NO_TIME,
    unexpected: tuple[Unexpected, ...] = (),
) -> Judgement:
    """The states that are possible after this operation and outcome. Late answers are judged first.

    ``at``: when it was performed; without it, no time passes. ``unexpected``: what else the broker did.
    """
    if elsewhere.concerns(state, operation):
        return in_time(outcome, elsewhere.judge(state, operation, outcome))
    # An unload or a termination fails the writes in flight. They were not confirmed, and the client may resend them.
    may_fail = isinstance(operation, Unload | Restart | Kill | TakeOver | FreezeOwner | Terminate)
    steps: list[Callable[[Example], Judgement]] = [lambda before: judge_unexpected(before, operation, unexpected)]
    steps.append(lambda before: Allowed(producers.interrupted(before, operation, late)))
    if not isinstance(outcome, Abandoned):
        steps += [_late_step(answers, may_fail=may_fail) for answers in late]
        failed = failed_again(state, unexpected)
        steps.append(lambda before: Allowed(before.with_lingering(failed)))
        steps.append(lambda before: in_time(outcome, _served(before, operation, outcome)))
        steps.append(lambda before: in_time(outcome, _judge_one(before, operation, outcome, at)))
        steps.append(lambda before: Allowed(replace(before, consumption=replica.advanced(before.consumption))))
        steps.append(lambda before: Allowed(elsewhere.read_at_home(before, operation, outcome)))
        if not _only_looks(operation, outcome):
            steps.append(lambda before: Allowed(replace(before, consumption=membership.stirred(before.consumption))))
        if isinstance(operation, Restart):
            steps.append(lambda before: in_time(outcome, _setting_changed(before, outcome)))
    is_disturbed = bool(unexpected) or isinstance(outcome, Abandoned)
    steps.append(lambda before: Allowed(producers.disconnected(before, operation, is_disturbed=is_disturbed)))
    return in_turn(expiry.passed_time(deployment.with_store(state, at), at), steps)


def judge_step(state: Example, step: Step) -> Judgement:
    """The same for a step of a history."""
    return judge(state, step.operation, step.outcome, step.late, step.at, step.unexpected)


def _only_looks(operation: AnyOperation, outcome: AnyOutcome) -> bool:
    """Whether the operation changed no subscription, and everything in flight was received."""
    has_arrived = isinstance(outcome, CursorRead) and any(one.messages for one in outcome.arrived)
    is_look = isinstance(
        operation, ReceiveDue | ReadRequest | ReaderOperation | HoleOperation | AwaitProducers | PolicyRequest
    )
    return is_look or (isinstance(outcome, CursorRead) and not has_arrived)


def _served(state: Example, operation: AnyOperation, outcome: AnyOutcome) -> Judgement:
    if isinstance(operation, ReadRequest) and isinstance(outcome, Refused):
        return Allowed(state)  # judged as its answer
    is_disturbed = bool(state.is_disturbed or state.failpoints or state.lingering or state.service.is_short_of_bookies)
    judged = service.served(state.service, state.consumption, operation, outcome, is_certain=not is_disturbed)
    return judged.then(lambda after: Allowed(replace(state, service=after)))


def _late_step(late: Late, *, may_fail: bool) -> Callable[[Example], Judgement]:
    def step(state: Example) -> Judgement:
        session = state.sessions[late.session]
        pending, rest = session.pending[0], session.pending[1:]
        after = replace(session, pending=rest)
        after = account.confirmed(after, pending.entries, late.answers, is_alone=len(session.pending) == 1)
        state = state.with_session(late.session, after)
        around = _circumstances(state, session)
        around = replace(around, may_fail=may_fail or around.may_fail, switched_on=not pending.deduplication)
        return _judge_answers(state, session, pending, late.answers, around, is_awaited=False)

    return step


def _judge_one(state: Example, operation: AnyOperation, outcome: AnyOutcome, at: Interval) -> Judgement:
    if isinstance(outcome, Skipped):
        return Allowed(state)
    if isinstance(operation, AdministratorRequest):
        return Allowed(state)  # judged request by request
    if isinstance(operation, ReadRequest):
        return reads.judge(state, operation, outcome)
    if isinstance(operation, ExpiryRequest):
        return expiry.judge(state, operation, outcome, at)
    if isinstance(operation, PolicyRequest):
        own = _policy_by_operations(state, operation)
        judged = limits_by_policy.judge(state.service, state.consumption, operation, outcome, own)
        set_or_read = judged.then(lambda after: Allowed(replace(state, service=after)))
        if not isinstance(operation, SetPolicy):
            return set_or_read
        return set_or_read.then(lambda after: expiry.evicted(after, operation, outcome, at))
    if isinstance(operation, HoleOperation):
        return holes.judge(state, operation, outcome)
    if isinstance(operation, ReaderOperation):
        return readers.judge(state, operation, outcome)
    if isinstance(operation, ReadLog | ReceiveAll) and operation.cluster is not None:
        if operation.cluster == HOME and isinstance(operation, ReadLog) and isinstance(outcome, LogRead):
            return _home_read(state, operation.topic, outcome)
        remote = state.remote_of(operation.topic)
        there = replica.judge(state.consumption, operation, outcome, remote)
        return there.then(lambda after: Allowed(replace(state, consumption=after)))
    if state.replication.follows(operation) or isinstance(operation, ReplicationOperation):
        return _on_clusters(state, replication.judge(state.replication, operation, outcome))
    if _is_chunked(state, operation):
        return _of_chunked_topic(state, operation, outcome, at)
    if isinstance(operation, ApplicationOperation):
        return _by_application(state, operation, outcome)
    if isinstance(operation, OnSubscriptions):
        return _on_subscriptions(state, operation, outcome, at)
    if isinstance(operation, NetworkOperation):
        return Allowed(_network_changed(state, operation, outcome))
    if isinstance(operation, DeploymentOperation):
        return deployment.judge(state, operation, outcome, at)
    return _on_topics(state, operation, outcome, at)


def _policy_by_operations(state: Example, operation: PolicyRequest) -> Policy | None:
    """A policy that operations of its own set; None: another kind, or it is not known."""
    topic, view = operation.topic, state.topics.get(operation.topic)
    match operation.kind:
        case "TTL" if topic in state.ttls:
            levels = state.ttls[topic]
            return Policy(topic=levels.get("topic"), namespace=levels.get("namespace"))
        case "deduplication" if view is not None and view.own_policy is not None:
            return Policy(topic=int(view.own_policy))
        case _:
            return None


def _on_topics(state: Example, operation: OnTopics, outcome: AnyOutcome, at: Interval) -> Judgement:
    match operation:
        case CreateTopic():
            return _created(state, operation, outcome)
        case OpenProducer():
            return producers.opened(state, operation, outcome)
        case AwaitProducers(topic):
            return producers.activated(state, topic, outcome)
        case CloseProducer() | CrashProducer() | ReadChunkRate():
            return Allowed(state)
        case Send():
            topic = state.sessions[operation.session].topic
            consumption = written.delayed(state.consumption, topic, operation.entries, at.completed_ms)
            return _sent(replace(state, consumption=consumption), operation, outcome)
        case PurgeProducers():
            return producers.purged(state, operation, outcome)
        case SetDeduplication():
            return _switched(state, operation, outcome)
        case Unload(topic, classic):
            applications = applications_tracker.unloaded(state.applications, topic)
            consumption = subscriptions.unloaded(state.consumption, [topic], at, classic=classic)
            state = replace(state, applications=applications, consumption=consumption)
            state = holes.reloaded(state, [topic], is_killed=False)
            if topic in state.chunking.topics:
                return Allowed(replace(state, chunking=chunking_tracker.unloaded(state.chunking, topic)))
            return _on_topic(state, topic, topic_observer.unloaded(state.topics[topic]))
        case Restart() | Kill():
            topics = state.topics.keys() | state.consumption.topics.keys() | state.chunking.topics.keys()
            after = deployment.reloaded(state, topics, at, is_killed=isinstance(operation, Kill))
            return Allowed(replace(after, failpoints=frozenset(), lingering=frozenset()))
        case SetFailpoint(topic, kind):
            return _failpoint_set(state, topic, kind)
        case ClearFailpoints():
            return _cleared(state, outcome)
        case ReadSnapshot():
            return _snapshot_read(state, operation, outcome)
        case ReadLog(topic):
            return _log_read(state, topic, outcome)
        case _:
            assert_never(operation)


def _home_read(state: Example, topic: str, read: LogRead) -> Judgement:
    return in_turn(
        state, [lambda before: elsewhere.arrived(before, topic, read), lambda before: _log_read(before, topic, read)]
    )


def _network_changed(state: Example, operation: NetworkOperation, outcome: AnyOutcome) -> Example:
    """Confirmations remain valid under network faults. A client may notice only later that its connection was cut."""
    match operation:
        case UseProxy():
            return state
        case InjectNetworkFault():
            return replace(state, is_disturbed=True)
        case ClearNetworkFaults():
            state = replace(state, is_disturbed=False)
            if not isinstance(outcome, NetworkFaultsCleared) or not outcome.fired:
                return state
            return replace(state, sessions={name: replace(one, was_cut=True) for name, one in state.sessions.items()})
        case _:
            assert_never(operation)


def _on_clusters(state: Example, judged: replication.Judged) -> Judgement:
    return judged.then(lambda after: Allowed(replace(state, replication=after)))


def _on_topic(state: Example, topic: str, judged: Allowed[TopicView] | Broken) -> Judgement:
    return judged.then(lambda after: Allowed(state.with_topic(topic, after)))


def _created(state: Example, operation: CreateTopic, outcome: AnyOutcome) -> Judgement:
    if isinstance(outcome, PolicyIgnored):
        return policies.ignored(operation.topic, outcome.deduplication)
    if not isinstance(outcome, Created):
        return Allowed(state)
    view = TopicView(
        enabled=outcome.deduplication,
        snapshot_room=outcome.snapshot_room,
        ledger_room=outcome.ledger_room,
        own_policy=_own_policy(operation),
        has_namespace_policy=operation.deduplication != "broker" or operation.persistence is not None,
        snapshots=None if outcome.snapshots is None else DueSnapshots(outcome.snapshots),
        has_markers=operation.home is not None,
    )
    judged = policies.created(view, operation.topic, operation.deduplication, is_shown=outcome.is_policy_shown)
    return judged.then(lambda created: Allowed(_with_topic(state, operation, outcome, created)))


def _own_policy(operation: CreateTopic) -> bool | None:
    has_one = operation.deduplication.startswith("topic-") and operation.persistence is None
    return operation.deduplication == "topic-on" if has_one else None


def _with_subscriptions(state: Consumption, operation: CreateTopic, outcome: Created) -> Consumption:
    interval_ms = 1000 / outcome.persisted_per_s if outcome.persisted_per_s else 0.0
    return subscriptions.topic_created(
        state,
        operation.topic,
        partitions=operation.partitions,
        room=outcome.ledger_room,
        persisting=Persisting(interval_ms, 1000 * outcome.flush_s, outcome.stored_ranges, outcome.persisted_ranges),
        is_trimmed=operation.is_trimmed,
        limits=_limits_of(operation, outcome),
        drains=outcome.has_draining_hashes,
        look_ahead=LookAhead(*outcome.look_ahead),
        has_markers=operation.home is not None,
        delay_tick_ms=outcome.delay_tick_ms,
        is_watched=operation.is_chunked,
    )


def _with_topic(state: Example, operation: CreateTopic, outcome: Created, view: TopicView) -> Example:
    consumption = _with_subscriptions(state.consumption, operation, outcome)
    for name in consumption.parts_of(operation.topic):
        state = state.with_topic(name, view)
    if operation.home is not None:
        state = state.with_remote(operation.topic, Remote())
    return replace(state, consumption=consumption)


def _limits_of(operation: CreateTopic, outcome: Created) -> Limits:
    asked_for = operation.limits or Limits()
    return Limits(asked_for.consumers, asked_for.unacknowledged, outcome.unacknowledged_in_all)


def _switched(state: Example, operation: SetDeduplication, outcome: AnyOutcome) -> Judgement:
    name, view = operation.topic, state.topics.get(operation.topic)
    if isinstance(outcome, PolicyIgnored):
        if view is None or operation.scope != "topic":
            return policies.ignored(name, outcome.deduplication)
        judged = policies.own_ignored(view, name, outcome.deduplication, on=operation.on, is_shown=outcome.is_shown)
        return judged.then(lambda after: Allowed(state.with_topic(name, after)))
    if not isinstance(outcome, DeduplicationSet) or view is None:
        return Allowed(state)
    view = topic_observer.given_policy(view, on=operation.on) if operation.scope == "topic" else view
    return _on_topic(state, name, topic_observer.switched(view, on=outcome.deduplication))


def _setting_changed(state: Example, outcome: AnyOutcome) -> Judgement:
    """The broker restarted with another setting, which switches deduplication on topics without a policy."""
    if isinstance(outcome, PolicyIgnored):
        return policies.setting_ignored(outcome.deduplication)
    if isinstance(outcome, DeduplicationSet):
        for name, view in state.topics.items():
            if view.follows_broker:
                state = state.with_topic(name, topic_observer.switched(view, on=outcome.deduplication).state)
    return Allowed(state)


def _sent(state: Example, operation: Send, outcome: AnyOutcome) -> Judgement:
    session = state.sessions[operation.session]
    counted = confirmed.sent if session.client == "wire" else confirmed.sent_by_client
    state = state.with_confirmed(session.topic, lambda log: counted(log, session.producer, operation.entries))
    state = replace(state, consumption=written.sent(state.consumption, session.topic, operation.entries))
    contention = state.service.contention(session.topic)
    if isinstance(outcome, Sent) and contention.is_known and operation.session in contention.fenced:
        fenced = access.sent_by_fenced(operation.session, operation.entries, outcome.answers)
        return fenced.then(lambda _: Allowed(state))
    view = state.topics[session.topic]
    pending = Pending(operation.entries, view.last_position, view.enabled)
    if not operation.wait:
        # The answers contain the positions, but other sessions may receive answers to later entries first.
        state = replace(state, consumption=written.unsure(state.consumption, session.topic, session.producer))
        return Allowed(state.with_session(operation.session, replace(session, pending=(*session.pending, pending))))
    if not isinstance(outcome, Sent):
        return Allowed(state)
    if any(isinstance(answer, Stored) for answer in outcome.answers):
        session = replace(session, was_cut=False)
    around = _circumstances(state, session)
    state = state.with_session(operation.session, account.confirmed(session, operation.entries, outcome.answers))
    judged = _judge_answers(state, session, pending, outcome.answers, around, is_awaited=True)
    return judged.then(lambda after: _last_id_reported(after, operation, outcome))


def _last_id_reported(state: Example, operation: Send, outcome: Sent) -> Judgement:
    """The last sequence id that the producer reports, after its answers were judged."""
    session = state.sessions[operation.session]
    reported = account.reported(session, operation.entries, outcome, state.topics[session.topic])
    return reported.then(lambda after: Allowed(state.with_session(operation.session, after)))


def _circumstances(state: Example, session: Session) -> Circumstances:
    may_fail = _writes_may_fail(state, session.topic)
    # The answers to chunks of pulsar-client are known only if the proxy saw it send each of them once.
    resends = session.client == "official" and not session.is_chunking
    return Circumstances(may_fail=may_fail, by_pulsar_client=resends)


def _writes_may_fail(state: Example, topic: str) -> bool:
    is_short = state.service.may_fail(topic)
    return is_short or topic in state.lingering | state.topics_with(WRITE_FAILURES)


def _judge_answers(
    state: Example,
    session: Session,
    sent: Pending,
    answers: tuple[Answer, ...],
    around: Circumstances,
    *,
    is_awaited: bool,
) -> Judgement:
    is_to_go_on = is_awaited and state.service.goes_on(session.topic) and not around.may_fail
    goes_on = confirmed.goes_on(session.topic, sent.entries, answers) if is_to_go_on else Allowed(None)
    if isinstance(goes_on, Broken):
        return goes_on
    by_size = limits_by_policy.sent(state.service, session.topic, sent.entries, answers)
    judged = goes_on.then(lambda _: by_size).then(
        lambda admitted: _on_topic(state, session.topic, _observed(state, session, sent, answers, around, admitted))
    )
    return judged.then(lambda after: _logged(after, session, sent, answers, around, is_awaited=is_awaited))


def _observed(
    state: Example,
    session: Session,
    sent: Pending,
    answers: tuple[Answer, ...],
    around: Circumstances,
    admitted: tuple[int, ...],
) -> Allowed[TopicView] | Broken:
    """``admitted``: the numbers of the entries that no policy refused."""
    view = state.topics[session.topic]
    others = (other.written(session.producer) for name, other in state.topics.items() if name != session.topic)
    view = replace(view, elsewhere={session.producer: max(others, default=NONE)})
    entries = tuple(sent.entries[number] for number in admitted)
    given = tuple(answers[number] for number in admitted)
    return topic_observer.sent(view, session.producer, entries, given, around, confirmed_before=sent.confirmed_before)


def _logged(
    state: Example,
    session: Session,
    sent: Pending,
    answers: tuple[Answer, ...],
    around: Circumstances,
    *,
    is_awaited: bool,
) -> Judgement:
    """What is known of the log after answers."""
    is_disturbed = state.is_disturbed or state.may_fail_on(session.topic) or around.may_fail
    logged = written.answered(
        state.consumption, session, sent.entries, answers, is_disturbed=is_disturbed, is_awaited=is_awaited
    )
    if any(isinstance(answer, Stored) for answer in answers):
        state = state.written(session.topic, sent, answers).with_confirmed(
            session.topic, lambda log: confirmed.answered(log, session.producer, sent.entries, answers)
        )
    return logged.then(lambda after: Allowed(replace(state, consumption=after)))


def _on_subscriptions(state: Example, operation: OnSubscriptions, outcome: AnyOutcome, at: Interval) -> Judgement:
    judged = subscriptions.judge(state.consumption, operation, outcome, at, state.failpoints)
    return judged.then(lambda after: Allowed(replace(state, consumption=after)))


def _is_chunked(state: Example, operation: AnyOperation) -> bool:
    """Whether an operation is about a chunked topic only; an unload affects other topics too."""
    match operation:
        case CreateTopic(is_chunked=is_chunked):
            return is_chunked
        case Unload() | SetFailpoint():
            return False
        case _ if operation.topic is not None:
            return operation.topic in state.chunking.topics
        case _:
            session = state.sessions.get(operation.actor or "")
            topic = None if session is None else session.topic
            return topic in state.chunking.topics or operation.actor in state.chunking.consumers


def _of_chunked_topic(state: Example, operation: AnyOperation, outcome: AnyOutcome, at: Interval) -> Judgement:
    match operation, outcome:
        case CreateTopic(), Created():
            state = replace(state, consumption=_with_subscriptions(state.consumption, operation, outcome))
        case OpenProducer(), Opened():
            state = state.with_session(operation.session, session_of(operation))
        case Send(session), Sent() if outcome.is_unloaded:
            topic = state.sessions[session].topic
            state = replace(state, consumption=subscriptions.unloaded(state.consumption, [topic], at))
        case _:
            pass
    before = watched.acknowledging(state.consumption, state.chunking)
    judged = chunking_tracker.judge(before, state.sessions, operation, outcome, state.topics_with(RACES))

    def of_subscriptions(after: Chunking) -> Judgement:
        read = watched.judge(state.consumption, operation, outcome, at)
        return read.then(lambda now: Allowed(_watched(state, now, after)))

    return judged.then(of_subscriptions)


def _watched(state: Example, consumption: Consumption, chunking: Chunking) -> Example:
    return replace(state, consumption=consumption, chunking=watched.acknowledging(consumption, chunking))


def _failpoint_set(state: Example, topic: str, kind: FailpointKind) -> Judgement:
    if topic in state.topics:
        state = state.with_topic(topic, topic_observer.unsettled_snapshots(state.topics[topic]))
    if kind in WRITE_FAILURES:
        state = replace(state, applications=applications_tracker.writes_may_fail(state.applications, topic))
        if topic in state.topics:
            exposed = state.topics[topic].on_each_state(lambda one: (observer.writes_may_fail(one),))
            state = state.with_topic(topic, exposed)
    return Allowed(replace(state, failpoints=state.failpoints | {(topic, kind)}))


def _cleared(state: Example, outcome: AnyOutcome) -> Judgement:
    if not isinstance(outcome, Cleared):
        return Allowed(state)
    for fired in outcome.fired:
        if not fired.times or fired.topic not in state.topics:
            continue
        view = state.topics[fired.topic]
        if fired.kind == "snapshot-write-fails":
            state = state.with_topic(fired.topic, replace(view, snapshot_failed=True))
        elif fired.kind in WRITE_FAILURES:
            state = state.with_topic(fired.topic, replace(view, write_failed=True))
    state = state.with_lingering(state.topics_with(WRITE_FAILURES), state.topics_with(CUTS))
    others = state.chunking.topics
    raced = any(fired.times and fired.kind in RACES and fired.topic not in others for fired in outcome.fired)
    return Allowed(replace(state, failpoints=frozenset()), ("KEY-10",) if raced else ())


def _snapshot_read(state: Example, operation: ReadSnapshot, outcome: AnyOutcome) -> Judgement:
    topic = operation.topic
    if not isinstance(outcome, SnapshotRead) or state.applications.has(topic) or state.remote_of(topic).is_in_flight:
        return Allowed(state)
    of_remote = elsewhere.snapshot_read(state, topic, outcome)
    if isinstance(of_remote, Broken):
        return of_remote
    is_due = operation.due and not state.may_fail_on(topic)
    judged = snapshots.snapshot_read(state.topics[topic], outcome, is_due=is_due)
    return judged.then(lambda after: Allowed(state.with_topic(topic, after)).after(of_remote))


def _log_read(state: Example, topic: str, outcome: AnyOutcome) -> Judgement:
    if not isinstance(outcome, LogRead) or state.remote_of(topic).is_in_flight:
        return Allowed(state)
    log, is_trimmed = state.service.confirmed.get(topic, confirmed.EMPTY), state.consumption.topics[topic].is_trimmed
    kept = confirmed.ends(log, topic, outcome.entries)
    if not is_trimmed:
        kept = kept.then(lambda _: confirmed.read_back(log, topic, outcome.entries))
    return kept.then(lambda _: _entries_read(state, topic, outcome))


def _entries_read(state: Example, topic: str, outcome: LogRead) -> Judgement:
    view, before = state.topics[topic], state.applications
    tracked = state.consumption.topics[topic]
    may_grow = (
        _writes_may_fail(state, topic)
        or any(session.pending and session.topic == topic for session in state.sessions.values())
        or written.may_be_in_flight(tracked)
    )
    if may_grow and topic_observer.unsettled(view):
        return Allowed(state)  # entries in flight may be stored later
    followed_elsewhere = {*before.on(topic), *state.remote_of(topic).producers}
    others = [logged for logged in outcome.entries if logged.producer not in followed_elsewhere]

    def of_applications(now: Example) -> Judgement:
        read = applications_tracker.log_read(now.applications, topic, outcome.entries, deduplication=view.enabled)
        return read.then(lambda after: Allowed(replace(now, applications=after)))

    def of_producers(now: Example) -> Judgement:
        read = topic_observer.log_read(now.topics[topic], others)
        return read.then(lambda after: Allowed(now.with_topic(topic, after)))

    def of_subscriptions(now: Example) -> Judgement:
        if may_grow or tracked.is_sure or tracked.is_trimmed or before.has(topic):  # programs go on by themselves
            return Allowed(now)
        read = written.read_back(now.consumption, topic, outcome.entries)
        return read.then(lambda after: Allowed(replace(now, consumption=after)))

    return in_turn(state, [of_applications, of_producers, of_subscriptions])


def _by_application(state: Example, operation: ApplicationOperation, outcome: AnyOutcome) -> Judgement:
    topic = operation.topic if isinstance(operation, StartSource) else ""
    state = replace(state, consumption=written.lost(state.consumption, topic))
    may_fail = topic in state.topics_with(WRITE_FAILURES)
    over = applications_tracker.topic_without_lingering_writes(state.applications, operation, outcome)
    state = replace(state, lingering=state.lingering - {over})
    judged = applications_tracker.judge(state.applications, operation, outcome, writes_may_fail=may_fail)
    return judged.then(lambda after: Allowed(replace(state, applications=after)))
