"""The rules of document 001 over the logs and subscriptions of all clusters.

Each function yields one result for every occasion that exercised its rule: the violation, or None. The order in a log
decides. Timestamps count only for rules on time, with :data:`SLACK_MS`, because a message is stored some time after its
publish time.

The logs do not show everything, such as which replicator handled a response. This is not judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from model.cluster_events import (
    ClusterEntry,
    ClustersRead,
    SnapshotRequest,
    SnapshotResponse,
)
from model.replication.evidence import (
    SLACK_MS,
    BeforeResponse,
    CheckResult,
    Excused,
    Finding,
    Missed,
    NotAnswered,
    NotAnsweredAgain,
    NotInOrder,
    NotReplicated,
    NotUpdated,
    StoredAgain,
    WithoutPosition,
)
from model.replication.logs import Log, Logs, is_passed
from model.replication.rounds import answered_again, complete, is_too_early
from model.replication.snapshot_starts import none_while_disconnected, none_without_news
from model.replication.tracked import Administered, ReplicatedTopic
from model.replication.updates import (
    only_what_takes_part,
    the_latest_is_published,
    updates_are_cached_snapshots,
    updates_are_snapshots_that_were_passed,
)
from model.rules.catalogue import carries
from model.subscription_operations import (
    CreateSubscription,
    DeleteSubscription,
    Expire,
    ResetCursor,
    Skip,
    SkipAll,
)


@carries("REPL-01")
def replicated_in_order(topic: ReplicatedTopic, logs: Logs) -> Iterator[CheckResult]:
    """Every cluster has the messages of each other cluster in the order of that cluster's log, and once.

    A replicator that reconnected may have sent messages in flight twice, unless the topic is deduplicated.
    """
    for log in topic.left(logs):
        target = log.cluster
        for source in topic.clusters:
            own, here = logs[source].messages(source), log.messages(source)
            if unknown := set(here) - topic.all_published:
                yield f"{target} has {min(unknown)} of {source}, but it was never published there"
            yield from _repeated(topic, source, log)
            if target != source and (source, target) not in topic.links_so_far:
                yield f"{target} has {here[0]} of {source}, which does not replicate to it" if here else None
            elif target != source:
                may_come = tuple(message for message in own if topic.may_be_at(message, target))
                arrived = tuple(message for message in dict.fromkeys(here) if topic.may_be_at(message, target))
                if (loss := topic.emptied.get(source)) is not None:
                    arrived = tuple(message for message in arrived if message in own or message not in loss)
                if (source, target) in topic.changed:
                    unsure = topic.changed[source, target].union(() if (source, target) in topic.links else own)
                    if arrived != tuple(message for message in may_come if message in arrived):
                        yield f"{target} has {', '.join(arrived)} of {source}, but {source} has {', '.join(own)}"
                    may_come = tuple(message for message in may_come if message not in unsure)
                    arrived = tuple(message for message in arrived if message not in unsure)
                yield from _as_there(topic, source, target, may_come, arrived)


@carries("REPL-21")
def replicated_over_reloads(topic: ReplicatedTopic, logs: Logs) -> Iterator[CheckResult]:
    """By a topic's own policy, too, what was published while a link was cut arrives when the topic was reloaded."""
    if not (topic.is_settled and topic.is_by_topic) or topic.emptied:
        return
    for ((source, target), since_ms), published in topic.over_reload.items():
        if (source, target) not in topic.links:
            continue
        unsure, there = topic.changed.get((source, target), frozenset()), logs[target].messages(source)
        for entry in logs[source].entries:
            message = entry.message
            if message not in published - unsure or entry.origin != source or entry.published_ms < since_ms:
                continue
            if message in there:
                yield None
            elif topic.may_be_at(message, target):
                because = f"{target} lacks {message}, which {source} published while its link was cut, before a reload"
                yield Finding(because, NotReplicated(message))


