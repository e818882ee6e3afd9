"""SERVE-09: who has access to a topic by the access modes of its producers, and the deviations from them."""

from __future__ import annotations

import pytest

from model.events import AnyOutcome, Created, Done, Opened, Refused, Sent, Stored, Unknown
from model.example.state import Example
from model.explain import judge
from model.judgement import Allowed, Broken
from model.log import Position
from model.operations import AnyOperation, CloseProducer, CrashProducer, CreateTopic, Kill, OpenProducer, Send, Unload
from model.producer_operations import Activated, AwaitProducers, ProducersRead, Queued
from model.service.access import BUSY, FENCED
from model.service.unexpected import Closed
from model.vocabulary import AccessMode, Entry, Message
from tests.verdicts import Happened, judged

TOPIC: Happened = (CreateTopic("t0", persistence="every-ack"), Created(deduplication=False, snapshot_room=6))
BUSY_NOW = Refused(BUSY, "Topic has an existing exclusive producer: q")
FENCED_NOW = Refused(FENCED, "Topic has an existing exclusive producer: q")
AWAIT = AwaitProducers("t0")
LOCKED = "closed-producer-stays-queued"
ESCAPES = "activation-not-fenced"
FENCES = "refused-producer-fences-others"
FORGOTTEN = "queued-producer-forgotten-by-unload"
LATER_FORGOTTEN = "later-queued-producer-forgotten-by-unload"
NOT_ACTIVATED = "producer-not-activated-after-shared"


def opens(session: str, access: AccessMode = "Shared", *, has_epoch: bool = False) -> OpenProducer:
    return OpenProducer(session, "t0", session, access=access, has_epoch=has_epoch)


def gets(session: str, epoch: int, *, waiting: tuple[str, ...] = (), beside: tuple[str, ...] = ()) -> ProducersRead:
    return ProducersRead(waiting, (*beside, session), (Activated(session, -1, epoch),))


def sends(session: str) -> Send:
    return Send(session, (Entry((Message(1, "b1"),)),))


STORED = Sent((Stored(Position(1, 0)),))
SHARED: Happened = (opens("p"), Opened(-1))
EXCLUSIVE: Happened = (opens("p", "Exclusive"), Opened(-1, 0))
QUEUED: Happened = (opens("q", "WaitForExclusive"), Queued())
NEXT: Happened = (opens("r", "WaitForExclusive"), Queued())
LEFT: Happened = (CloseProducer("p"), Done())
RELOADED: Happened = (Unload("t0"), Done())


def verdict(*steps: Happened, known: tuple[str, ...] = ()) -> Allowed[Example] | Broken:
    return judged(TOPIC, *steps, known=known)


