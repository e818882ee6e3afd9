"""Every mutation of a sound history is reported, except those that nobody can tell."""

from __future__ import annotations

import functools
import itertools
import tempfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from conformance.harness_error import HarnessError
from conformance.history.recorded import Recorded
from conformance.pipeline import large_topics
from conformance.pipeline.topic import VerificationSetting
from tests.pipeline.histories import random_histories, realistic, two_clusters
from tests.pipeline.histories.anomalies import History
from tests.pipeline.histories.mutations import CATALOGUE, Mutation

PLACES = 3
PIECES = (1, 2, 7, 1000)
SOAK = Path(__file__).parent / "histories" / "soak.parquet"
"""A minute of a soak of Pulsar 4.0.8 with an unload, a pause and a restart."""

SETTINGS = {
    "generated": VerificationSetting(on_its_way_ns=0),
    "clusters": VerificationSetting(on_its_way_ns=0, follows_within_ns=40 * two_clusters.STEP_NS),
    "soak": VerificationSetting(on_its_way_ns=10**9),
}


@functools.cache
def histories(source: str) -> tuple[tuple[Recorded, ...], ...]:
    """Sound histories, one for each topic."""
    match source:
        case "generated":
            return (tuple(realistic.events(1, entries=300)),)
        case "clusters":
            return (tuple(two_clusters.events(1)),)
        case _:
            everything = realistic.as_events(pq.read_table(SOAK))
            topics = sorted({one.topic for one in everything if one.topic is not None})
            return tuple(
                tuple(replace(one, topic=topic) for one in everything if one.topic in (topic, None)) for topic in topics
            )


def places(mutation: Mutation, source: str) -> list[tuple[tuple[Recorded, ...], Recorded]]:
    """Up to three events, far from one another, with the events of their topics."""
    chosen = [(history, one) for history in histories(source) for one in history if mutation.select(one)]
    if source in mutation.not_in:
        return []
    found = []
    for place in range(PLACES):
        first, end = (len(chosen) * (2 * place + half) // (2 * PLACES) for half in (1, 3))
        found += list(itertools.islice((one for one in chosen[first:end] if mutation.among(*one)), 1))
    return found


def broken(history: History, source: str) -> set[str]:
    found = random_histories.judged(history, setting=SETTINGS[source], rows_of_a_batch=10_000)
    return random_histories.broken_in(found)


@pytest.mark.parametrize("source", SETTINGS)
def test_the_histories_are_sound(source: str) -> None:
    for history in histories(source):
        assert broken(list(history), source) == set()


@pytest.mark.parametrize("source", SETTINGS)
@pytest.mark.parametrize("mutation", CATALOGUE, ids=lambda one: one.name)
def test_a_mutation_is_reported(mutation: Mutation, source: str) -> None:
    for history, one in places(mutation, source):
        found = broken(mutation.change(list(history), one), source)
        if mutation.why:
            assert found == set()
        else:
            assert found & set(mutation.found_by), (one, found)


def test_each_mutation_is_made_in_some_history() -> None:
    assert len(CATALOGUE) >= 100
    assert len({mutation.name for mutation in CATALOGUE}) == len(CATALOGUE)
    assert [one.name for one in CATALOGUE if not any(places(one, source) for source in SETTINGS)] == []
    assert all(bool(one.why) != bool(one.found_by) for one in CATALOGUE)


def judged_on_disk(history: History, setting: VerificationSetting, rows_of_a_batch: int) -> object:
    """The results if each topic is on disk, from batches of so many rows; no file is left."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(large_topics, "ON_DISK_FROM", 1)
        patch.setattr(tempfile, "tempdir", folder)
        found = random_histories.results(history, setting=setting, rows_of_a_batch=rows_of_a_batch)
        assert [*Path(folder).iterdir()] == []
    return found


@pytest.mark.parametrize("rows_of_a_batch", PIECES)
def test_a_mutation_is_judged_alike_in_memory_and_on_disk(rows_of_a_batch: int) -> None:
    for mutation, source in itertools.product(CATALOGUE[PIECES.index(rows_of_a_batch) :: 40], SETTINGS):
        for history, one in places(mutation, source)[:1]:
            mutated, setting = mutation.change(list(history), one), SETTINGS[source]
            in_memory = random_histories.results(mutated, setting=setting, rows_of_a_batch=10_000)
            assert judged_on_disk(mutated, setting, rows_of_a_batch) == in_memory


@pytest.mark.parametrize("rows_of_a_batch", PIECES)
@given(data=st.data())
@settings(max_examples=10)
def test_random_histories_are_judged_alike_in_memory_and_on_disk(rows_of_a_batch: int, data: st.DataObject) -> None:
    one_cluster = st.lists(random_histories.events(), min_size=1, max_size=40)
    history = data.draw(one_cluster | random_histories.replicated())
    setting = SETTINGS["generated"]
    in_memory = random_histories.results(history, setting=setting, rows_of_a_batch=10_000)
    assert judged_on_disk(history, setting, rows_of_a_batch) == in_memory


def test_a_folder_without_room_for_a_large_topic_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_topics, "ON_DISK_FROM", 1)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(HarnessError, match=r"/nowhere: No such file or directory; TMPDIR names another folder"):
        random_histories.results(list(histories("generated")[0]))
