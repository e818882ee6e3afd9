"""One topic in several clusters: see :mod:`tests.pipeline.oracle`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from conformance.history.recorded import Kind, Recorded
from conformance.pipeline.topic import VerificationSetting
from tests.pipeline.oracle.relations import (
    History,
    differ,
    entry,
    has_no_key_of,
    invoked,
    is_deduplicated,
    leaves_out,
    of,
    ok,
    position,
    read_at,
)

Message = tuple[str, str, int, int, int | None]


def clusters(history: History) -> list[History]:
    """The events of each cluster that replicates the topic; none if there is only one."""
    names = sorted({topic.cluster for topic in of(history, Kind.TOPIC) if topic.replicated})
    return [[one for one in history if one.cluster == name] for name in names] if len(names) > 1 else []


def messages(history: History) -> list[tuple[Recorded, Message]]:
    """The entries of a cluster's log that can be identified, in order."""
    return [(log, message(log)) for log in of(history, Kind.LOG) if log.producer and log.sequence_id is not None]


def message(log: Recorded) -> Message:
    assert log.producer is not None
    assert log.sequence_id is not None
    return log.replicated_from or log.cluster, log.producer, log.sequence_id, log.batch_index, log.chunk_id


def ways(history: History) -> Iterator[tuple[History, History, list[tuple[Recorded, Message]], list[Message]]]:
    """From one cluster to another: both, the copies in the other one, and the messages of the first."""
    for source in clusters(history):
        for target in clusters(history):
            if source is target or source[0].cluster == target[0].cluster:
                continue
            name = source[0].cluster
            copies = [(log, one) for log, one in messages(target) if one[0] == name]
            yield source, target, copies, [one for _, one in messages(source) if one[0] == name]


def not_replicated(history: History, _: VerificationSetting) -> bool:
    """Replicated before the other log was read back, and not in it."""
    for source, target, copies, _own in ways(history):
        read = read_at(target)
        for passed in ok(of(source, Kind.PASSED_ON, placed=True)):
            for log, one in messages(source):
                is_due = one[0] == log.cluster and log.ledger is not None and entry(log) <= entry(passed)
                is_in_time = read is not None and passed.completed_ns <= read
                if is_due and is_in_time and one not in [other for _, other in copies]:
                    return True
    return False


def replicated_twice(history: History, _: VerificationSetting) -> bool:
    """With deduplication, stored there twice, although its own cluster has it at most once."""
    for _source, target, copies, own in ways(history):
        there = [one for _, one in copies]
        if is_deduplicated(target) and any(there.count(one) > 1 >= own.count(one) for one in there):
            return True
    return False


def replicated_out_of_order(history: History, _: VerificationSetting) -> bool:
    """Its first copy is after one that it precedes in its own cluster."""
    for _source, _target, copies, own in ways(history):
        there = [one for _, one in copies]
        for one in own:
            for other in own:
                is_before = own.index(one) < own.index(other) and {one, other} <= set(there)
                if is_before and there.index(one) > there.index(other):
                    return True
    return False


def replicated_otherwise(history: History, _: VerificationSetting) -> bool:
    """Its own cluster has it once, with another payload or key."""
    for source, _target, copies, own in ways(history):
        originals = {one: log for log, one in messages(source) if own.count(one) == 1}
        no_key = has_no_key_of([(originals[one], log) for log, one in copies if one in originals])
        for log, one in copies:
            for original, other in messages(source):
                differs = differ(log.digest, original.digest) or (not no_key and log.key != original.key)
                if one == other and own.count(one) == 1 and differs:
                    return True
    return False


def from_no_cluster(history: History, _: VerificationSetting) -> bool:
    """In the log as a message of its own cluster or of one without the topic."""
    names = {part[0].cluster for part in clusters(history)}
    return any(
        log.replicated_from is not None and (log.replicated_from not in names or log.replicated_from == log.cluster)
        for part in clusters(history)
        for log in of(part, Kind.LOG)
    )


def without_original(history: History, _: VerificationSetting) -> bool:
    """Before a copy whose original is in the log that was read back, and its own is not."""
    for source, _target, copies, own in ways(history):
        there = [one in own for _, one in copies]
        if read_at(source) is not None and any(not there[index] and any(there[index:]) for index in range(len(there))):
            return True
    return False


def replicated_subscriptions(history: History) -> Iterator[list[History]]:
    """For each of them: its events in each cluster, with those of no subscription; created at most once in each."""
    parts = clusters(history)
    replicated = [one for part in parts for one in of(part, Kind.BEGIN, Kind.SUBSCRIBE) if one.replicated]
    for name in sorted({one.subscription for one in replicated if one.subscription is not None}):
        own: list[History] = [[one for one in part if one.subscription in (name, None)] for part in parts]
        begins = [len(of(part, Kind.BEGIN, placed=True)) for part in own]
        if max(begins) == 1:
            yield own


