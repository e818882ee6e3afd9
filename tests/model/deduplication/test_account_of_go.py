"""What the Go client says of its last sequence id, beside what is known of it."""

from __future__ import annotations

import pytest

from model.events import Opened
from model.operations import OpenProducer
from tests.notation import steps
from tests.verdicts import Happened, allowed_by, broken_by

LOWEST, NOT_ADOPTED = "last-sequence-id-of-batch-is-lowest", "last-sequence-id-not-adopted"
GO, JAVA = "go:0.19.0", "java:4.0.8"


def opened(session: str, library: str, last_sequence_id: int) -> Happened:
    operation = OpenProducer(session, "t", "p", "official", library=library)
    return operation, Opened(last_sequence_id)


def sent(text: str) -> list[Happened]:
    """What the first session of ``p`` sends."""
    return list(steps(f"t on; p opens -1; {text}"))


def test_only_the_lowest_id_of_a_batch_of_the_go_client_is_known() -> None:
    create, _, batch = sent("p sends 1+3@0 -> 1")
    *_, inside = sent("p sends 1+3@0 -> 2")
    allowed_by(create, opened("p1", GO, -1), batch, known=(LOWEST,))
    for library, send in ((GO, inside), (JAVA, batch)):
        assert broken_by(create, opened("p1", library, -1), send, known=(LOWEST,)).rule == "DEDUP-19"


@pytest.mark.parametrize(("library", "last_sequence_id"), [(GO, 0), (JAVA, -1)])
def test_only_the_go_client_may_say_nothing_of_the_last_sequence_id(library: str, last_sequence_id: int) -> None:
    before = sent("p sends 1@0 -> 1; p closes")
    allowed_by(*before, opened("q1", GO, -1), known=(NOT_ADOPTED,))
    assert broken_by(*before, opened("q1", library, last_sequence_id), known=(NOT_ADOPTED,)).rule == "DEDUP-09"
