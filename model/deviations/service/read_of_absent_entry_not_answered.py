from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Allowed, Broken
from model.read_operations import ReadMessage
from model.service.unexpected import Silence

ENTRY = Deviation(
    name="read-of-absent-entry-not-answered",
    rule="SERVE-01",
    statement="A read of a message id whose entry does not exist is not answered.",
    cause="The callback of PersistentTopicsBase.internalGetMessageById throws the error, instead of completing the answer with it (byte code of 3.2.0 and 3.0.7). 3.3.6 completes it.",
    upstream=("apache/pulsar#21919",),
    side="broker",
    releases=(">=3.0.0,<=3.2.0",),
    seen=("3.2.0", "3.0.0", "3.0.7"),
    gone=("3.3.6", "4.0.8", "4.2.4", "5.0.1"),
    occurrence="In 4 of 4 replays.",
    shadow=Shadow(
        name="test_only_a_read_of_what_does_not_exist_may_fail",
        by="small history",
        statement="A read of an existing message is not answered.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    is_missing = isinstance(step.operation, ReadMessage) and step.operation.message is None
    is_silent = any(isinstance(one, Silence) and one.interface == "admin" for one in step.unexpected)
    return Allowed(state) if is_missing and is_silent and broken.rule == "SERVE-01" else None