def has_to_give(one: Message, parts: list[History]) -> bool:
    """Whether a message is after the subscription's start in every cluster that has both."""
    return all(
        entry(log) > entry(begin)
        for part in parts
        for begin in of(part, Kind.BEGIN, placed=True)
        for log, other in messages(part)
        if other == one and log.ledger is not None
    )


def settled(one: Message, parts: list[History], by_ns: float) -> bool:
    """Whether it was perhaps acknowledged or skipped in some cluster."""
    return any(
        invoked(event) <= by_ns
        for part in parts
        for log, other in messages(part)
        if other == one and log.ledger is not None
        for event in leaves_out([event for event in part if event.subscription is not None], log)
    )


def ahead(history: History, _: VerificationSetting) -> bool:
    """Mark-delete covers a message that no consumer acknowledged anywhere."""
    for parts in replicated_subscriptions(history):
        for part in parts:
            for reading in ok(of(part, Kind.CURSOR, placed=True)):
                for log, one in messages(part):
                    is_last = (log.chunk_id or 0) + 1 >= (1 if log.chunks is None else log.chunks)
                    is_covered = reading.subscription and log.ledger is not None and entry(log) <= entry(reading)
                    if not is_last or not is_covered or not has_to_give(one, parts):
                        continue
                    if not settled(one, parts, reading.completed_ns):
                        return True
    return False


def missed_everywhere(history: History, _: VerificationSetting) -> bool:
    """One cluster has no backlog, and no consumer anywhere received the message."""
    for parts in replicated_subscriptions(history):
        given = {one for part in parts for one in given_in(part)}
        for part in parts:
            drained = [one for one in ok(of(part, Kind.DRAINED, placed=True)) if one.subscription]
            for log, one in messages(part):
                is_due = log.chunk_id is None and log.ledger is not None and has_to_give(one, parts)
                is_missing = one not in given and not settled(one, parts, float("inf"))
                if is_due and is_missing and drained and entry(log) <= max(map(entry, drained)):
                    return True
    return False


def left_behind(history: History, setting: VerificationSetting) -> bool:
    """Mark-delete does not cover it long after the other cluster's did and advanced, with no fault since."""
    for parts in replicated_subscriptions(history):
        if any(one.subscription for part in parts for one in of(part, Kind.SEEK)):
            continue
        for part in parts:
            for reading in readings_in(part):
                since = invoked(reading) - setting.follows_within_ns
                faults = [fault for other in parts for fault in of(other, Kind.FAULT)]
                if any(invoked(one) <= invoked(reading) and one.completed_ns >= since for one in faults):
                    continue
                others = [other for other in parts if other is not part]
                if any(passed_there(other, since, setting) & still_here(part, reading, parts) for other in others):
                    return True
    return False


def readings_in(part: History) -> list[Recorded]:
    return [one for one in ok(of(part, Kind.CURSOR, placed=True)) if one.subscription]


def still_here(part: History, reading: Recorded, parts: list[History]) -> set[Message]:
    """The messages of the subscription that a reading in this cluster does not cover."""
    behind = [one for log, one in messages(part) if log.ledger is not None and entry(log) > entry(reading)]
    passed = [one for log, one in messages(part) if log.ledger is not None and entry(log) <= entry(reading)]
    return {one for one in behind if one not in passed and has_to_give(one, parts)}


def passed_there(part: History, since: int, setting: VerificationSetting) -> set[Message]:
    """The messages that another cluster covered in the first half of the time, and advanced from."""
    until = since + setting.follows_within_ns // 2
    positions = [entry(one) for one in readings_in(part) if invoked(one) >= since and one.completed_ns < until]
    passed = {at for at in positions if at < max(positions)}
    return {one for log, one in messages(part) if log.ledger is not None and any(entry(log) <= at for at in passed)}


def given_in(part: History) -> Iterator[Message]:
    """The messages that the subscription's consumers received in a cluster: of several at a position, the last."""
    for given in of(part, Kind.DISPATCH, placed=True):
        if given.subscription is not None:
            there = [one for log, one in messages(part) if log.ledger is not None and position(log) == position(given)]
            yield from there[-1:]


ORACLE_OF_CLUSTERS: dict[str, Callable[[History, VerificationSetting], bool]] = {
    broken.__name__.replace("_", " "): broken
    for broken in (
        not_replicated,
        from_no_cluster,
        without_original,
        replicated_twice,
        replicated_out_of_order,
        replicated_otherwise,
        left_behind,
        ahead,
        missed_everywhere,
    )
}
"""By the name of the invariant."""
