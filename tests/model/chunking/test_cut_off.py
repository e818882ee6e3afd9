"""A client that delivers the last chunk alone of a message, beside what is known of it."""

from __future__ import annotations

from msgspec.structs import replace

from conformance.history import document
from conformance.known import HISTORIES
from model.events import DueReceived
from model.example.step import Step
from model.subscription_operations import Subscribe
from tests.verdicts import allowed_by, broken_by

CUT_OFF = "chunks-without-uncompressed-size-cut-off"
CREATE, OPEN, SEND, SUBSCRIBE, RECEIVE = document.read(HISTORIES / f"{CUT_OFF}.json").steps


def received(digest: str) -> Step:
    """The message was delivered with another payload."""
    assert isinstance(RECEIVE.outcome, DueReceived)
    (traffic,) = RECEIVE.outcome.traffic
    (delivery,) = traffic.received
    other = replace(traffic, received=(replace(delivery, digest=digest),))
    return replace(RECEIVE, outcome=replace(RECEIVE.outcome, traffic=(other,)))


def by(library: str) -> Step:
    assert isinstance(SUBSCRIBE.operation, Subscribe)
    return replace(SUBSCRIBE, operation=replace(SUBSCRIBE.operation, library=library))


def test_the_go_client_may_deliver_the_last_chunk_alone_and_nothing_else() -> None:
    assert isinstance(RECEIVE.outcome, DueReceived)
    first, *_, last = (one.part.digest for one in RECEIVE.outcome.log)
    before = CREATE, OPEN, SEND
    allowed_by(*before, SUBSCRIBE, received(last), known=(CUT_OFF,))
    for subscribe, receive in ((SUBSCRIBE, received(first)), (by("java:4.0.8"), RECEIVE)):
        broken = broken_by(*before, subscribe, receive, known=(CUT_OFF,))
        assert (broken.rule, broken.deviation) == ("CHUNK-04", None)
