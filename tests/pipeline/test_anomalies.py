"""Sound histories hold; each invariant is broken by each anomaly that is planted for it, and plainly so."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.history.parquet import HistoryWriter
from conformance.history.recorded import KILL, Kind, Recorded
from conformance.pipeline.invariants import BY_NAME
from conformance.pipeline.topic import Setting
from tests.history.samples import event
from tests.pipeline import realistic, soup
from tests.pipeline.anomalies import PLANTS
from tests.quality.history_scale import ask_duckdb

SETTING = Setting()
ENTRIES = 100


def test_each_invariant_is_broken_in_three_ways_at_least() -> None:
    assert set(PLANTS) == set(BY_NAME)
    assert all(len(plants) >= 3 for plants in PLANTS.values())


@given(seed=st.integers(0, 10**6), entries=st.sampled_from((100, 300)))
@settings(max_examples=20)
def test_sound_histories_hold_and_put_nearly_everything_to_the_test(seed: int, entries: int) -> None:
    history = realistic.events(seed % 7, entries=entries, seed=seed)
    found = soup.judged(history, setting=SETTING, rows_of_a_batch=1000)
    assert soup.broken_in(found) == set()
    assert {name for name, (judged, _) in found.items() if not judged} == {"falsely confirmed"}


@pytest.mark.parametrize(
    ("name", "number"), [(name, number) for name, plants in PLANTS.items() for number in range(len(plants))]
)
@given(seed=st.integers(0, 10**6), place=st.integers(0, 10**6))
@settings(max_examples=8)
def test_an_anomaly_is_found_wherever_it_is_planted(name: str, number: int, seed: int, place: int) -> None:
    history = PLANTS[name][number](realistic.events(1, entries=ENTRIES, seed=seed), place)
    broken = soup.broken_in(soup.judged(history, setting=SETTING))
    assert name in broken
    assert broken == soup.plainly_broken(history, SETTING)


@pytest.mark.parametrize("name", sorted(set(PLANTS)))
def test_the_sql_that_speed_is_measured_against_finds_it_too(name: str, tmp_path: Path) -> None:
    sound = realistic.events(1, entries=ENTRIES)
    for number, history in enumerate([sound, *(plant(sound, 3) for plant in PLANTS[name])]):
        folder = tmp_path / str(number)
        with HistoryWriter(folder, "w") as writer:
            for one in history:
                writer.record(one)
        found = ask_duckdb(folder, 1)
        needs_a_kill = any(one.kind is Kind.FAULT for one in history)
        broken = any(count for names, count in found.items() if name in names.split(", "))
        assert needs_a_kill or broken == (number > 0), found


def outstanding(consumer: str, entry: int, from_ns: int) -> Recorded:
    told = {"subscription": "s", "subscription_type": "Key_Shared", "key": "k", "consumer": consumer}
    return event(Kind.DISPATCH, **told, ledger=1, entry=entry, invoked_ns=from_ns, completed_ns=from_ns)


@pytest.mark.parametrize(("moved_ns", "is_broken"), [(9, True), (10, False), (11, False), (12, False)])
def test_a_key_may_move_from_the_moment_in_which_its_message_is_perhaps_given_back(
    moved_ns: int, is_broken: bool
) -> None:
    back = event(Kind.NACK, subscription="s", consumer="c", ledger=1, entry=0, invoked_ns=10, completed_ns=11)
    history = [outstanding("c", 0, 5), back, outstanding("d", 1, moved_ns)]
    assert soup.broken_in(soup.judged(history)) == ({"one consumer at a time"} if is_broken else set())


def test_what_may_have_given_a_message_back_for_long_counts_from_its_beginning() -> None:
    at = {"subscription": "s", "consumer": "c", "ledger": 1, "entry": 0}
    short, long = (event(Kind.NACK, **at, invoked_ns=one, completed_ns=other) for one, other in ((10, 11), (6, 20)))
    history = [outstanding("c", 0, 5), outstanding("d", 1, 8)]
    assert soup.broken_in(soup.judged([*history, short])) == {"one consumer at a time"}
    assert soup.broken_in(soup.judged([*history, short, long])) == set()


@pytest.mark.parametrize(("again_ns", "is_broken"), [(10, False), (11, False), (12, True)])
def test_a_message_may_be_sent_until_its_acknowledgment_is_confirmed(again_ns: int, is_broken: bool) -> None:
    at = {"subscription": "s", "consumer": "c", "ledger": 1, "entry": 0}
    ack = event(Kind.ACK, **at, invoked_ns=10, completed_ns=11)
    history = [ack, event(Kind.DISPATCH, **at, invoked_ns=again_ns, completed_ns=20)]
    assert soup.broken_in(soup.judged(history)) == ({"delivered again"} if is_broken else set())


@pytest.mark.parametrize(
    ("kind", "to", "is_broken"),
    [(Kind.SEEK, 1, True), (Kind.SEEK, 2, False), (Kind.SKIP, 1, False), (Kind.SKIP, 0, True)],
)
def test_a_seek_leaves_out_what_is_before_it_and_a_skip_its_own_message_too(
    kind: Kind, to: int, is_broken: bool
) -> None:
    history = [
        event(Kind.BEGIN, subscription="s", ledger=-1, entry=-1),
        *(event(Kind.LOG, producer="p", sequence_id=entry, ledger=1, entry=entry) for entry in range(3)),
        event(kind, subscription="s", ledger=1, entry=to),
        event(Kind.CURSOR, subscription="s", ledger=1, entry=1, invoked_ns=5, completed_ns=6),
    ]
    assert soup.broken_in(soup.judged(history)) == ({"mark delete over a hole"} if is_broken else set())


def killed(state: Recorded, *, then: Recorded) -> set[str]:
    """What is broken when a kill goes on from 20 to 22, which may undo what is 3 older than it, or younger."""
    kill = event(Kind.FAULT, fault=KILL, invoked_ns=20, completed_ns=22)
    return soup.broken_in(soup.judged([state, kill, then], setting=Setting(persisted_after_ns=3)))


@pytest.mark.parametrize(
    ("invoked_ns", "completed_ns", "is_broken"),
    [(10, 16, True), (10, 17, False), (18, 19, False), (21, 25, False), (22, 25, False), (23, 25, True)],
)
def test_a_kill_may_undo_what_was_not_persisted_and_nothing_else(
    invoked_ns: int, completed_ns: int, is_broken: bool
) -> None:
    at = {"subscription": "s", "consumer": "c", "ledger": 1, "entry": 1}
    ack = event(Kind.ACK, **at, invoked_ns=invoked_ns, completed_ns=completed_ns)
    again = event(Kind.DISPATCH, **at, invoked_ns=30, completed_ns=31)
    assert killed(ack, then=again) == ({"delivered again"} if is_broken else set())
    reading = event(Kind.CURSOR, **at, invoked_ns=invoked_ns, completed_ns=completed_ns)
    back = event(Kind.CURSOR, **at | {"entry": 0}, invoked_ns=30, completed_ns=31)
    assert killed(reading, then=back) == ({"mark delete back"} if is_broken else set())


@pytest.mark.parametrize(
    ("seek_ns", "is_broken"), [((1, 4), True), ((8, 10), False), ((12, 14), False), ((30, 31), False), ((31, 32), True)]
)
def test_a_seek_takes_acknowledgments_back_and_mark_delete_with_them(seek_ns: tuple[int, int], is_broken: bool) -> None:
    at = {"subscription": "s", "consumer": "c", "ledger": 1, "entry": 1}
    earlier = {"invoked_ns": 5, "completed_ns": 11}
    later = {"invoked_ns": 30, "completed_ns": 31}
    seek = event(Kind.SEEK, subscription="s", ledger=1, entry=0, invoked_ns=seek_ns[0], completed_ns=seek_ns[1])
    sent = [event(Kind.ACK, **at, **earlier), seek, event(Kind.DISPATCH, **at, **later)]
    assert soup.broken_in(soup.judged(sent)) == ({"delivered again"} if is_broken else set())
    read = [event(Kind.CURSOR, **at, **earlier), seek, event(Kind.CURSOR, **at | {"entry": 0}, **later)]
    assert soup.broken_in(soup.judged(read)) == ({"mark delete back"} if is_broken else set())
