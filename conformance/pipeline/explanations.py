"""Known deviations over histories: which of them explains a case in which an invariant did not hold.

A deviation explains a case only if its precondition is in the events around that case: a reloaded topic, a batch that
is acknowledged in part, a consumer that left. It must also be known for the release, the clients and the settings of
the run (:func:`known_of_runs`); for a run that did not record these, none is.

Deviations that break no invariant over histories are left out: those of counts, last sequence ids, times of persistence
and stored cursors, and those that occur only while deduplication is switched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from conformance.history.about import ByRun
from conformance.history.recorded import GRACEFUL_RELOADS, PERHAPS_RELOADS, CallOutcome, Kind
from conformance.known import KnownDeviation
from conformance.pipeline.invariants.clusters import Replicated
from conformance.pipeline.invariants.order import starts
from conformance.pipeline.invariants.pending_acks import ends
from conformance.pipeline.topic import NEVER, Case, Flags, Ints, TopicEvents
from model.replication.tracked import REPLICATORS_ADD_BYTES

CURSOR_OPENS_NS = 5_000_000_000
"""How long after the first ack a cursor's ledger may open; ``unload-while-cursor-ledger-opens``."""


LARGEST = "maxMessageSize"
LARGEST_BY_DEFAULT = str(5 * 1024 * 1024)

RECOVERY_NS = 10_000_000_000
"""How long after a reload deduplication may still recover; ``second-recovery-not-awaited``."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The invariants that a deviation may break, by name, and its precondition."""

    deviation: str
    invariants: tuple[str, ...]
    precedes: Callable[[TopicEvents, Case], bool]


def known_of_runs(known: Iterable[KnownDeviation], about: ByRun) -> dict[str, frozenset[str]]:
    """The names of the known deviations of each run.

    A deviation of a client needs a run that recorded that client; one of a setting, a run that recorded that setting.
    """
    listed = tuple(known)
    return {
        run: frozenset(
            deviation.name
            for deviation in listed
            if recorded and all(deviation.concerns(one.release, one.clients, one.settings) for one in recorded)
        )
        for run, recorded in about.items()
    }


def largest_bytes_of_runs(about: ByRun) -> dict[str, int]:
    """The largest message size of each run in bytes; the smallest of several clusters."""
    recorded = {run: systems for run, systems in about.items() if systems}
    each = {
        run: [one.settings.get(LARGEST, LARGEST_BY_DEFAULT) for one in systems] for run, systems in recorded.items()
    }
    return {run: min(map(int, sizes)) for run, sizes in each.items() if all(one.isdecimal() for one in sizes)}


def explanations_of(invariant: str, known: frozenset[str]) -> tuple[Explanation, ...]:
    """The explanations for a violation of an invariant, in their order."""
    return tuple(one for one in EXPLANATIONS if one.deviation in known and invariant in one.invariants)


def deviation_of(topic: TopicEvents, case: Case, explanations: Iterable[Explanation]) -> str | None:
    """The first deviation of these that explains a case."""
    return next((one.deviation for one in explanations if one.precedes(topic, case)), None)


# ------------------------------------------------------------------------------------------------------- deduplication


def _sent_during_recovery(topic: TopicEvents, case: Case) -> bool:
    """The first copy was sent before a reload of the topic, and the second during it or soon after."""
    first, second = case.rows
    since, until = _sent(topic, second)
    return any(
        name in PERHAPS_RELOADS
        and _sent(topic, first)[0] <= completed_ns
        and invoked_ns <= until
        and since <= completed_ns + RECOVERY_NS
        for name, invoked_ns, completed_ns in topic.faults
    )


def _last_of_its_ledger(topic: TopicEvents, case: Case) -> bool:
    """The first copy is the last entry of its ledger; then the topic was reloaded, without a higher id in between."""
    first, second = case.rows
    if not len(topic.at_a_position(np.array([first]))):
        return False
    logs = topic.rows(Kind.LOG)
    ledger, place = topic.numbers("ledger", 0), topic.place
    after = logs[place[logs] > place[first]]
    between = after[(after < second) & (topic.codes("producer")[after] == topic.codes("producer")[second])]
    is_last = bool(len(after)) and ledger[after[0]] != ledger[first]
    is_it = _id(topic, first) == _id(topic, second)
    is_highest = is_it and bool(np.all(topic.numbers("sequence_id", -1)[between] <= _id(topic, first)))
    return (
        is_last and is_highest and _had_fault(topic, PERHAPS_RELOADS, _sent(topic, first)[0], _sent(topic, second)[1])
    )