@pytest.mark.parametrize(
    ("before", "operation", "right", "wrong"),
    [
        ((SHARED,), opens("q"), Opened(-1), BUSY_NOW),
        ((SHARED,), opens("q", "Exclusive"), FENCED_NOW, Opened(-1, 0)),
        ((SHARED,), opens("q", "WaitForExclusive"), Queued(), Opened(-1, 0)),
        ((SHARED,), opens("q", "ExclusiveWithFencing"), Opened(-1, 0), FENCED_NOW),
        ((SHARED,), opens("q", "Exclusive"), FENCED_NOW, Queued()),
        ((EXCLUSIVE,), opens("q"), BUSY_NOW, Opened(-1)),
        ((EXCLUSIVE,), opens("q", "Exclusive"), FENCED_NOW, Opened(-1, 1)),
        ((EXCLUSIVE, LEFT), opens("q", "Exclusive"), Opened(-1, 1), FENCED_NOW),
        ((EXCLUSIVE, LEFT), opens("q", "Exclusive"), Opened(-1, 1), Opened(-1, 0)),
        ((EXCLUSIVE, LEFT), opens("q", "WaitForExclusive"), Opened(-1, 1), FENCED_NOW),
        ((SHARED, QUEUED), opens("r"), BUSY_NOW, Opened(-1)),
        ((SHARED, QUEUED, LEFT), AWAIT, gets("q", 0), ProducersRead(waiting=("q",))),
        ((EXCLUSIVE, QUEUED, NEXT, LEFT), AWAIT, gets("q", 1, waiting=("r",)), gets("r", 1, waiting=("q",))),
        ((EXCLUSIVE, QUEUED), AWAIT, ProducersRead(("q",), ("p",)), gets("q", 1, beside=("p",))),
        ((EXCLUSIVE, QUEUED), AWAIT, ProducersRead(("q",), ("p",)), ProducersRead(open=("p",))),
        ((SHARED, QUEUED, RELOADED), AWAIT, ProducersRead(), ProducersRead(waiting=("q",))),
        ((SHARED, QUEUED, (Kill(), Done())), AWAIT, ProducersRead(), ProducersRead(waiting=("q",))),
        (
            (SHARED, QUEUED, (opens("r", "ExclusiveWithFencing"), Opened(-1, 0))),
            AWAIT,
            ProducersRead(open=("r",)),
            ProducersRead(("q",), ("r",)),
        ),
        (
            (EXCLUSIVE, LEFT, (opens("q", "Exclusive"), Opened(-1, 1)), RELOADED),
            opens("p", "Exclusive", has_epoch=True),
            Refused(FENCED, "Topic epoch has already moved"),
            Opened(-1, 0),
        ),
        ((EXCLUSIVE, LEFT), opens("p", "Exclusive", has_epoch=True), Opened(-1, 0), FENCED_NOW),
        (
            (SHARED, (opens("q", "ExclusiveWithFencing"), Opened(-1, 0))),
            sends("p"),
            Sent((Unknown("the broker closed the connection"),)),
            STORED,
        ),
    ],
)
def test_access_is_given_by_the_modes(
    before: tuple[Happened, ...], operation: AnyOperation, right: AnyOutcome, wrong: AnyOutcome
) -> None:
    allowed = verdict(*before, (operation, right))
    broken = verdict(*before, (operation, wrong))
    assert isinstance(allowed, Allowed), allowed
    assert isinstance(broken, Broken)
    assert (broken.rule, broken.deviation in (None, NOT_ACTIVATED, FORGOTTEN)) in (
        ("SERVE-09", True),
        ("SERVE-01", True),
    ), broken


def test_a_producer_that_was_activated_goes_on_as_any_other() -> None:
    allowed = verdict(SHARED, QUEUED, LEFT, (AWAIT, gets("q", 0)), (sends("q"), STORED))
    assert isinstance(allowed, Allowed)
    assert isinstance(verdict(SHARED, QUEUED, (CrashProducer("q"), Done()), (opens("r"), Opened(-1))), Allowed)


def test_only_a_shared_producer_leaves_a_queue_alone() -> None:
    stuck: Happened = AWAIT, ProducersRead(waiting=("q",))
    explained = verdict(SHARED, QUEUED, LEFT, stuck, known=(NOT_ACTIVATED,))
    broken = verdict(EXCLUSIVE, QUEUED, LEFT, stuck, known=(NOT_ACTIVATED,))
    assert isinstance(explained, Allowed)
    assert isinstance(broken, Broken)
    assert (broken.rule, broken.deviation) == ("SERVE-09", None)


def test_only_an_unload_forgets_a_queued_producer() -> None:
    explained = verdict(SHARED, QUEUED, RELOADED, (AWAIT, ProducersRead(waiting=("q",))), known=(FORGOTTEN,))
    fencing: Happened = opens("r", "ExclusiveWithFencing"), Opened(-1, 0)
    broken = verdict(SHARED, QUEUED, fencing, (AWAIT, ProducersRead(("q",), ("r",))), known=(FORGOTTEN,))
    assert isinstance(explained, Allowed)
    assert isinstance(broken, Broken)
    assert (broken.rule, broken.deviation) == ("SERVE-09", None)


