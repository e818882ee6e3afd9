"""Properties of the reference topic under any behaviour of clients, the log and crashes.

Unlike those of the explorations, these clients are not well-behaved: any id at any time, overlapping batches, long
histories.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import hypothesis.strategies as st
from hypothesis import given, settings
from msgspec.structs import replace

from model.deduplication import reference as broker
from model.deduplication.producer_state import NONE
from model.deduplication.reference import SessionAnswers, Snapshot, Topic
from model.events import Duplicate, Stored
from model.vocabulary import Entry
from tests.model.deduplication.entries import entry, stored_ids

PRODUCERS = ("A", "B", "C")

entries = st.lists(st.integers(0, 12), min_size=1, max_size=3, unique=True).map(lambda ids: entry(*sorted(ids)))


@dataclass
class TopicHistory:
    """A topic, all its stored snapshots, and which entries were confirmed to which producer."""

    topic: Topic
    snapshots: list[Snapshot] = field(default_factory=list)
    confirmed: list[tuple[str, Entry]] = field(default_factory=list)

    def hear(self, heard: SessionAnswers) -> None:
        for message in heard:
            if isinstance(message.answer, Stored | Duplicate):
                self.confirmed.append((message.session, message.entry))

    def send(self, producer: str, sent: Entry) -> None:
        if producer not in dict(self.topic.sessions):
            self.topic, _ = broker.open_producer(self.topic, producer, producer)
        if producer in dict(self.topic.sessions):
            self.topic, heard = broker.send(self.topic, producer, sent)
            self.hear(heard)

    def write(self, fails: bool) -> None:
        if self.topic.in_flight:
            finish = broker.fail_next_write if fails or self.topic.failing else broker.complete_next_write
            self.topic, heard = finish(self.topic)
            self.hear(heard)

    def cut(self, producer: str) -> None:
        if producer in dict(self.topic.sessions):
            self.topic = broker.cut(self.topic, producer)

    def snapshot(self, choice: int) -> None:
        choices = sorted(broker.snapshot_choices(self.topic), key=sorted)
        self.topic = broker.take_snapshot(self.topic, choices[choice % len(choices)])
        assert self.topic.snapshot is not None
        self.snapshots.append(self.topic.snapshot)

    def crash(self, reached: int) -> None:
        crashed = broker.crash(self.topic, reached=min(reached, broker.may_reach(self.topic)))
        self.topic = broker.recover(crashed)


Act = Callable[[TopicHistory], None]

producers = st.sampled_from(PRODUCERS)
without_crashes: st.SearchStrategy[Act] = st.one_of(
    st.builds(lambda producer, sent: lambda story: story.send(producer, sent), producers, entries),
    st.builds(lambda producer, sent: lambda story: story.send(producer, sent), producers, entries),
    st.builds(lambda fails: lambda story: story.write(fails), st.sampled_from([False, False, False, True])),
    st.builds(lambda producer: lambda story: story.cut(producer), producers),
    st.builds(lambda choice: lambda story: story.snapshot(choice), st.integers(0, 5)),
)
crashes: st.SearchStrategy[Act] = st.builds(lambda reached: lambda story: story.crash(reached), st.integers(0, 5))
histories = st.lists(without_crashes | crashes, max_size=40)


def play(history: list[Act]) -> TopicHistory:
    """The topic after a history, with the shortest possible ledgers."""
    story = TopicHistory(broker.new_topic(entries_per_ledger=2, max_producers=len(PRODUCERS)))
    for act in history:
        act(story)
    return story


def highest(topic: Topic, producer: str) -> int:
    return max(stored_ids(topic, producer), default=NONE)


@given(histories)
def test_the_stored_ids_of_a_producer_rise(history: list[Act]) -> None:
    topic = play(history).topic
    for producer in PRODUCERS:
        assert all(before < after for before, after in pairwise(stored_ids(topic, producer)))


@given(histories)
def test_positions_rise_by_one_within_a_ledger(history: list[Act]) -> None:
    positions = [logged.position for logged in play(history).topic.log]
    for before, after in pairwise(positions):
        if before.ledger == after.ledger:
            assert after.entry == before.entry + 1
        else:
            assert after.ledger > before.ledger
            assert after.entry == 0
    assert all(position.entry < 2 for position in positions)


@given(histories)
def test_every_confirmed_id_is_at_most_the_highest_stored_one(history: list[Act]) -> None:
    story = play(history)
    for producer, sent in story.confirmed:
        assert sent.highest <= highest(story.topic, producer)


@given(histories)
def test_pushed_is_the_highest_id_written_and_persisted_the_highest_stored(history: list[Act]) -> None:
    topic = play(history).topic
    for producer in PRODUCERS:
        assert topic.persisted_of(producer) == highest(topic, producer)
        flying = [write.entry.highest for write in topic.in_flight if write.producer == producer]
        if not topic.failing:
            assert topic.pushed_of(producer) == max([highest(topic, producer), *flying])


@given(histories)
def test_recovery_from_any_snapshot_finds_the_ids_of_the_whole_log(
    history: list[Act],
) -> None:
    story = play(history)
    for snapshot in (Snapshot(), *story.snapshots):
        recovered = broker.recovered_ids(replace(story.topic, snapshot=snapshot))
        assert {name: recovered.of(name) for name in PRODUCERS} == {
            name: highest(story.topic, name) for name in PRODUCERS
        }


@given(st.lists(without_crashes, max_size=40))
def test_recovery_forgets_only_producers_that_a_full_snapshot_left_out(history: list[Act]) -> None:
    story = TopicHistory(broker.new_topic(entries_per_ledger=2, max_producers=1))
    for act in history:
        act(story)
    for snapshot in story.snapshots:
        recovered = broker.recovered_ids(replace(story.topic, snapshot=snapshot))
        for producer in PRODUCERS:
            own = [logged for logged in story.topic.log if logged.producer == producer]
            is_behind = any(snapshot.position is None or logged.position > snapshot.position for logged in own)
            is_remembered = producer in snapshot.highest.producers or is_behind
            assert recovered.of(producer) == (highest(story.topic, producer) if is_remembered else NONE)


@given(histories, st.integers(0, 5))
def test_a_crash_loses_no_confirmed_entry(history: list[Act], reached: int) -> None:
    story = play(history)
    before = story.topic.log
    story.crash(reached)
    assert story.topic.log[: len(before)] == before
    for producer, sent in story.confirmed:
        assert sent.highest <= story.topic.persisted_of(producer)


@given(histories, producers, st.integers(0, 12))
@settings(max_examples=200)
def test_with_no_entry_in_flight_every_id_is_either_new_or_a_duplicate(
    history: list[Act], producer: str, sequence_id: int
) -> None:
    story = play(history)
    while story.topic.in_flight:
        story.write(fails=False)
    is_new = sequence_id > highest(story.topic, producer)
    judgement = broker.judge(story.topic, producer, entry(sequence_id))
    assert judgement is (broker.Judgement.NEW if is_new else broker.Judgement.DUPLICATE)
