"""Sound histories hold; each planted anomaly breaks its invariant, for the pipeline and for the oracle."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.history.parquet import HistoryWriter
from conformance.history.recorded import KILL, Kind, Recorded
from conformance.pipeline.invariants.catalogue import BY_NAME, Invariant
from conformance.pipeline.topic import VerificationSetting
from tests.history.samples import event
from tests.pipeline.histories import random_histories, realistic
from tests.pipeline.histories.anomalies import PLANTS
from tests.quality.history_scale import ask_duckdb, statements

SETTING = VerificationSetting(on_its_way_ns=0)
ENTRIES = 100


def test_each_invariant_has_at_least_three_anomalies() -> None:
    assert set(PLANTS) == {name for name, one in BY_NAME.items() if isinstance(one, Invariant)}
    assert all(len(plants) >= 3 for plants in PLANTS.values())


@given(seed=st.integers(0, 10**6), entries=st.sampled_from((100, 300)))
@settings(max_examples=20)
def test_sound_histories_hold_and_exercise_nearly_every_invariant(seed: int, entries: int) -> None:
    history = realistic.events(seed % 7, entries=entries, seed=seed)
    found = random_histories.judged(history, setting=SETTING, rows_of_a_batch=1000)
    assert random_histories.broken_in(found) == set()
    unlike = {"falsely confirmed", "forgotten", "shared one at a time", "refused but stored", "lost in part"}
    # Of a short one, each key may have been asked for again before anything of it is judged.
    perhaps = {"keys in order", "keys stay"} if entries < 300 else set()
    assert {name for name in PLANTS if not found[name][0]} - perhaps == unlike


@pytest.mark.parametrize(
    ("name", "number"), [(name, number) for name, plants in PLANTS.items() for number in range(len(plants))]
)
@given(seed=st.integers(0, 10**6), place=st.integers(0, 10**6))
@settings(max_examples=4)
def test_a_planted_anomaly_is_found_anywhere(name: str, number: int, seed: int, place: int) -> None:
    history = PLANTS[name][number](realistic.events(1, entries=ENTRIES, seed=seed), place)
    broken = random_histories.broken_in(random_histories.judged(history, setting=SETTING))
    assert name in broken
    assert broken == random_histories.broken_by_oracle(history, SETTING)


OF_ONE_CLUSTER = {name for name, one in BY_NAME.items() if not one.rule.startswith("REPL")}


def test_each_invariant_of_one_cluster_is_expressed_in_sql() -> None:
    assert {name for names in statements() for name in names.split(", ")} == OF_ONE_CLUSTER


ALSO_BY_SQL = {
    "lost in part": {"stored once in order", "stored whole"},
    "mark delete back": {"stuck", "mark delete late"},
    "out of order": {"read before sent"},
}
"""What follows from an anomaly for a query that, unlike the invariant, leaves nothing out where another one broke."""


@pytest.mark.parametrize("name", sorted(OF_ONE_CLUSTER))
def test_the_sql_of_the_speed_comparison_gives_the_same_verdicts(name: str, tmp_path: Path) -> None:
    sound = realistic.events(1, entries=ENTRIES)
    for number, history in enumerate([sound, *(plant(sound, 3) for plant in PLANTS[name])]):
        folder = tmp_path / str(number)
        with HistoryWriter(folder, "w") as writer:
            for one in history:
                writer.record(one)
        broken = random_histories.broken_in(random_histories.judged(history, setting=SETTING, rows_of_a_batch=1000))
        found = [frozenset(names.split(", ")) for names, count in ask_duckdb(folder, 1).items() if count]
        assert (name in broken) == (number > 0)
        assert broken <= frozenset().union(*found)
        assert all(names & (broken | ALSO_BY_SQL.get(name, set())) for names in found)


def dispatched(consumer: str, entry: int, from_ns: int) -> Recorded:
    fields = {"subscription": "s", "subscription_type": "Key_Shared", "key": "k", "consumer": consumer}
    return event(Kind.DISPATCH, **fields, ledger=1, entry=entry, invoked_ns=from_ns, completed_ns=from_ns)


@pytest.mark.parametrize(("moved_ns", "is_broken"), [(9, True), (10, False), (11, False), (12, False)])
def test_a_key_may_move_from_the_start_of_a_nack_of_its_message(moved_ns: int, is_broken: bool) -> None:
    back = event(Kind.NACK, subscription="s", consumer="c", ledger=1, entry=0, invoked_ns=10, completed_ns=11)
    history = [dispatched("c", 0, 5), back, dispatched("d", 1, moved_ns)]
    assert random_histories.broken_in(random_histories.judged(history)) == (
        {"one consumer at a time"} if is_broken else set()
    )


@pytest.mark.parametrize(
    ("kind", "index", "is_broken"), [(Kind.NACK, 1, False), (Kind.NACK, 0, False), (Kind.ACK, 1, True)]
)
def test_a_nack_returns_the_whole_batch_of_its_message(kind: Kind, index: int, is_broken: bool) -> None:
    at = {"subscription": "s", "ledger": 1, "entry": 0}
    shared = {**at, "subscription_type": "Shared", "batch_index": 0}
    first = event(Kind.DISPATCH, consumer="c", **shared, invoked_ns=5, completed_ns=5)
    second = event(Kind.DISPATCH, consumer="d", **shared, invoked_ns=20, completed_ns=20)
    back = event(kind, consumer="c", batch_index=index, **at, invoked_ns=10, completed_ns=11)
    assert random_histories.broken_in(random_histories.judged([first, back, second])) == (
        {"shared one at a time"} if is_broken else set()
    )


def test_a_long_nack_counts_from_its_start() -> None:
    at = {"subscription": "s", "consumer": "c", "ledger": 1, "entry": 0}
    short, long = (event(Kind.NACK, **at, invoked_ns=one, completed_ns=other) for one, other in ((10, 11), (6, 20)))
    history = [dispatched("c", 0, 5), dispatched("d", 1, 8)]
    assert random_histories.broken_in(random_histories.judged([*history, short])) == {"one consumer at a time"}
    assert random_histories.broken_in(random_histories.judged([*history, short, long])) == set()


@pytest.mark.parametrize(("again_ns", "is_broken"), [(10, False), (11, False), (12, False), (13, True)])
def test_a_message_may_be_dispatched_until_its_ack_is_confirmed_and_arrive_later(
    again_ns: int, is_broken: bool
) -> None:
    at = {"subscription": "s", "consumer": "c", "ledger": 1, "entry": 0}
    ack = event(Kind.ACK, **at, invoked_ns=10, completed_ns=11)
    history = [ack, event(Kind.DISPATCH, **at, invoked_ns=again_ns, completed_ns=20)]
    assert random_histories.broken_in(random_histories.judged(history)) == ({"delivered again"} if is_broken else set())


@pytest.mark.parametrize(
    ("kind", "to", "is_broken"),
    [(Kind.SEEK, 1, True), (Kind.SEEK, 2, False), (Kind.SKIP, 1, False), (Kind.SKIP, 0, True)],
)
def test_a_seek_excludes_messages_before_it_and_a_skip_its_own_message_too(
    kind: Kind, to: int, is_broken: bool
) -> None:
    history = [
        event(Kind.BEGIN, subscription="s", ledger=-1, entry=-1),
        *(event(Kind.LOG, producer="p", sequence_id=entry, ledger=1, entry=entry) for entry in range(3)),
        event(kind, subscription="s", ledger=1, entry=to),
        event(Kind.CURSOR, subscription="s", ledger=1, entry=1, invoked_ns=5, completed_ns=6),
    ]
    assert random_histories.broken_in(random_histories.judged(history)) == (
        {"mark delete over a hole"} if is_broken else set()
    )


def killed(state: Recorded, *, then: Recorded) -> set[str]:
    """The invariants broken by a kill from 20 to 22, which may undo acks within 3 before it."""
    kill = event(Kind.FAULT, fault=KILL, invoked_ns=20, completed_ns=22)
    return random_histories.broken_in(
        random_histories.judged([state, kill, then], setting=VerificationSetting(persisted_after_ns=3, on_its_way_ns=0))
    )


@pytest.mark.parametrize(
    ("invoked_ns", "completed_ns", "is_broken"),
    [(10, 16, True), (10, 17, False), (18, 19, False), (21, 25, False), (22, 25, False), (23, 25, True)],
)
def test_a_kill_may_undo_only_acks_that_were_not_persisted(invoked_ns: int, completed_ns: int, is_broken: bool) -> None:
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
def test_a_seek_undoes_acks_and_moves_mark_delete_back(seek_ns: tuple[int, int], is_broken: bool) -> None:
    at = {"subscription": "s", "consumer": "c", "ledger": 1, "entry": 1}
    earlier = {"invoked_ns": 5, "completed_ns": 11}
    later = {"invoked_ns": 30, "completed_ns": 31}
    seek = event(Kind.SEEK, subscription="s", ledger=1, entry=0, invoked_ns=seek_ns[0], completed_ns=seek_ns[1])
    sent = [event(Kind.ACK, **at, **earlier), seek, event(Kind.DISPATCH, **at, **later)]
    assert random_histories.broken_in(random_histories.judged(sent)) == ({"delivered again"} if is_broken else set())
    read = [event(Kind.CURSOR, **at, **earlier), seek, event(Kind.CURSOR, **at | {"entry": 0}, **later)]
    assert random_histories.broken_in(random_histories.judged(read)) == ({"mark delete back"} if is_broken else set())


def given_batch(entry: int, index: int, taken_ns: int, sent_ns: int | None = None) -> Recorded:
    fields = {"subscription": "s", "subscription_type": "Exclusive", "consumer": "c", "producer": "p"}
    at = {"ledger": 1, "entry": entry, "batch_index": index}
    return event(Kind.DISPATCH, **fields, **at, invoked_ns=sent_ns, completed_ns=taken_ns)


def test_messages_of_a_batch_are_in_order_if_only_its_first_dispatch_was_recorded() -> None:
    """On 4.0.8 the proxy saw a batch sent before the application had taken all of the batch before it."""
    begin = event(Kind.BEGIN, subscription="s", ledger=-1, entry=-1)
    history = [begin, given_batch(0, 0, 6, 3), given_batch(0, 1, 7), given_batch(1, 0, 8, 4)]
    assert random_histories.broken_in(random_histories.judged(history)) == set()
    late = [begin, given_batch(0, 0, 6, 3), given_batch(0, 1, 9), given_batch(1, 0, 8, 4)]
    assert random_histories.broken_in(random_histories.judged(late)) == {"given in order"}


@pytest.mark.parametrize(("cut_ns", "is_broken"), [(3, True), (5, False), (8, False)])
def test_a_message_without_a_recorded_dispatch_may_have_been_released_before_its_receipt(
    cut_ns: int, is_broken: bool
) -> None:
    """On 4.0.8 an application received messages from its client just after the client had been cut off."""
    at = {"subscription": "s", "subscription_type": "Key_Shared", "key": "k", "ledger": 1, "invoked_ns": None}
    sent = event(Kind.SEND, ledger=1, entry=0, invoked_ns=4, completed_ns=5)
    cut = event(Kind.FAULT, fault="cut", invoked_ns=cut_ns, completed_ns=cut_ns)
    taken = (("c", 7), ("d", 9))
    given = [
        event(Kind.DISPATCH, **at, entry=entry, consumer=who, completed_ns=ns) for entry, (who, ns) in enumerate(taken)
    ]
    other = event(Kind.SEND, ledger=1, entry=1, invoked_ns=8, completed_ns=8)
    broken = random_histories.broken_in(random_histories.judged([sent, other, cut, *given]))
    assert broken == ({"one consumer at a time"} if is_broken else set())