@carries("REPL-21")
def administered_as_asked(topic: ReplicatedTopic, logs: Logs) -> Iterator[CheckResult]:
    """An administrator's request at a cluster passes no more messages there than it names."""
    for one, passed, may_pass in _administered(topic, logs):
        asked, cluster = one.operation.asked, one.operation.cluster
        if isinstance(asked, Skip) and len(passed) > asked.count:
            names = ", ".join(sorted(passed))
            yield f"a skip of {asked.count} at {cluster} acknowledged {names} for {asked.subscription}"
        elif beyond := passed - may_pass:
            what = f"{type(asked).__name__} at {cluster} acknowledged {min(beyond)} for {asked.subscription}"
            yield f"{what}, which it does not concern"
        else:
            yield None


def _administered(topic: ReplicatedTopic, logs: Logs) -> Iterator[tuple[Administered, frozenset[str], frozenset[str]]]:
    """What administrators did, in order, each with the messages that it passed without any other reason, and with those
    that it may pass."""
    so_far: dict[str, frozenset[str]] = {}
    for one in topic.administered:
        log, seen, name = logs[one.operation.cluster], one.seen, one.operation.subscription
        if log.cluster in topic.emptied:
            continue
        before = log.passed(seen.before) if seen.before is not None else frozenset()
        after = log.passed(seen.after) if seen.after is not None else frozenset()
        passed = after - before - topic.acknowledged(name) - so_far.get(name, frozenset())
        may_pass = _may_pass(one, log)
        so_far[name] = so_far.get(name, frozenset()) | _passed_by(one, passed, may_pass)
        yield one, passed, may_pass


def _may_pass(one: Administered, log: Log) -> frozenset[str]:
    """The messages that an administrator's request may acknowledge in a cluster."""
    to = one.seen.to
    match one.operation.asked:
        case Skip() | SkipAll() | CreateSubscription(start="latest"):
            return frozenset(log.messages())
        case Expire():
            return log.up_to(to)
        case ResetCursor(after=is_after):
            last = log.entries[: log.count_up_to(to)] if to is not None else ()
            return frozenset(e.message for e in last if e.message is not None and (is_after or e.position != to))
        case CreateSubscription() | DeleteSubscription():
            return frozenset()


def _passed_by_administrators(topic: ReplicatedTopic, logs: Logs, subscription: str) -> frozenset[str]:
    every = _administered(topic, logs)
    known = (_passed_by(*one) for one in every if one[0].operation.subscription == subscription)
    of_it = (one.operation.cluster for one in topic.administered if one.operation.subscription == subscription)
    unknown = (topic.emptied[label].union(logs[label].messages()) for label in of_it if label in topic.emptied)
    return frozenset[str]().union(*known, *unknown)


def _passed_by(one: Administered, passed: frozenset[str], may_pass: frozenset[str]) -> frozenset[str]:
    """What a request passed; an expiry may still go on."""
    return may_pass if isinstance(one.operation.asked, Expire) else passed & may_pass


def _repeated(topic: ReplicatedTopic, source: str, log: Log) -> Iterator[CheckResult]:
    """The messages of a cluster that another one, or itself, has twice."""
    is_again = topic.read is not None and (source, log.cluster) in topic.read.reconnected
    if is_again and not topic.deduplication:
        return
    for message in (message for message, times in Counter(log.messages(source)).items() if times > 1):
        because = f"{log.cluster} has {message} of {source} twice"
        yield Finding(because, StoredAgain(log.cluster, message, is_again))


def _as_there(
    topic: ReplicatedTopic, source: str, target: str, own: tuple[str, ...], first: tuple[str, ...]
) -> Iterator[CheckResult]:
    """The messages of a cluster arrive at another one as a prefix of its log, and completely once replication ends."""
    if first != own[: len(first)]:
        because = f"{target} has {', '.join(first)} of {source}, but {source} has {', '.join(own)}"
        yield Finding(because, NotInOrder(own, first))
    if topic.is_settled and topic.is_replicated:
        for message in own:
            if message not in first:
                because = f"{target} lacks {message} of {source}, although replication has caught up"
                yield Finding(because, NotReplicated(message))
    if first:
        yield None