def _second_begins_later(topic: TopicEvents, case: Case) -> bool:
    """The first copy is not the first of its batch; the second is alone, or in a batch that begins later."""
    first, second = case.rows
    begins = [_lowest_of_entry(topic, row) for row in case.rows]
    return topic.numbers("batch_index", -1)[first] > 0 and begins[0] < begins[1] <= _id(topic, second)


def _lowest_of_entry(topic: TopicEvents, row: int) -> int:
    logs = topic.rows(Kind.LOG)
    own = logs[topic.place[logs] == topic.place[row]]
    return int(topic.numbers("sequence_id", -1)[own].min())


def _reloaded_there(topic: TopicEvents, case: Case) -> bool:
    """The topic was reloaded in the cluster that has both copies, after the send of the message began."""
    assert isinstance(topic, Replicated)
    sent_ns, _ = _sent(topic, case.rows[0])
    return _had_fault(topic.cluster_of(case.rows[1]), PERHAPS_RELOADS, sent_ns, NEVER)


def _too_large_to_replicate(topic: TopicEvents, case: Case) -> bool:
    """The entry leaves no room for the fields that replicators add, and some cluster lacks the message.

    All payloads of a batch count together.
    """
    assert isinstance(topic, Replicated)
    row = case.rows[0]
    there = topic.logs[topic.place[topic.logs] == topic.place[row]]
    size_bytes = int(topic.numbers("size_bytes", 0)[there].sum())
    room_bytes = topic.setting.largest_bytes.get(topic.identity[0], NEVER) - size_bytes
    is_everywhere = topic.are_everywhere[topic.of_logs(np.array([row]))[0]]
    return 0 <= room_bytes < REPLICATORS_ADD_BYTES and not is_everywhere


# ------------------------------------------------------------------------------------------------------------ chunking


def _sent_again_without_its_last(topic: TopicEvents, case: Case) -> bool:
    """Its source sent it again, or a fault hit the send; and the log has its last chunk once at most."""
    message = case.rows[-1]
    sends = topic.rows(Kind.SEND)
    is_sent_again = int(np.sum(_same_message(topic, message, sends))) > 1
    return len(_last_chunks(topic, message)) <= 1 and (is_sent_again or _had_fault(topic, None, *_sent(topic, message)))


def _reloaded_while_sent(topic: TopicEvents, case: Case) -> bool:
    """The topic was reloaded during the send of the message, and its last chunk is not in the log."""
    message = case.rows[0]
    return not len(_last_chunks(topic, message)) and _had_fault(topic, PERHAPS_RELOADS, *_sent(topic, message))


def _only_its_first(topic: TopicEvents, case: Case) -> bool:
    """The log has only the first chunk of the confirmed message."""
    logs = topic.rows(Kind.LOG)
    own = logs[_same_message(topic, case.rows[0], logs)]
    return bool(len(own)) and bool(np.all(topic.numbers("chunk_id", -1)[own] == 0))


def _last_chunks(topic: TopicEvents, row: int) -> Ints:
    """The last chunks of a message, under any uuid."""
    logs = topic.rows(Kind.LOG)
    logs = logs[_same_message(topic, row, logs)]
    last: Ints = logs[topic.numbers("chunk_id", -1)[logs] == topic.numbers("chunks", 0)[row] - 1]
    return last


# ------------------------------------------------------------------------------------------------------ acknowledgment


def _unloaded_as_ledger_opened(topic: TopicEvents, case: Case) -> bool:
    """A graceful unload came shortly after the first acknowledgment of the subscription since the topic was loaded."""
    earlier, later = case.rows
    acks = topic.of(int(topic.codes("subscription")[earlier]), topic.rows(Kind.ACK, Kind.ACK_CUMULATIVE))
    for name, invoked_ns, _ in topic.faults:
        if name not in GRACEFUL_RELOADS or not topic.invoked[earlier] <= invoked_ns <= topic.completed[later]:
            continue
        loaded_ns = max(
            (ends for other, _, ends in topic.faults if other in PERHAPS_RELOADS and ends < invoked_ns), default=-1
        )
        since = acks[(topic.invoked[acks] > loaded_ns) & (topic.invoked[acks] <= invoked_ns)]
        opened = topic.invoked[since].min(initial=NEVER)
        if topic.invoked[earlier] > loaded_ns and opened >= invoked_ns - CURSOR_OPENS_NS and len(since):
            return True
    return False


