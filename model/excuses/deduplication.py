"""The deviations from document 000: deduplication."""

from __future__ import annotations

from model.deviation import Deviation, Shadow

SNAPSHOT_POSITION_AHEAD = "snapshot-position-ahead"
DEDUPLICATION_ENABLED_IN_FLIGHT = "deduplication-enabled-in-flight"
TOPIC_POLICY_APPLIED_LATE = "topic-policy-applied-late"

DEVIATIONS = (
    Deviation(
        name=TOPIC_POLICY_APPLIED_LATE,
        rule="DEDUP-01",
        also=("DEDUP-02", "DEDUP-09", "DEDUP-12"),
        statement="After a restart, a topic that switches deduplication off by its own policy, in a namespace that switches it on, is deduplicated until the broker has read the policy. A topic that switches it on is not, and forgets its sequence ids: what was stored before does not count any more.",
        cause="The broker reads the policies of a namespace's topics from its topic __change_events once it has loaded a topic of that namespace, and accepts producers of that topic before it has read them. Its log says that deduplication is enabled, and nothing about the policy yet (2.11.0). If deduplication is off without the policy, MessageDeduplication.checkStatus deletes the cursor with the snapshot as the topic is loaded. When the policy is read, the new cursor begins at the end of the log.",
        side="broker",
        releases=("==2.11.0",),
        seen=("2.11.0",),
        gone=("3.3.6", "4.0.8"),
        occurrence="In 6 of 6 replays of 6 steps; ids were forgotten in 4 of 4 replays.",
        shadow=Shadow(
            name="test_a_policy_that_is_applied_late_excuses_only_the_first_two_seconds_after_a_restart",
            by="small history",
            statement="A message is refused or confirmed as a duplicate although no earlier one had its sequence id, after an unload without a restart, or more than two seconds after the load.",
        ),
    ),
    Deviation(
        name=SNAPSHOT_POSITION_AHEAD,
        rule="DEDUP-12",
        statement="A snapshot that is taken while a full ledger closes has the position of the ledger's last entry, but not its sequence id. After an unload that message is stored twice.",
        cause="The timer takes the last confirmed entry as the snapshot's position (4.0.8: MessageDeduplication, line 673). The last entry of a ledger is confirmed before the ledger closes (OpAddEntry, line 273), and its sequence id is recorded afterwards (lines 279 and 312). 3.0.7, 4.2.4 and 5.0.0-M1 have the same code.",
        side="broker",
        releases=(">=2.11,<=5.0.1",),
        seen=("4.0.8", "3.3.6", "2.11.0", "5.0.1"),
        shadow=Shadow(name="replay-skips-one", statement="The replay leaves out the first entry after the snapshot."),
    ),
    Deviation(
        name=DEDUPLICATION_ENABLED_IN_FLIGHT,
        aliases=("switched-on-in-flight",),
        rule="DEDUP-03",
        statement="A message that is in flight while deduplication is enabled is stored again if it is sent again.",
        cause="MessageDeduplication.recordMessagePersisted raises only the highest id persisted (4.0.8, line 533), and isDuplicate compares with the highest id pushed first (line 454). 3.0.7, 4.2.4 and 5.0.0-M1 have the same code.",
        side="broker",
        releases=("==2.6.0", ">=2.11,<=5.0.1"),
        seen=("4.0.8", "3.3.6", "2.11.0", "2.6.0", "5.0.1"),
        shadow=Shadow(
            name="test_an_entry_in_flight_is_stored_again_only_once_and_not_after_a_duplicate",
            by="small history",
            statement="The message is stored again although it was confirmed as a duplicate before, or a message of another producer is.",
            missed_before=True,
        ),
    ),
)