@carries("REPL-20")
def restricted_where_they_may_be(topic: ReplicatedTopic, logs: Logs) -> Iterator[CheckResult]:
    """A message that is restricted to some clusters is replicated to those, and to no other."""
    for message, clusters in topic.restricted.items():
        source = next((cluster for cluster, log in logs.items() if message in log.messages(cluster)), None)
        for log in topic.left(logs) if source is not None else ():
            target = log.cluster
            if target != source and (source, target) not in topic.links:
                continue  # REPL-01 judges this
            is_there = message in log.messages(source or "")
            if not is_there and message in topic.changed.get((source or "", target), ()):
                continue  # it may have been published before the namespace named this cluster
            if is_there and target not in clusters:
                yield f"{target} has {message} of {source}, which is restricted to {', '.join(sorted(clusters))}"
            elif topic.is_settled and topic.is_replicated and target != source:
                because = f"{target} lacks {message} of {source}, although it may have it and replication has caught up"
                yield because if target in clusters and not is_there else None


@carries("REPL-04")
def answered_with_the_last_position(_: ReplicatedTopic, logs: Logs) -> Iterator[CheckResult]:
    """A response is after its request in the log, and contains the position of an entry between the two."""
    for cluster, log in logs.items():
        requested: dict[str, int] = {}
        for index, entry in enumerate(log.entries):
            match entry.marker:
                case SnapshotRequest(snapshot) if entry.origin != cluster:
                    requested.setdefault(snapshot, index)
                case SnapshotResponse(snapshot, _, position) if entry.origin == cluster:
                    begun = requested.get(snapshot)
                    if begun is None:
                        yield f"{cluster} has a response at {entry.position} for snapshot {snapshot} without a request"
                    elif not log.entries[begun].position <= position < entry.position:
                        yield (
                            f"the response of {cluster} at {entry.position} has position {position}; "
                            f"the request was at {log.entries[begun].position}"
                        )
                    else:
                        yield None
                case _:
                    pass


@carries("REPL-05")
def answered_once(topic: ReplicatedTopic, logs: Logs) -> Iterator[CheckResult]:
    """Each cluster answers a request once, regardless of its number of replicators."""
    read = topic.read
    for cluster, log in logs.items():
        requested: Counter[tuple[str, str]] = Counter()
        given: Counter[str] = Counter()
        for entry in log.entries:
            match entry.marker:
                case SnapshotRequest(snapshot) if entry.origin != cluster:
                    requested[snapshot, entry.origin] += 1
                case SnapshotResponse(snapshot) if entry.origin == cluster:
                    given[snapshot] += 1
                case _:
                    pass
        for (snapshot, origin), times in requested.items():
            # A replicator that reconnects reads its last entry again, and handles it again.
            if read is not None and {(cluster, origin), (origin, cluster)} & set(read.reconnected):
                continue
            if given[snapshot] > times:
                yield f"{cluster} sent {given[snapshot]} responses to {times} requests of snapshot {snapshot}"
            elif given[snapshot]:
                yield None


@carries("REPL-06")
def made_of_first_answers(_: ReplicatedTopic, logs: Logs) -> Iterator[CheckResult]:
    """If a cluster answered more than once, a snapshot has its first response."""
    for one in complete(logs):
        first = {answer.cluster: answer.position for answer in reversed(one.answers)}
        for answer in (answer for answer in one.answers if answer.position != first[answer.cluster]):
            if one.taken.positions.get(answer.cluster) == answer.position:
                yield (
                    f"snapshot {one.name} of {one.cluster} has {answer.position} of {answer.cluster}, whose first "
                    f"response has {first[answer.cluster]}"
                )
            else:
                yield None


@carries("REPL-09")
def made_of_answers(topic: ReplicatedTopic, logs: Logs) -> Iterator[CheckResult]:
    """A snapshot has a response of each other cluster, and its local position is that of the last response."""
    for one in complete(logs):
        responses = {(answer.cluster, answer.position) for answer in one.answers}
        missing = topic.remotes_of(one.cluster) - set(one.taken.positions)
        which = f"snapshot {one.name} of {one.cluster} has"
        if wrong := set(one.taken.positions.items()) - responses:
            cluster, position = min(wrong)
            yield f"{which} {position} of {cluster}, but no response has it"
        elif one.taken.local not in {one.log.entries[answer.index].position for answer in one.answers}:
            yield f"{which} local position {one.taken.local}, where no response is"
        elif missing:
            yield Finding(f"{which} no position of {min(missing)}", WithoutPosition(one))
        elif is_too_early(logs, one):
            yield Finding(f"{which} local position {one.taken.local}, before a response", BeforeResponse(one))
        else:
            yield None