def _unloaded_with_a_partial_batch(topic: TopicEvents, case: Case) -> bool:
    """A graceful unload happened while a part of the message's batch was not acknowledged."""
    ack, given = case.rows
    if topic.numbers("batch_index", -1)[given] < 0:
        return False
    return any(
        name in GRACEFUL_RELOADS
        and topic.invoked[ack] <= completed_ns
        and invoked_ns <= topic.invoked[given]
        and not _is_acknowledged_whole(topic, given, invoked_ns)
        for name, invoked_ns, completed_ns in topic.faults
    )


def _is_acknowledged_whole(topic: TopicEvents, given: int, by_ns: int) -> bool:
    """Whether all known messages of a message's batch were surely acknowledged by then."""
    batch = np.unique(topic.message[topic.place == topic.place[given]])
    acks = topic.rows(Kind.ACK, Kind.ACK_CUMULATIVE, outcomes=[CallOutcome.OK])
    acks = topic.at_a_position(topic.of(int(topic.codes("subscription")[given]), acks))
    acks = acks[topic.completed[acks] <= by_ns]
    is_cumulative = topic.are(Kind.ACK_CUMULATIVE, acks)
    alone = np.isin(batch, topic.message[acks[~is_cumulative]])
    furthest = topic.message[acks[is_cumulative]].max(initial=-1)
    return bool(np.all(alone | (batch <= furthest)))


def _overwritten_within_the_batch(topic: TopicEvents, case: Case) -> bool:
    """After the message was acknowledged, a cumulative acknowledgment ended in its batch, before it."""
    ack, given = case.rows
    acks = topic.rows(Kind.ACK_CUMULATIVE, outcomes=[CallOutcome.OK, CallOutcome.UNKNOWN])
    acks = topic.of(int(topic.codes("subscription")[given]), acks)
    index = topic.numbers("batch_index", -1)
    inside = (topic.place[acks] == topic.place[given]) & (index[acks] >= 0) & (index[acks] < index[given])
    in_time = (topic.completed[acks] >= topic.invoked[ack]) & (topic.invoked[acks] <= topic.invoked[given])
    return bool(np.any(inside & in_time))


# -------------------------------------------------------------------------------------------------- joins and leaves


def _replayed_to_next_consumer(topic: TopicEvents, case: Case) -> bool:
    """All consumers left while the message was pending; it was then dispatched exactly twice."""
    again = case.rows[1]
    given = topic.of(int(topic.codes("subscription")[again]), topic.rows(Kind.DISPATCH))
    given = given[topic.message[given] == topic.message[again]]
    sent = np.sort(topic.invoked[given])
    return any(
        np.sum(sent < left_ns) > 0 and np.sum(sent >= left_ns) == 2
        for left_ns in _times_without_consumers(topic, case.rows[0])
    )


def _replayed_beside_new_messages(topic: TopicEvents, case: Case) -> bool:
    """The message was returned, a new one was dispatched before its redelivery, and it was dispatched exactly twice."""
    first, again = case.rows
    subscription = int(topic.codes("subscription")[again])
    given = topic.at_a_position(topic.of(subscription, topic.rows(Kind.DISPATCH)))
    begun = starts(topic, given)
    is_it = topic.message[given] == topic.message[again]
    came_ns = int(begun[given == first][0])
    back = ends(topic, subscription, given, begun)[is_it & (begun < came_ns)]
    # A consumer that left between the send and the first receipt may have had it pending, without receiving it.
    sent_ns = topic.invoked[_sent_there(topic, again)].min(initial=NEVER)
    left = topic.of(subscription, topic.rows(Kind.UNSUBSCRIBE))
    left = left[(topic.completed[left] >= sent_ns) & (topic.invoked[left] <= came_ns)]
    back_ns = max(back.max(initial=-1), topic.invoked[left].max(initial=-1))
    if back_ns < 0:
        return False
    came_first = np.full(topic.messages, NEVER)
    np.minimum.at(came_first, topic.message[given], begun)
    is_new = (begun == came_first[topic.message[given]]) & (topic.message[given] > topic.message[again])
    again_ns = int(begun[given == again][0])
    has_new_message = bool(np.any(is_new & (begun >= back_ns) & (begun <= again_ns)))
    is_beside = has_new_message or _markers_were_read(topic, came_first, back_ns, again_ns)
    return is_beside and int(np.sum(is_it & (begun >= back_ns))) == 2


