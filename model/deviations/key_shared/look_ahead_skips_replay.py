from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.looks import (
    crowded_out,
    had_replays,
    has_dispatched,
    is_asked,
    is_woken,
    last_gone,
    last_of,
    looks,
    permitted,
    stalls,
    undispatched_at,
)
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.log import Position
from model.subscriptions.evidence import Undispatched
from model.vocabulary import SubscriptionId

ENTRY = Deviation(
    name="look-ahead-skips-replay",
    aliases=("look-ahead-at-end",),
    rule="KEY-13",
    also=("KEY-04", "KEY-05", "KEY-08", "KEY-16"),
    statement="While the broker dispatches a new or replayed message that is blocked, a consumer adds permits, leaves, requests redelivery, or drains a hash; or the time of a delayed message comes that is blocked. The dispatcher looks ahead: its next read skips the replay queue and waits at the end of the topic. Other messages in the replay queue, and delayed ones, wait although their consumers have permits.",
    cause="PersistentStickyKeyDispatcherMultipleConsumers.trySendMessagesToConsumers dispatches nothing and sets skipNextReplayToTriggerLookAhead. The read that it schedules 1 to 10 ms later skips the replay queue. Another read, which would replay, is lost in one of two ways. readMoreEntries does nothing during a dispatch (sendInProgress), which lasts from readEntriesComplete to the end of the dispatcher's thread. Or reScheduleReadInMs joins the scheduled read (isRescheduleReadInProgress), as RescheduleReadHandler does after a hash drained. The replay queue has no hash of a delayed message, so its read may find nothing to dispatch, without any race. apache/pulsar#26236 looks ahead only if there are more entries; 4.2.4 has that. apache/pulsar#24700 remembers a skipped read; it was closed because nobody could reproduce it. The flag is cleared only by a read that finds a consumer with permits: if every such consumer leaves before the scheduled read, the next permit triggers a read that skips the replay queue, without a new message. The classic dispatcher has the same flag (isDispatcherStuckOnReplays), sets it after a normal read, too, and also reads nothing during a dispatch.",
    upstream=("apache/pulsar#26236", "apache/pulsar#21554", "apache/pulsar#24700", "apache/pulsar#23845"),
    side="broker",
    releases=(">=4.0.1,<=4.0.8", "==5.0.0-M1"),
    seldom=(">=2.11,<=3.3.6",),
    seen=("4.0.8", "4.0.4", "4.0.8 classic", "2.11.0", "5.0.0-M1"),
    read=("3.3.6",),
    gone=("4.2.4",),
    occurrence="On 4.0.8 without a failpoint in every tenth play: `pulsar-conformance replay docs/histories/KEY-13-on-4.0.8.json --broker 4.0.8 --known none --times 40`. Nearly every time with the failpoint `read-slow`. With delayed messages (`docs/histories/KEY-04-on-4.0.8-delayed.json`) in 6 of 30. With the classic dispatcher (`docs/histories/KEY-16-on-4.0.8-classic.json`) in 7 of 12; in 0 of 75 on 3.3.6, which has the same code. On 2.11.0, where a consumer without permits is left alone as a message arrives and then adds permits, in 5 of 5. After a redelivery request and the leave of the last consumer with permits (`docs/histories/KEY-13-on-4.0.8-asked-left.json`), on busy cores in 2 of 32 plays on 4.0.8, and in five more otherwise.",
    shadow=Shadow(
        name="test_slow_reads_alone_excuse_nothing",
        by="small history",
        statement="With slow reads nothing is dispatched, and the broker does not wait for a new entry.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    return stalls(state, broken, _passed_over)


def _passed_over(state: Example, missing: Undispatched) -> frozenset[Position]:
    """The due entries, if a look-ahead may have passed over them. Then the broker waits for a new entry, and all of
    them are in the replay queue."""
    passed_over = missing.owed.keys() - crowded_out(missing)
    return frozenset(passed_over) if _may_be_passed_over(state, missing) else frozenset()


def _may_be_passed_over(state: Example, missing: Undispatched) -> bool:
    """This happens in four ways. The broker read a new entry although it had a reason to read the replay queue. Or it
    still read blocked messages there when redelivery was requested. Or it set its flag to skip a replay, the last
    consumer with permits left before a read cleared the flag, and the next permit triggered a read that skipped the
    replay. Or it replayed a delayed message that is blocked, of which it knew no hash; then due ones that are delayed
    may not be in the replay queue yet.
    """
    subscription = missing.subscription
    if missing.outcome is None:
        return is_woken(state, subscription) or _is_skip_kept(state, subscription)
    if missing.is_waiting and missing.in_replay and _is_delayed_message_blocked(missing):
        return True
    if not missing.is_waiting or missing.in_replay < len(missing.owed):
        return False
    if is_woken(state, subscription) and (
        _has_read_new_message(state, missing) or (_is_replaying(state, subscription) and is_asked(state, subscription))
    ):
        return True
    is_skip_kept = not missing.has_dispatched and _is_skip_kept(state, subscription)
    return is_skip_kept and bool(permitted(state, subscription))


def _has_read_new_message(state: Example, missing: Undispatched) -> bool:
    """Whether the log has an entry that was not there when the broker waited for one. A marker is new at any time."""
    log = missing.topic.log
    waited = (past for past, outcome in looks(state, missing.subscription) if outcome.is_waiting)
    read_to = next((last_of(past.after, missing.subscription) for past in waited), None)
    return log.has_markers or read_to != log.last


def _is_replaying(state: Example, subscription: SubscriptionId) -> bool:
    """Whether at the last look a read of blocked messages in the replay queue may not have ended (draining hashes)."""
    for past, outcome in looks(state, subscription):
        missing = undispatched_at(past, subscription)
        blocked = outcome.in_replay - (0 if missing is None else len(missing.owed))
        drains = past.after.consumption.topics[subscription.topic].drains
        return drains and blocked > 0 and is_woken(past.before, subscription) and not has_dispatched(outcome)
    return False


def _is_skip_kept(state: Example, subscription: SubscriptionId) -> bool:
    """Whether the last consumer with permits left while the replay queue had messages, or after a redelivery request.
    If the broker had set its flag to skip the next replay, no read has cleared it."""
    past = last_gone(state, subscription)
    return past is not None and (had_replays(past.before, subscription) or is_asked(past.before, subscription))


def _is_delayed_message_blocked(missing: Undispatched) -> bool:
    """Whether the time of a delayed message has come that is not delivered yet, and that is blocked."""
    return any(
        missing.topic.is_delayed(entry.position)
        and not entry.is_not_due
        and entry.position not in missing.keyed.got
        and entry.holder is None
        and entry.position not in missing.owed
        for entry in missing.entries
    )