@carries("REPL-07")
def made_in_two_rounds(topic: ReplicatedTopic, logs: Logs) -> Iterator[CheckResult]:
    """With more than one other cluster, each answers the second request as well before a snapshot is complete."""
    for one in complete(logs):
        remotes = topic.remotes_of(one.cluster)
        if len(remotes) < 2 or remotes - set(one.taken.positions):
            continue  # REPL-09 judges a cluster without a request
        if one.rounds < 2:
            yield f"{one.cluster} completed snapshot {one.name} without a second round"
        elif lacking := remotes - answered_again(logs, one):
            because = f"{one.cluster} completed snapshot {one.name} without a second response from {min(lacking)}"
            yield Finding(because, NotAnsweredAgain(one, lacking))
        else:
            yield None


@carries("REPL-08")
def none_too_late(topic: ReplicatedTopic, logs: Logs) -> Iterator[CheckResult]:
    """A snapshot that took longer than the timeout is not completed by later responses."""
    longest_ms = topic.made.timeout_ms + topic.made.period_ms + SLACK_MS
    for log in logs.values():
        for snapshot in log.snapshots:
            begun_ms = log.entries[snapshot.requests[0]].published_ms
            if snapshot.taken_index is not None:
                took_ms = log.entries[snapshot.taken_index].published_ms - begun_ms
                if took_ms > longest_ms:
                    yield f"{log.cluster} completed snapshot {snapshot.name} after {took_ms} ms, later than its timeout"
            elif snapshot.answers:
                # The arrival time of a response is unknown. It arrived after the cluster's own entries before it.
                own = [
                    one.published_ms for one in log.entries[: snapshot.answers[-1].index] if one.origin == log.cluster
                ]
                if max(own, default=0) - begun_ms > topic.made.timeout_ms + topic.made.period_ms:
                    yield None


@carries("REPL-13")
def updates_take_effect(topic: ReplicatedTopic, logs: Logs) -> Iterator[CheckResult]:
    """Once replication ends, each cluster has the subscription as replicated, and has passed its position."""
    if not topic.is_settled:
        return
    for log in logs.values():
        for cursor in log.read.cursors:
            for _, update in log.updates(cursor.subscription)[-1:]:
                for cluster, position in update.positions.items():
                    there = logs[cluster].cursor(cursor.subscription)
                    if there is None:
                        yield f"{cluster} has no subscription {cursor.subscription} despite an update by {log.cluster}"
                    elif not there.is_replicated and topic.own.get((cursor.subscription, cluster)) is False:
                        continue
                    elif not there.is_replicated:
                        yield f"{cursor.subscription} is not replicated in {cluster} despite an update by {log.cluster}"
                    elif there.mark_delete < position:
                        because = (
                            f"{log.cluster} sent an update of {cursor.subscription} with {position} of {cluster}, "
                            f"which is still at {there.mark_delete}"
                        )
                        yield Finding(because, NotUpdated(cluster, there, log.cluster))
                    else:
                        yield None


@carries("REPL-14")
def never_ahead(topic: ReplicatedTopic, logs: Logs) -> Iterator[CheckResult]:
    """Every acknowledged message was acknowledged by a consumer in some cluster, so a failover loses nothing.

    Or an administrator had a cluster pass it.
    """
    for log in topic.left(logs):
        for cursor in log.read.cursors:
            passed = log.passed(cursor)
            missed = passed - topic.acknowledged(cursor.subscription)
            if missed and topic.administered:
                missed -= _passed_by_administrators(topic, logs, cursor.subscription)
            for message in dict.fromkeys(entry.message for entry in log.entries):
                if message is not None and message in missed:
                    because = (
                        f"{log.cluster} has {message} as acknowledged for {cursor.subscription} (mark-delete "
                        f"{cursor.mark_delete}), but no consumer acknowledged it in any cluster"
                    )
                    yield Finding(because, Missed(log.cluster, cursor.subscription, message))
            if not missed and (cursor.subscription, log.cluster) not in topic.own and passed:
                yield None


