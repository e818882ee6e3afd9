"""Shortening a recording without a broker: what is left shows the violation of the whole, and no other."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from functools import partial

import pytest

from conformance.engine.execution import perform
from conformance.engine.shortener.attempt import Attempt
from conformance.engine.shortener.model_search import Recording, shorten_recording
from conformance.history.document import Violation
from conformance.history.validation import nonsense
from conformance.lockstep.lockstep import Lockstep
from model.cursors.variants import CursorVariant
from model.deviations import DEVIATIONS
from model.events import Created, Done, Opened, Stored
from model.example import Example
from model.judgement import Broken
from model.log import Position
from model.operations import AnyOperation, CloseProducer, CreateTopic, OpenProducer, ReadLog, Send, Unload
from model.service.unexpected import ErrorAnswer
from model.subscription_operations import ReadCursor
from stateful.test_cursors import MACHINES as OF_CURSORS
from stateful.test_deduplication import MACHINES as OF_DEDUPLICATION
from tests.lockstep.campaigns import MakePerformer, play_in_rounds
from tests.lockstep.simulated.variants import SimulatedVariant, deduplication
from tests.lockstep.simulated.world import SimulatedPerformer
from tests.report.samples import answers, entry, history, step
from tests.verdicts import judged

KNOWN = frozenset(DEVIATIONS)
LIMIT_S = 60.0
ROUNDS = 20
"""From how many seeds a machine may look for a variant; most are found from the first."""
SHORT = 8
"""A history of which a reader sees at once what it shows."""

FORGETFUL: MakePerformer = partial(SimulatedPerformer, variant=deduplication("no-check"))
"""A broker that stores what it stored before."""


def performed(operations: Sequence[AnyOperation], performer: MakePerformer) -> Attempt:
    simulated = performer(random.Random(1))
    return perform(operations, Lockstep(simulated, Example(known=KNOWN), clock=simulated.clock))


def shortened(whole: Attempt) -> Recording:
    recording = shorten_recording(whole, KNOWN, limit_s=LIMIT_S)
    assert recording is not None
    return recording


def sending(topic: str, producer: str, *ids: int) -> list[AnyOperation]:
    """A producer that sends these ids, one after the other."""
    session = f"{producer}-on-{topic}-{ids[0]}"
    sends = [Send(session, (entry(number),)) for number in ids]
    return [OpenProducer(session, topic, producer), *sends, CloseProducer(session)]


def test_one_guilty_pair_is_found_among_eighty_steps() -> None:
    topics = ["t0", "t1", "t2"]
    sound = [sending(topic, f"p{number}", *range(1, 7)) for topic in ("t0", "t2") for number in range(5)]
    pair = Send("s", (entry(3),))
    guilty: list[AnyOperation] = [OpenProducer("s", "t1", "p"), pair, Unload("t0"), pair]
    operations: list[AnyOperation] = [CreateTopic(topic) for topic in topics]
    operations += [*itertools.chain.from_iterable(sound), *(ReadLog(topic) for topic in topics), *guilty]
    whole = performed(operations, FORGETFUL)
    assert len(whole.steps) > 80
    recording = shortened(whole)
    assert [one.operation for one in recording.shown.steps] == [CreateTopic("t1"), *guilty[:2], guilty[3]]
    assert recording.stage.steps < SHORT


def test_what_the_log_needs_to_be_without_gaps_is_kept() -> None:
    """The model knows the positions of a ledger one by one: a message is not where nothing was before it."""
    before = sending("t0", "p0", 1, 2)
    operations = [CreateTopic("t0"), *before, *sending("t0", "p1", 3, 3)]
    sends = [one.operation for one in shortened(performed(operations, FORGETFUL)).shown.steps]
    assert before[1] in sends
    assert before[2] in sends


def test_an_observation_that_the_sentence_depends_on_is_kept() -> None:
    """Without the send of 3 the rule would be broken as well, but in another way: 2 would be the highest id."""
    lost = Opened(1)
    steps = (
        step(CreateTopic("t0", "namespace-on"), Created(deduplication=True, snapshot_room=10)),
        step(OpenProducer("s1", "t0", "p0"), Opened(-1)),
        *(step(Send("s1", (entry(number),)), answers(Stored(Position(number, 0)))) for number in (1, 2, 3)),
        step(CloseProducer("s1")),
        step(OpenProducer("s2", "t0", "p0"), lost),
    )
    broken = judged(*steps, known=KNOWN)
    assert isinstance(broken, Broken)
    whole = Attempt(steps, len(steps), violation_of(broken, len(steps)))
    sent = [one.operation.entries for one in shortened(whole).shown.steps if isinstance(one.operation, Send)]
    assert sent == [(entry(3),)]


def violation_of(broken: Broken, at: int) -> Violation:
    return Violation(
        rule=broken.rule,
        because=broken.because,
        deviation=broken.deviation,
        side=broken.side,
        is_overdue=broken.is_overdue,
        step=at,
    )


OF_VARIANTS: dict[str, tuple[int, MakePerformer]] = {
    "no-check": (1, FORGETFUL),
    "recovery-without-replay": (4, partial(SimulatedPerformer, variant=deduplication("recovery-without-replay"))),
    "hole_jumped": (0, partial(SimulatedPerformer, cursors=SimulatedVariant(hole_jumped=True))),
    "left_forgotten": (0, partial(SimulatedPerformer, cursors=SimulatedVariant(left_forgotten=True))),
    "nack_ignored": (0, partial(SimulatedPerformer, cursors=SimulatedVariant(nack_ignored=True))),
}


@pytest.mark.parametrize("name", OF_VARIANTS)
def test_every_part_makes_sense_and_breaks_the_rule_of_the_whole_with_its_last_step(name: str) -> None:
    number, performer = OF_VARIANTS[name]
    machine = (OF_CURSORS if name in CursorVariant.__struct_fields__ else OF_DEDUPLICATION)[number]
    campaign = play_in_rounds(
        machine,
        performer,
        rounds=ROUNDS,
        examples=25,
        known=KNOWN,
        until=lambda so_far: any(len(found.steps) > SHORT for found in so_far.found),
    )
    found = max(campaign.found, key=lambda found: len(found.steps))
    recording = shortened(Attempt(found.steps, len(found.steps), found.violation))
    for kept in recording.rungs:
        steps = [found.steps[at] for at in kept]
        broken = judged(*steps, known=KNOWN)
        assert isinstance(broken, Broken)
        assert violation_of(broken, found.violation.step) == found.violation
        assert not isinstance(judged(*steps[:-1], known=KNOWN), Broken)
        assert nonsense(history(*steps, violation=None)) is None
    assert len(recording.shown.steps) < len(found.steps)


def test_the_fault_that_may_be_the_cause_is_shown_with_what_it_needs() -> None:
    """An unexpected answer breaks a rule whatever came before: alone it would be a history of one step."""
    internal = ErrorAnswer(interface="binary", request="PRODUCER", code="UnknownError", message="it fails", topic="t0")
    steps = (
        step(CreateTopic("t0", "namespace-on"), Created(deduplication=True, snapshot_room=10)),
        step(CreateTopic("t1", "namespace-on"), Created(deduplication=True, snapshot_room=10)),
        step(OpenProducer("s1", "t0", "p0"), Opened(-1)),
        step(Send("s1", (entry(1),)), answers(Stored(Position(1, 0)))),
        step(Unload("t1"), Done()),
        step(Unload("t0"), Done()),
        step(OpenProducer("s2", "t0", "p2"), Opened(-1)).__replace__(unexpected=(internal,)),
    )
    broken = judged(*steps, known=KNOWN)
    assert isinstance(broken, Broken)
    recording = shortened(Attempt(steps, len(steps), violation_of(broken, len(steps))))
    assert recording.rungs[-1] == (0, 6)
    assert recording.explained == (0, 5, 6)
    assert recording.shown.steps == (steps[0], steps[5], steps[6])


def test_a_violation_that_the_model_does_not_find_in_the_recording_is_left_alone() -> None:
    steps = (step(CreateTopic("t0")), step(ReadCursor("t0", "s0")))
    whole = Attempt(steps, 2, Violation(rule="SERVE-01", because="nothing is confirmed", step=2))
    assert shorten_recording(whole, KNOWN, limit_s=LIMIT_S) is None


def test_without_time_the_recording_stays_whole() -> None:
    whole = performed([CreateTopic("t0"), *sending("t0", "p", 3, 3)], FORGETFUL)
    recording = shorten_recording(whole, KNOWN, limit_s=0)
    assert recording is not None
    assert recording.shown == whole