def test_only_an_unload_forgets_a_later_queued_producer() -> None:
    fencing: Happened = opens("s", "ExclusiveWithFencing"), Opened(-1, 0)
    for steps, left, explained in (
        ((RELOADED,), ("r",), True),
        ((RELOADED,), ("q", "r"), False),
        ((fencing,), ("r",), False),
    ):
        found = verdict(SHARED, QUEUED, NEXT, *steps, (AWAIT, ProducersRead(left)), known=(LATER_FORGOTTEN,))
        assert isinstance(found, Allowed) == explained, found
    gone: Happened = CloseProducer("q"), Done()
    for queue in (
        (QUEUED, QUEUED),
        (QUEUED, gone, QUEUED),
        (NEXT, (CloseProducer("r"), Done()), QUEUED),
        (QUEUED, NEXT, (CloseProducer("r"), Done())),
    ):
        kept = verdict(SHARED, *queue, RELOADED, (AWAIT, ProducersRead(("q",))), known=(LATER_FORGOTTEN,))
        assert isinstance(kept, Allowed) == (queue[-1] == QUEUED), kept
    unknown = verdict(SHARED, QUEUED, NEXT, RELOADED, (AWAIT, ProducersRead(("r",))))
    assert isinstance(unknown, Broken)
    assert unknown.deviation == LATER_FORGOTTEN


def test_only_a_producer_that_left_the_queue_blocks_others() -> None:
    gone: Happened = CloseProducer("q"), Done()
    refused: Happened = opens("r"), BUSY_NOW
    assert isinstance(verdict(SHARED, QUEUED, gone, refused, known=(LOCKED,)), Allowed)
    again: Happened = opens("q"), BUSY_NOW
    assert isinstance(verdict(SHARED, QUEUED, again, known=(LOCKED,)), Allowed)
    for steps in (
        (SHARED, QUEUED, gone, RELOADED, refused),
        (SHARED, QUEUED, RELOADED, again),
        (EXCLUSIVE, LEFT, refused),
    ):
        broken = verdict(*steps, known=(LOCKED,))
        assert isinstance(broken, Broken)
        assert (broken.rule, broken.deviation) == ("SERVE-09", None)


def test_only_a_producer_that_is_being_activated_escapes_fencing() -> None:
    both: Happened = AWAIT, gets("q", 0, beside=("p",))
    again: Happened = opens("p", "ExclusiveWithFencing"), Opened(-1, 1)
    beside: Happened = opens("s"), Opened(-1)
    assert isinstance(verdict(SHARED, QUEUED, again, both, known=(ESCAPES,)), Allowed)
    for steps in ((SHARED, beside, QUEUED, again, both), (SHARED, QUEUED, both)):
        broken = verdict(*steps, known=(ESCAPES,))
        assert isinstance(broken, Broken)
        assert (broken.rule, broken.deviation) == ("SERVE-09", None)


def test_only_a_refused_fencing_producer_fences_others() -> None:
    taken: tuple[Happened, ...] = (EXCLUSIVE, LEFT, (opens("q", "Exclusive"), Opened(-1, 1)))
    refused = Refused(FENCED, "Topic epoch has already moved")
    closed = Closed("q", "the broker closed the connection", "t0")
    lost = sends("q"), Sent((Unknown("the broker closed the connection"),))
    for access, explained in (("ExclusiveWithFencing", True), ("Exclusive", False)):
        before = verdict(*taken, (opens("p", access, has_epoch=True), refused), known=(FENCES,))  # type: ignore[arg-type]
        assert isinstance(before, Allowed)
        found = judge(before.state, *lost, unexpected=(closed,))
        assert isinstance(found, Allowed) == explained, found
        reconnects: Happened = opens("p", access, has_epoch=True), refused  # type: ignore[arg-type]
        read: Happened = AWAIT, ProducersRead((), ("q",))
        waited = verdict(*taken, NEXT, reconnects, read, known=(FENCES,))
        assert isinstance(waited, Allowed) == explained, waited
        assert isinstance(verdict(*taken, reconnects, NEXT, read, known=(FENCES,)), Broken)
