"""The shipped histories, on a real broker: each shows its deviation, reported when it is known, else a violation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.brokers.size import Size
from conformance.history import document
from conformance.history.document import History, Violation
from conformance.known import KnownDeviation, shipped, unlike
from model.deviations import DEVIATIONS
from model.judgement import Broken
from tests.replays import stored
from tests.replays.in_lanes import Replayed, Replays
from tests.replays.seeded_world import SeededWorld
from tests.verdicts import judged

FURTHER = Path(__file__).parents[2] / "docs/histories"

SHOWN = [deviation for deviation in shipped() if deviation.history is not None]


def test_every_deviation_of_the_model_is_in_the_list() -> None:
    assert {deviation.name for deviation in shipped()} == set(DEVIATIONS)


@pytest.fixture(scope="module")
def replays(
    request: pytest.FixtureRequest,
    seeded_of: Callable[[Size], SeededWorld],
    tmp_path_factory: pytest.TempPathFactory,
) -> Replays:
    """The replays of the histories that the tests of this session are about, side by side."""
    parameters = [getattr(item, "callspec", None) for item in request.session.items if item.path == request.path]
    chosen = [one.params["deviation"] for one in parameters if one is not None and "deviation" in one.params]
    coming_back = [one for one in chosen if comes_back(one, seeded_of(history_of(one).size))]
    return Replays(coming_back, seeded_of, unlike, tmp_path_factory.mktemp("replays"))


def history_of(deviation: KnownDeviation) -> History:
    return document.read(Path(str(deviation.history)))


def comes_back(deviation: KnownDeviation, seeded: SeededWorld) -> bool:
    """Whether a deviation shows on this broker: one of a setting where it is set, or where its history, which then sets
    it, was recorded."""
    broker, clients = seeded.world.broker, seeded.world.clients
    return deviation.comes_back_on(broker.version, clients, broker.configuration) or (
        history_of(deviation).release == broker.version and deviation.comes_back_on(broker.version, clients)
    )


@pytest.mark.parametrize(
    "deviation", [pytest.param(one, id=one.name, marks=stored.tier(Path(str(one.history)))) for one in SHOWN]
)
def test_a_deviation_comes_back_and_breaks_its_rule_only_if_it_is_not_known(
    deviation: KnownDeviation, replays: Replays, record_property: Callable[[str, object], None]
) -> None:
    if deviation.name not in replays.names:
        pytest.skip("the release is not known to deviate so with these clients")
    replayed, history = replays.of(deviation.name), history_of(deviation)
    if replayed.failure is not None:
        raise replayed.failure
    assert replayed.certain == []
    if stored.is_race(history):
        stored.record_rate(record_property, history, len(replayed.broken), replayed.tries)
    else:
        assert replayed.broken, f"did not come back in {replayed.tries} replays"
    for broken in replayed.broken:
        assert broken.deviation == deviation.name
        assert broken.rule in (deviation.rule, *DEVIATIONS[deviation.name].also)


def test_the_shipped_histories_were_recorded_by_the_suite() -> None:
    for deviation in SHOWN:
        history = history_of(deviation)
        assert history.violation is not None
        assert history.replays is not None, deviation.name
        assert history.violation.deviation == deviation.name
        assert history.violation.rule in (deviation.rule, *DEVIATIONS[deviation.name].also)
        assert history.violation.step == len(history.steps), deviation.name
        assert deviation.concerns(history.release, history.clients), deviation.name


@pytest.mark.parametrize("path", sorted(FURTHER.glob("*.json")), ids=lambda path: path.stem)
def test_a_further_history_of_a_deviation_breaks_a_rule_only_if_that_is_not_known(path: Path) -> None:
    """Histories without one are open cases: nothing that is known explains them."""
    history = document.read(path)
    assert history.violation is not None
    assert isinstance(judged(*history.steps, known=DEVIATIONS), Broken) == (history.violation.deviation is None)
    if history.violation.deviation is not None:
        # With the others known it breaks, unless one of them explains it as well: then it is the first that is named.
        broken = judged(*history.steps, known=unlike(history.violation.deviation))
        if not isinstance(broken, Broken):
            broken = judged(*history.steps)
        assert isinstance(broken, Broken)
        assert (broken.rule, broken.deviation) == (history.violation.rule, history.violation.deviation)


def test_what_was_overdue_once_is_suspected_and_what_came_back_is_not() -> None:
    overdue = Violation(rule="CHUNK-03", because="it is not dispatched", step=1, is_overdue=True)
    wrong = Violation(rule="CHUNK-03", because="it is dispatched twice", step=1)
    assert Replayed(violations=[overdue]).certain == []
    assert Replayed(violations=[overdue, wrong]).certain == [wrong]
    assert Replayed(violations=[overdue, overdue]).certain == [overdue, overdue]