def _markers_were_read(topic: TopicEvents, came_first: Ints, since_ns: int, until_ns: int) -> bool:
    """Whether the dispatcher may have read markers in that time: new entries that no consumer receives.

    They are in gaps of the log, between a message dispatched by then and one dispatched later.
    """
    logs = topic.rows(Kind.LOG)
    if not topic.is_replicated or len(logs) < 2:
        return False
    before, after = logs[:-1], logs[1:]
    ledger, entry = topic.numbers("ledger", 0), topic.numbers("entry", 0)
    is_gap = (ledger[after] == ledger[before]) & (entry[after] > entry[before] + 1)
    was_near = (came_first[topic.message[before]] <= until_ns) & (came_first[topic.message[after]] >= since_ns)
    return bool(np.any(is_gap & was_near))


def _times_without_consumers(topic: TopicEvents, row: int) -> list[int]:
    """The times at which this row's subscription may have lost its last consumer."""
    subscription = int(topic.codes("subscription")[row])
    joins, leaves = (topic.of(subscription, topic.rows(kind)) for kind in (Kind.SUBSCRIBE, Kind.UNSUBSCRIBE))
    times = topic.completed[leaves].tolist()
    return [
        at_ns for at_ns in times if np.sum(topic.completed[joins] <= at_ns) <= np.sum(topic.invoked[leaves] <= at_ns)
    ]


def _read_before_all_left(topic: TopicEvents, case: Case) -> bool:
    """All consumers left, and the consumer that joined next received the later message first."""
    overtaking, _ = case.rows
    joins = topic.of(int(topic.codes("subscription")[overtaking]), topic.rows(Kind.SUBSCRIBE))
    joins = joins[topic.codes("consumer")[joins] == topic.codes("consumer")[overtaking]]
    joined = topic.completed[joins[topic.completed[joins] <= topic.completed[overtaking]]]
    return any(left_ns <= joined.max(initial=-1) for left_ns in _times_without_consumers(topic, overtaking))


def _left_without_pending_acks(topic: TopicEvents, case: Case) -> bool:
    """A consumer without pending acks left; since then nothing was stored or dispatched."""
    _, reading = case.rows
    subscription = int(topic.codes("subscription")[reading])
    given = topic.at_a_position(topic.of(subscription, topic.rows(Kind.DISPATCH)))
    until = ends(topic, subscription, given, starts(topic, given))
    consumer = topic.codes("consumer")
    return any(
        _is_silent(topic, given, topic.invoked[left], topic.invoked[reading])
        and not np.any(until[consumer[given] == consumer[left]] >= topic.invoked[left])
        for left in topic.of(subscription, topic.rows(Kind.UNSUBSCRIBE))
    )


def _acknowledged_in_replay_queue(topic: TopicEvents, case: Case) -> bool:
    """A message in the replay queue was acknowledged; since then nothing was stored or dispatched."""
    _, reading = case.rows
    subscription = int(topic.codes("subscription")[reading])
    given, acks = (topic.at_a_position(topic.of(subscription, topic.rows(kind))) for kind in (Kind.DISPATCH, Kind.ACK))
    asks = topic.of(subscription, topic.rows(Kind.NACK, Kind.REDELIVER))
    for ack in acks[topic.completed[acks] <= topic.invoked[reading]]:
        of_message = (topic.message[asks] == topic.message[ack]) | topic.are(Kind.REDELIVER, asks)
        own = asks[of_message & (topic.codes("consumer")[asks] == topic.codes("consumer")[ack])]
        asked_ns = topic.invoked[own[topic.completed[own] <= topic.invoked[ack]]].max(initial=-1)
        came = given[(topic.message[given] == topic.message[ack]) & (starts(topic, given) >= asked_ns)]
        is_waiting = asked_ns >= 0 and not np.any(starts(topic, came) <= topic.invoked[ack])
        if is_waiting and _is_silent(topic, given, topic.completed[ack], topic.invoked[reading]):
            return True
    return False


def _is_silent(topic: TopicEvents, given: Ints, since_ns: int, until_ns: int) -> bool:
    """Whether nothing was dispatched in that time, and no send was confirmed."""
    sends = topic.completed[topic.rows(Kind.SEND)]
    return since_ns <= until_ns and not any(
        np.any((times > since_ns) & (times <= until_ns)) for times in (starts(topic, given), sends)
    )