@carries("REPL-17")
def answered_though_closed(topic: ReplicatedTopic, logs: Logs) -> Iterator[CheckResult]:
    """A cluster with closed replicators answers later requests.

    If the requesting cluster gave up and began another snapshot, and the replicator is still closed, it did not.
    """
    for cluster, since_ms in topic.closed.items():
        log = logs[cluster]
        given = {one.marker.snapshot for one in log.entries if isinstance(one.marker, SnapshotResponse)}
        for origin in set(topic.clusters) - {cluster}:
            requested = [
                (entry.published_ms, entry.position, entry.marker.snapshot)
                for entry in log.entries
                if isinstance(entry.marker, SnapshotRequest)
                and entry.origin == origin
                and entry.published_ms > since_ms
            ]
            if not requested:
                continue
            first_ms, position, snapshot = requested[0]
            has_given_up = any(
                later_ms - first_ms >= topic.made.timeout_ms and name != snapshot for later_ms, _, name in requested
            )
            if snapshot in given:
                yield None
            elif has_given_up and topic.read is not None and (cluster, origin) in topic.read.closed:
                because = f"{cluster} did not respond to the request of {origin} at {position} before {origin} gave up"
                yield Finding(because, NotAnswered(any(name in given for _, _, name in requested)))


@carries("REPL-10")
def markers_hold_nothing_up(topic: ReplicatedTopic, logs: Logs) -> Iterator[CheckResult]:
    """Once a consumer acknowledged all messages there is no backlog, even with markers, except for those that were
    written just before the reading."""
    read = topic.read
    for log in topic.left(logs):
        for cursor in log.read.cursors:
            if read is None:
                continue
            is_read = read.is_quiet and (cursor.subscription, log.cluster) in read.consumed
            everything = topic.acknowledged(cursor.subscription).issuperset(log.messages())
            if not (topic.is_settled and is_read and everything and log.entries):
                continue
            if not all(is_passed(cursor, entry.position) for entry in log.entries if entry.message is not None):
                continue  # it was acknowledged only in another cluster, which REPL-15 allows
            if cursor.backlog > sum(_is_just_written(entry, read) for entry in log.entries):
                yield f"{log.cluster} has a backlog of {cursor.backlog} for {cursor.subscription}, all of it markers"
            else:
                yield Excused() if cursor.backlog else None


def _is_just_written(entry: ClusterEntry, read: ClustersRead) -> bool:
    """Whether a marker was written so late that no dispatcher needs to have read it when the logs were."""
    return entry.marker is not None and entry.published_ms > read.at_ms - SLACK_MS and read.at_ms > 0


Check = Callable[[ReplicatedTopic, Logs], Iterator[CheckResult]]

CHECKS: tuple[tuple[str, Check], ...] = (
    ("REPL-21", administered_as_asked),
    ("REPL-21", replicated_over_reloads),
    ("REPL-14", never_ahead),
    ("REPL-01", replicated_in_order),
    ("REPL-20", restricted_where_they_may_be),
    ("REPL-18", only_what_takes_part),
    ("REPL-02", none_without_news),
    ("REPL-03", none_while_disconnected),
    ("REPL-04", answered_with_the_last_position),
    ("REPL-05", answered_once),
    ("REPL-06", made_of_first_answers),
    ("REPL-09", made_of_answers),
    ("REPL-07", made_in_two_rounds),
    ("REPL-08", none_too_late),
    ("REPL-12", updates_are_snapshots_that_were_passed),
    ("REPL-12", the_latest_is_published),
    ("REPL-11", updates_are_cached_snapshots),
    ("REPL-13", updates_take_effect),
    ("REPL-17", answered_though_closed),
    ("REPL-10", markers_hold_nothing_up),
)
"""The rules and their checks; of several broken rules the first one is reported."""
