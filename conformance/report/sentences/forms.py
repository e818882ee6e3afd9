"""The verdicts as JSON: what ``verdicts.json`` and ``--json`` hold, as types; their JSON schema follows from these.

A field may be added within a schema version. One that is renamed, removed or means something else raises it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from conformance.events import Stage
from conformance.history.document import Replays
from conformance.verdicts import Rate, VerdictName

SchemaVersion = Literal[3]
"""The version of these forms. Version 1, which did not say so, had no verdict for known deviations; version 2 counted
checks that only a known deviation passed as exercised."""

Count = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=0)]


class RuleForm(Struct, frozen=True, kw_only=True):
    """One rule with its verdict.

    ``exercised`` counts the checks that could have failed, ``excused`` those that could not, or that only a known
    deviation passed. ``seconds`` is the time of all examples that exercised the
    rule; an example counts in full for each rule that it exercises. ``deviation`` names what the model knows of what
    broke the rule, ``met`` counts each known deviation that was met, ``replays`` how often the history came back,
    ``interval`` in what part of all replays it does (95 % confidence), and ``rate`` in how many examples something else
    broke the rule. ``history`` is relative to the folder of this file; ``left_out`` counts the steps of the recording
    that are not in it, if it is a part of that, and ``shortening`` says how it was made short. ``because`` says why the
    rule did not simply hold.
    """

    id: str
    verdict: VerdictName
    exercised: Count
    excused: Count = 0
    seconds: Seconds = 0.0
    deviation: str | None = None
    history: str | None = None
    because: str | None = None
    met: dict[str, Count] = {}
    replays: Replays | None = None
    interval: tuple[float, float] | None = None
    rate: Rate | None = None
    left_out: Count = 0
    shortening: tuple[Stage, ...] = ()


class VerifiedRuleForm(RuleForm, frozen=True, kw_only=True):
    """One rule over recorded histories; ``times`` it broke for no known reason, ``met`` counts what deviations explain.

    ``topics``: in how many it broke. ``cases`` are some of each run, fault and topic, with the events that show it.
    """

    times: Count = 0
    topics: Count = 0
    cases: list[dict[str, Any]] = []


class _Form(Struct, frozen=True, kw_only=True, tag_field="by"):
    """What both have: ``suite`` is this suite's version, ``date`` when the verdicts were written, in UTC."""

    schema: SchemaVersion = 3
    suite: str = msgspec.field(default_factory=lambda: version("pulsar-conformance"))
    date: Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
    command: str
    release: str | None
    seed: int | None
    exit_status: Annotated[int, Meta(ge=0)]
    operations: Count
    seconds: Seconds
    harness_errors: list[str]


class CheckForm(_Form, frozen=True, kw_only=True, tag="check"):
    """A run of ``check``. ``unseen``: known deviations not met. ``release`` is null where the broker never came up."""

    broker: str
    clients: dict[str, str]
    rules: list[RuleForm]
    unseen: list[str]


class VerifyForm(_Form, frozen=True, kw_only=True, tag="verify"):
    """Verified histories; ``operations`` counts events. ``release`` and ``seed`` are null: histories may be of many."""

    rules: list[VerifiedRuleForm]
    notes: list[str]


def utc(when: datetime) -> str:
    """A time as these forms have it."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def encode(form: CheckForm | VerifyForm) -> bytes:
    """The JSON, indented for people."""
    return msgspec.json.format(msgspec.json.encode(form), indent=2) + b"\n"


def json_schema() -> bytes:
    """The JSON schema of both forms, indented for people."""
    schema = msgspec.json.schema(CheckForm | VerifyForm)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Verdicts of pulsar-conformance"}
    return msgspec.json.format(msgspec.json.encode({**head, **schema}), indent=2) + b"\n"