def _joined_before_the_second(topic: TopicEvents, case: Case) -> bool:
    """The second consumer joined after the first one, and after the send of the message that it received."""
    holding, given = case.rows
    joins = topic.of(int(topic.codes("subscription")[given]), topic.rows(Kind.SUBSCRIBE))
    consumer = topic.codes("consumer")
    joined, before = (joins[consumer[joins] == consumer[row]] for row in (given, holding))
    joined = joined[topic.invoked[joined] <= topic.completed[given]]
    if not len(joined) or not len(before):
        return False
    sent_ns = topic.invoked[_sent_there(topic, given)].min(initial=NEVER)
    latest = topic.completed[joined].max()
    return bool(latest >= topic.completed[before].min() and latest >= sent_ns)


# -------------------------------------------------------------------------------------------------------- shared parts


def _had_fault(topic: TopicEvents, names: frozenset[str] | None, since_ns: int, until_ns: int) -> bool:
    """Whether a fault of these names (None: any) overlaps this time."""
    return any(
        (names is None or name in names) and invoked_ns <= until_ns and completed_ns >= since_ns
        for name, invoked_ns, completed_ns in topic.faults
    )


def _sent(topic: TopicEvents, row: int) -> tuple[int, int]:
    """The time in which the message of this row was sent, or may have been.

    It is that of the send that was confirmed at this position, or else of all sends of the message. A send with unknown
    outcome may be repeated without end. A message without a recorded send has an empty time.
    """
    sends = topic.rows(Kind.SEND)
    own = _sent_there(topic, row)
    own = own if len(own) else sends[_same_message(topic, row, sends)]
    if not len(own):
        return NEVER, -NEVER
    is_open = np.isin(own, topic.rows(Kind.SEND, outcomes=[CallOutcome.UNKNOWN]))
    return int(topic.invoked[own].min()), NEVER if is_open.any() else int(topic.completed[own].max())


def _sent_there(topic: TopicEvents, row: int) -> Ints:
    """The sends that were confirmed at the position of this row."""
    sends = topic.rows(Kind.SEND)
    there: Ints = sends[topic.message[sends] == topic.message[row]]
    return there


def _same_message(topic: TopicEvents, row: int, others: Ints) -> Flags:
    producer, ids = topic.codes("producer"), topic.numbers("sequence_id", -1)
    same: Flags = (producer[others] == producer[row]) & (ids[others] == ids[row])
    return same


def _id(topic: TopicEvents, row: int) -> int:
    return int(topic.numbers("sequence_id", -1)[row])


AGAIN = ("delivered again",)

STUCK = ("keys stuck",)

EXPLANATIONS = (
    Explanation("snapshot-position-ahead", ("stored twice", "forgotten"), _last_of_its_ledger),
    Explanation("second-recovery-not-awaited", ("stored twice", "forgotten"), _sent_during_recovery),
    Explanation("batch-without-highest-id", ("stored twice",), _second_begins_later),
    Explanation("recovery-ignores-replicator-positions", ("replicated twice",), _reloaded_there),
    Explanation("too-large-to-replicate", ("not replicated", "ahead", "missed everywhere"), _too_large_to_replicate),
    Explanation("chunk-each-deduplicated", ("stored whole",), _only_its_first),
    Explanation("chunk-recovery-counts-unfinished", ("stored once in order", "stored whole"), _reloaded_while_sent),
    Explanation("chunk-only-last-deduplicated", ("stored once in order",), _sent_again_without_its_last),
    Explanation("unload-while-cursor-ledger-opens", (*AGAIN, "mark delete back"), _unloaded_as_ledger_opened),
    Explanation("batch-index-acks-not-recovered", AGAIN, _unloaded_with_a_partial_batch),
    Explanation("batch-index-acks-overwritten", AGAIN, _overwritten_within_the_batch),
    Explanation("replay-read-outlives-consumers", (*AGAIN, "shared one at a time"), _replayed_to_next_consumer),
    Explanation("send-in-progress-cleared-early", ("shared one at a time",), _replayed_beside_new_messages),
    Explanation("recently-joined-receives-replay", ("one consumer at a time",), _joined_before_the_second),
    Explanation("pending-read-outlives-consumers", ("keys in order",), _read_before_all_left),
    Explanation("leave-triggers-no-read", STUCK, _left_without_pending_acks),
    Explanation("replay-hash-kept-after-ack", STUCK, _acknowledged_in_replay_queue),
)
"""The explanations, those with stricter preconditions first."""
