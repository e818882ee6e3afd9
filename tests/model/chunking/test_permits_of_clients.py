"""Permits that a client loses with the chunks that it discards."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from conformance.history import document
from conformance.known import HISTORIES
from model.example.step import Step
from model.subscription_operations import Subscribe
from tests.verdicts import allowed_by, broken_by

LOST = "permit-of-discarded-chunk-lost"
STEPS = document.read(HISTORIES / f"{LOST}.json").steps


def subscribed(library: str, queue: int) -> list[Step]:
    return [
        replace(step, operation=replace(step.operation, library=library, queue=queue))
        if isinstance(step.operation, Subscribe)
        else step
        for step in STEPS
    ]


@pytest.mark.parametrize(
    ("library", "queue", "is_known"),
    [
        ("java:4.0.8", 1, True),
        ("go:0.19.0", 1, True),
        ("java:4.0.8", 2, False),
        ("java:4.0.8", 1000, False),
        ("pulsar-client:3.13.0", 1, False),
    ],
)
def test_a_consumer_has_no_permits_left_only_after_so_many_discarded_last_chunks(
    library: str, queue: int, is_known: bool
) -> None:
    if is_known:
        allowed_by(*subscribed(library, queue), known=(LOST,))
    else:
        broken = broken_by(*subscribed(library, queue), known=(LOST,))
        assert (broken.rule, broken.deviation) == ("CHUNK-03" if queue > 2 else "CHUNK-15", None)
