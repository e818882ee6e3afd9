"""How a violation is explained: by known deviations before unknown ones, by few before many, in bounded time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from model import explain
from model.deviations import DEVIATIONS, Alternatives, Explains, Explanation
from model.events import Created, Done, Opened
from model.example import Example, Judgement
from model.example.state import Past
from model.example.step import Step
from model.judgement import Allowed, Broken
from model.operations import CloseProducer, CreateTopic, OpenProducer, ReadSnapshot
from model.service.unexpected import ErrorAnswer
from tests.verdicts import Happened, allowed_by

BEGIN: tuple[Happened, ...] = (
    (CreateTopic("t0", persistence="every-ack"), Created(deduplication=False, snapshot_room=6)),
    (OpenProducer("s1", "t0", "p"), Opened(-1)),
)
A, B, C = sorted(name for name, one in DEVIATIONS.items() if one.rule == "SERVE-01")[:3]


def error(message: str) -> ErrorAnswer:
    return ErrorAnswer("admin", "GET stats", "500", message, "t0")


def saying(message: str) -> Explains:
    """Explains an error with this message."""

    def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
        is_explained = isinstance(broken.evidence, ErrorAnswer) and broken.evidence.message == message
        return broken.passing() if is_explained else None

    return explains


def use(
    monkeypatch: pytest.MonkeyPatch, explains: dict[str, Explains], alternatives: dict[str, Alternatives] | None = None
) -> None:
    """Judge with these instead of the deviations of the releases."""
    others = alternatives or {}
    every = {
        name: Explanation(DEVIATIONS[name], explains.get(name), others.get(name)) for name in explains.keys() | others
    }
    monkeypatch.setattr(explain, "EXPLANATIONS", every)


def answered(*messages: str, known: str = "") -> Judgement:
    """The judgement on a step with these errors."""
    state = replace(allowed_by(*BEGIN).state, known=frozenset(known.split()))
    return explain.judge(state, ReadSnapshot("t0"), Done(), unexpected=tuple(map(error, messages)))


def test_each_violation_of_a_step_takes_its_deviation(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, {A: saying("a"), B: saying("b")})
    both = answered("a", "b", "a", known=f"{A} {B}")
    assert isinstance(both, Allowed)
    assert sorted(both.deviations) == [A, A, B]
    assert both.excused.count("SERVE-01") == 3


def test_the_first_violation_that_known_deviations_do_not_explain_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, {A: saying("a"), B: saying("b")})
    for known, messages, name in ((A, ("a", "b"), B), (B, ("a", "b"), A), (A, ("a", "c"), None), ("", ("a", "c"), A)):
        broken = answered(*messages, known=known)
        assert isinstance(broken, Broken)
        assert broken.deviation == name
        assert messages[1 if known == A else 0] in broken.because.partition(". ")[0].rpartition(": ")[2]


def test_a_known_deviation_explains_before_an_unknown_one_and_leaves_the_rest_to_the_documents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use(monkeypatch, {A: saying("a"), B: saying("a")})
    for known in (A, B):
        judged = answered("a", known=known)
        assert isinstance(judged, Allowed)
        assert judged.deviations == (known,)
        expected = replace(allowed_by(*BEGIN).state, known=frozenset({known})).with_known(frozenset({known}))
        (view,) = expected.topics.values()
        disconnected = replace(view, activity=view.activity.without_all())  # perhaps, where there are errors
        assert judged.state == expected.with_topic("t0", disconnected)
    assert isinstance(answered("a", "b", known=A), Broken)


def test_what_happened_before_is_tried_from_the_last_step_on(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[type] = []

    def fails(state: Example, step: Step) -> Iterator[Example]:
        tried.append(type(step.operation))
        assert isinstance(state.past, Past)
        assert state.past.step is step
        if isinstance(step.operation, CreateTopic):  # all network faults explain a missing answer
            yield replace(state, is_disturbed=True)

    use(monkeypatch, {}, {C: fails})
    assert isinstance(answered(known=C), Allowed)
    assert tried == []
    assert isinstance(answered("a", known=C), Broken)
    assert set(tried) == {OpenProducer, CreateTopic}


def test_a_deviation_that_never_comes_to_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, {A: lambda *around: around[2]}, {B: lambda *around: [around[0]] * 50})
    broken = answered("a", known=f"{A} {B}")
    assert isinstance(broken, Broken)
    assert broken.deviation is None


def test_what_was_found_before_the_steps_of_a_search_are_used_up_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain, "MOST_STEPS", 1)
    use(monkeypatch, {A: saying("a"), B: saying("b"), C: saying("c")})
    for messages, names in (("a", (A,)), ("ab", (A, B))):  # the last one by a second search, from what is left
        found = answered(*messages, known=f"{A} {B} {C}")
        assert isinstance(found, Allowed)
        assert found.deviations == names
    assert isinstance(answered("a", "b", "c", known=f"{A} {B} {C}"), Broken)


def test_a_deviation_that_is_known_of_a_client_explains_nothing_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, {A: saying("a")})

    def closed(library: str | None, known: str) -> Judgement:
        opened = OpenProducer("s1", "t0", "p", "official", library=library)
        state = replace(allowed_by(BEGIN[0], (opened, Opened(-1))).state, known=frozenset(known.split()))
        return explain.judge(state, CloseProducer("s1"), Done(), unexpected=(error("a"),))

    known = f"{A}@java:4.0.8 {A}@java:3.3.6"
    for library in ("java:4.0.8", "java:3.3.6", None):
        assert isinstance(closed(library, known), Allowed), "without a client in the history, it may be any"
    assert isinstance(closed("go:0.19.0", A), Allowed), "it is known of all"
    broken = closed("go:0.19.0", known)
    assert isinstance(broken, Broken)
    assert broken.deviation is None
