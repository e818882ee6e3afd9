"""What the logs and subscriptions of all clusters must show together, rule by rule (document 001).

Each function goes through what was read back and tells, for every occasion on which its rule was put to the test, what
is wrong, or None if nothing is. Order in a log is what decides; clocks are asked only where a rule speaks of time, and
with :data:`SLACK_MS`, because a message is stored some time after its client dated it.

Not here: what no log shows, as whether an answer was handled by one replicator or another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from model.catalogue import carries
from model.deviations import REPLAY_FORGETS_REPLICATORS
from model.log import Position
from model.replication.followed import GeoTopic
from model.replication.logs import Answer, Log, Logs, SnapshotSeen, is_passed
from model.replication.words import GeoCursor, SnapshotRequest, SnapshotResponse

SLACK_MS = 2000
"""How much later than its date a message may have been stored, or a timer may have run out, on a busy machine."""


class Deviating(Struct, frozen=True):
    """What only a deviation explains, by its name, and why."""

    deviation: str
    because: str


Shown = str | Deviating | None
"""Why a rule is broken, by nobody's leave or by a deviation's, or None where it was put to the test and holds."""


@carries("REPL-01")
def replicated_in_order(topic: GeoTopic, logs: Logs) -> Iterator[Shown]:
    """Every cluster has the messages of each in the order of that one's own log, and once.

    Where a replicator came back, what was on its way may have been sent twice, unless the topic is deduplicated.
    """
    read = topic.read
    for target, log in logs.items():
        for source in topic.clusters:
            own, here = logs[source].messages(source), log.messages(source)
            if unknown := set(here) - topic.all_published:
                yield f"{target} has {min(unknown)} from {source}, where it was never published"
            is_again = read is not None and (source, target) in read.reconnected
            twice = [message for message, times in Counter(here).items() if times > 1]
            if twice and (topic.deduplication or not is_again):
                because = f"{target} has {twice[0]} from {source} twice"
                yield Deviating(REPLAY_FORGETS_REPLICATORS, because) if target in topic.moved else because
            first = tuple(dict.fromkeys(here))
            if first != own[: len(first)] and target != source:
                yield f"{target} has {', '.join(first)} from {source}, which has {', '.join(own)}"
            if topic.is_settled and topic.is_replicated and len(first) < len(set(own)):
                yield f"{target} lacks {own[len(first)]} of {source}, though all has come through since"
            if target != source and first:
                yield None


@carries("REPL-18")
def only_what_takes_part(topic: GeoTopic, logs: Logs) -> Iterator[Shown]:
    """Topics that are not replicated, or none of whose subscriptions is, have no marker.

    And subscriptions that are not replicated appear nowhere else.
    """
    for cluster, log in logs.items():
        for cursor in log.read.cursors:
            if (cursor.subscription, cluster) in topic.own:
                continue
            is_replicated = topic.is_replicated and topic.is_replicated_subscription(cursor.subscription)
            if not is_replicated:
                yield f"{cluster} has the subscription {cursor.subscription}, which is not replicated, from elsewhere"
    if not topic.is_replicated or (topic.own and not any(topic.own.values())):
        why = "no subscription is replicated" if topic.is_replicated else "the topic is not replicated"
        for cluster, log in logs.items():
            markers = sum(entry.marker is not None for entry in log.entries)
            yield f"{why}, and {cluster} has {markers} markers of the topic" if markers else None
    for (subscription, _), is_replicated in topic.own.items():
        if not is_replicated and not topic.is_replicated_subscription(subscription):
            yield None


@carries("REPL-02")
def none_without_news(_: GeoTopic, logs: Logs) -> Iterator[Shown]:
    """Between the beginning of a snapshot that was completed and that of the next one, something is published."""
    for log in logs.values():
        for after in log.snapshots[1:]:
            done = _completed_before(log, after)
            if done is None:
                continue
            begun = log.entries[done.requests[0]]
            between = log.entries[done.requests[0] : after.requests[0]]
            lately = (e for e in log.entries[: done.requests[0]] if e.published_ms > begun.published_ms - SLACK_MS)
            is_news = any(entry.message is not None for entry in (*between, *lately))
            if is_news:
                yield None
            else:
                at = log.entries[after.requests[0]].position
                yield f"{log.cluster} began a snapshot at {at}, and nothing was published since {done.name} did"


def _completed_before(log: Log, snapshot: SnapshotSeen) -> SnapshotSeen | None:
    """The snapshot that was completed last before this one began."""
    done = [one for one in log.snapshots if one.taken_index is not None and one.taken_index < snapshot.requests[0]]
    return max(done, key=lambda one: one.taken_index or 0, default=None)


@carries("REPL-03")
def none_while_disconnected(topic: GeoTopic, logs: Logs) -> Iterator[Shown]:
    """While a replicator is not connected, its cluster begins no snapshot."""
    for (source, target), cuts in topic.cut.items():
        for since_ms, until_ms in cuts:
            begun = [logs[source].entries[one.requests[0]] for one in logs[source].snapshots]
            end_ms = until_ms if until_ms is not None else since_ms
            within = [entry for entry in begun if since_ms < entry.published_ms < end_ms]
            news_by_ms = end_ms - 2 * topic.made.period_ms
            is_news = any(e.message and since_ms < e.published_ms < news_by_ms for e in logs[source].entries)
            if within:
                at = within[0].position
                yield f"{source} began a snapshot at {at}, while its replicator to {target} was not connected"
            elif is_news and topic.is_replicated:
                yield None


@carries("REPL-04")
def answered_with_the_last_position(_: GeoTopic, logs: Logs) -> Iterator[Shown]:
    """An answer stands behind the request that it is for, and tells the position of an entry between the two."""
    for cluster, log in logs.items():
        asked: dict[str, int] = {}
        for index, entry in enumerate(log.entries):
            match entry.marker:
                case SnapshotRequest(snapshot) if entry.origin != cluster:
                    asked.setdefault(snapshot, index)
                case SnapshotResponse(snapshot, _, position) if entry.origin == cluster:
                    begun = asked.get(snapshot)
                    if begun is None:
                        yield f"{cluster} answered at {entry.position} for snapshot {snapshot}, which nobody asked for"
                    elif not log.entries[begun].position <= position < entry.position:
                        yield (
                            f"{cluster} answered at {entry.position} that its last position was {position}; "
                            f"it was asked at {log.entries[begun].position}"
                        )
                    else:
                        yield None
                case _:
                    pass


@carries("REPL-05")
def answered_once(topic: GeoTopic, logs: Logs) -> Iterator[Shown]:
    """A request is answered once by each cluster, however many replicators it has."""
    read = topic.read
    for cluster, log in logs.items():
        asked: Counter[tuple[str, str]] = Counter()
        given: Counter[str] = Counter()
        for entry in log.entries:
            match entry.marker:
                case SnapshotRequest(snapshot) if entry.origin != cluster:
                    asked[snapshot, entry.origin] += 1
                case SnapshotResponse(snapshot) if entry.origin == cluster:
                    given[snapshot] += 1
                case _:
                    pass
        for (snapshot, origin), times in asked.items():
            # A replicator that comes back reads again what it had read last, and handles it once more.
            if read is not None and {(cluster, origin), (origin, cluster)} & set(read.reconnected):
                continue
            if given[snapshot] > times:
                yield f"{cluster} was asked {times} times for snapshot {snapshot}, and answered {given[snapshot]} times"
            elif given[snapshot]:
                yield None


@carries("REPL-06")
def made_of_first_answers(_: GeoTopic, logs: Logs) -> Iterator[Shown]:
    """Of a cluster that answered more than once, a snapshot has the first answer."""
    for log, snapshot, answers in _complete(logs):
        taken = snapshot.taken
        assert taken is not None
        first = {answer.cluster: answer.position for answer in reversed(answers)}
        later = [one for one in answers if one.cluster in first and one.position != first[one.cluster]]
        for answer in later:
            if taken.positions.get(answer.cluster) == answer.position:
                yield (
                    f"snapshot {snapshot.name} of {log.cluster} has {answer.position} of {answer.cluster}, whose first "
                    f"answer was {first[answer.cluster]}"
                )
            else:
                yield None


@carries("REPL-09")
def made_of_answers(topic: GeoTopic, logs: Logs) -> Iterator[Shown]:
    """A snapshot has an answer of each other cluster, and for its own position that where one of the answers stands."""
    for log, snapshot, answers in _complete(logs):
        taken = snapshot.taken
        assert taken is not None
        told = {(answer.cluster, answer.position) for answer in answers}
        missing = set(topic.clusters) - {log.cluster} - set(taken.positions)
        if missing:
            yield f"snapshot {snapshot.name} of {log.cluster} has no position of {min(missing)}"
        elif wrong := set(taken.positions.items()) - told:
            cluster, position = min(wrong)
            yield f"snapshot {snapshot.name} of {log.cluster} has {position} of {cluster}, which never told that"
        elif taken.local not in {log.entries[answer.index].position for answer in answers}:
            yield f"snapshot {snapshot.name} of {log.cluster} is for {taken.local}, where no answer is"
        else:
            yield None


@carries("REPL-07")
def made_in_two_rounds(topic: GeoTopic, logs: Logs) -> Iterator[Shown]:
    """With more than one other cluster, the answer that completes a snapshot stands behind a second request."""
    if len(topic.clusters) < 3:
        return
    for log, snapshot, answers in _complete(logs):
        taken = snapshot.taken
        assert taken is not None
        last = [answer.index for answer in answers if log.entries[answer.index].position == taken.local]
        is_behind = len(snapshot.requests) > 1 and last and last[0] > snapshot.requests[1]
        yield None if is_behind else f"{log.cluster} completed snapshot {snapshot.name} without a second round"


@carries("REPL-08")
def none_too_late(topic: GeoTopic, logs: Logs) -> Iterator[Shown]:
    """What took longer than the timeout is not completed, whoever answers later."""
    longest_ms = topic.made.timeout_ms + topic.made.period_ms + SLACK_MS
    for log in logs.values():
        for snapshot in log.snapshots:
            begun_ms = log.entries[snapshot.requests[0]].published_ms
            if snapshot.taken_index is not None:
                took_ms = log.entries[snapshot.taken_index].published_ms - begun_ms
                if took_ms > longest_ms:
                    yield f"{log.cluster} completed snapshot {snapshot.name} after {took_ms} ms"
            elif snapshot.answers:
                # When an answer came is not written down; it came behind what this cluster itself had written before.
                own = [
                    one.published_ms for one in log.entries[: snapshot.answers[-1].index] if one.origin == log.cluster
                ]
                if max(own, default=0) - begun_ms > topic.made.timeout_ms + topic.made.period_ms:
                    yield None


def _complete(logs: Logs) -> Iterator[tuple[Log, SnapshotSeen, tuple[Answer, ...]]]:
    """The snapshots that were completed, each with the answers that its cluster had by then."""
    for log in logs.values():
        for snapshot in log.snapshots:
            if snapshot.taken_index is not None:
                before = tuple(answer for answer in snapshot.answers if answer.index < snapshot.taken_index)
                yield log, snapshot, before


@carries("REPL-12")
def updates_are_snapshots_that_were_passed(topic: GeoTopic, logs: Logs) -> Iterator[Shown]:
    """An update has the positions of a snapshot that mark-delete has passed, each time of a later one.

    A broker that is killed may forget what it had passed, and pass it again.
    """
    for log in logs.values():
        for cursor in log.read.cursors:
            yield from _updates_of(log, cursor, may_have_forgotten=log.cluster in topic.killed)


def _updates_of(log: Log, cursor: GeoCursor, *, may_have_forgotten: bool) -> Iterator[Shown]:
    by_positions = {_told(one.taken.positions): one for one in log.snapshots if one.taken is not None}
    latest = -1
    for index, update in log.updates(cursor.subscription):
        at = log.entries[index].position
        snapshot = by_positions.get(_told(update.positions))
        if snapshot is None or snapshot.taken is None or snapshot.taken_index is None:
            told = _told(update.positions)
            yield f"{log.cluster} updated {cursor.subscription} at {at} to {told}, which is no snapshot"
        elif snapshot.taken_index > index:
            yield f"{log.cluster} updated {cursor.subscription} at {at} to a snapshot that was not complete"
        elif may_have_forgotten:
            yield None
        elif not is_passed(cursor, snapshot.taken.local):
            yield (
                f"{log.cluster} updated {cursor.subscription} at {at} to the snapshot for {snapshot.taken.local}, and "
                f"mark-delete is {cursor.mark_delete}"
            )
        elif snapshot.taken_index < latest:
            yield f"{log.cluster} updated {cursor.subscription} at {at} to a snapshot before that of the last update"
        else:
            latest = snapshot.taken_index
            yield None


@carries("REPL-11")
def updates_are_cached_snapshots(topic: GeoTopic, logs: Logs) -> Iterator[Shown]:
    """An update is never to a snapshot behind which the dispatcher had read as many others as are kept."""
    for (subscription, cluster), reads in topic.reads.items():
        log = logs[cluster]
        taken = [one for one in log.snapshots if one.taken_index is not None]
        by_positions = {_told(one.taken.positions): one for one in taken if one.taken is not None}
        for ahead in reads:
            read = log.count_up_to(ahead.last)
            kept = [
                one for one in taken if (one.taken_index or 0) < read and one.taken and one.taken.local >= ahead.first
            ]
            if len(kept) > topic.made.cached:
                yield None
        for index, update in log.updates(subscription):
            snapshot = by_positions.get(_told(update.positions))
            by_then = [one.last for one in reads if one.begun_ms <= log.entries[index].published_ms]
            if snapshot is None or not by_then:
                continue
            read = log.count_up_to(max(by_then))
            later = [one for one in taken if (snapshot.taken_index or 0) < (one.taken_index or 0) < read]
            if len(later) >= topic.made.cached:
                at = log.entries[index].position
                yield (
                    f"{cluster} updated {subscription} at {at} to a snapshot behind which it had read {len(later)} "
                    f"others; it keeps {topic.made.cached}"
                )


@carries("REPL-13")
def updates_take_effect(topic: GeoTopic, logs: Logs) -> Iterator[Shown]:
    """Once all has come through, each cluster has the subscription, replicated, and has passed its position."""
    if not topic.is_settled:
        return
    for log in logs.values():
        for cursor in log.read.cursors:
            for _, update in log.updates(cursor.subscription)[-1:]:
                for cluster, position in update.positions.items():
                    there = logs[cluster].cursor(cursor.subscription)
                    if there is None:
                        yield f"{log.cluster} updated {cursor.subscription}, and {cluster} has no such subscription"
                    elif not there.is_replicated:
                        yield f"{cluster} has {cursor.subscription}, which {log.cluster} updated, and not replicated"
                    elif there.mark_delete < position:
                        yield (
                            f"{log.cluster} updated {cursor.subscription} to {position} of {cluster}, "
                            f"which is at {there.mark_delete}"
                        )
                    else:
                        yield None


@carries("REPL-14")
def never_ahead(topic: GeoTopic, logs: Logs) -> Iterator[Shown]:
    """What a cluster holds for acknowledged, a consumer acknowledged somewhere: who fails over misses nothing."""
    for log in logs.values():
        for cursor in log.read.cursors:
            acknowledged = topic.acknowledged.get(cursor.subscription, frozenset())
            missed = [message for message in log.messages() if message in log.passed(cursor) - acknowledged]
            if missed:
                yield (
                    f"{log.cluster} holds {missed[0]} for acknowledged by {cursor.subscription} (mark-delete "
                    f"{cursor.mark_delete}), and no consumer acknowledged it anywhere"
                )
            elif (cursor.subscription, log.cluster) not in topic.own and log.passed(cursor):
                yield None


@carries("REPL-10")
def markers_hold_nothing_up(topic: GeoTopic, logs: Logs) -> Iterator[Shown]:
    """Where a consumer has acknowledged everything there is no backlog, whatever markers there are."""
    read = topic.read
    for log in logs.values():
        for cursor in log.read.cursors:
            is_read = read is not None and (cursor.subscription, log.cluster) in read.consumed
            everything = topic.acknowledged.get(cursor.subscription, frozenset()).issuperset(log.messages())
            if not (topic.is_settled and is_read and everything and log.entries):
                continue
            if not all(is_passed(cursor, entry.position) for entry in log.entries if entry.message is not None):
                continue  # it was acknowledged elsewhere, and not here: which REPL-15 allows
            if cursor.backlog:
                yield f"{log.cluster} counts a backlog of {cursor.backlog} for {cursor.subscription}, all of it markers"
            else:
                yield None


def _told(positions: Mapping[str, Position]) -> str:
    return ", ".join(f"{cluster} {position}" for cluster, position in sorted(positions.items()))


CHECKS: tuple[tuple[str, Callable[[GeoTopic, Logs], Iterator[Shown]]], ...] = (
    ("REPL-14", never_ahead),
    ("REPL-01", replicated_in_order),
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
    ("REPL-11", updates_are_cached_snapshots),
    ("REPL-13", updates_take_effect),
    ("REPL-10", markers_hold_nothing_up),
)
"""The rules, each with what it asks for; of several that are broken the first one is told."""
