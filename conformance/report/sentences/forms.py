"""The types of ``verdicts.json`` and ``--json``, and their JSON schema.

A new field keeps the schema version. A field that is renamed, removed or redefined raises it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from conformance.events import BaselineResult, Stage
from conformance.history.document import Replays
from conformance.load import Load
from conformance.verdicts import Rate, VerdictName

SchemaVersion = Literal[3]
"""The version of these forms. Version 1 had no version and no verdict for known deviations. Version 2 counted checks
that only a known deviation passed as exercised."""

Count = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=0)]


class BaselineForm(Struct, frozen=True, kw_only=True):
    """The comparison of a violation with the ``broker``, or the file of verdicts, that was the baseline.

    ``candidate`` and ``before``: how often it came back on each. ``p``: Fisher's probability. ``interval``: of the
    difference of the rates (95 %). ``because``: why it is undecided, or what the file says.
    """

    broker: str
    result: BaselineResult
    candidate: Replays | None = None
    before: Replays | None = None
    p: float | None = None
    interval: tuple[float, float] | None = None
    because: str = ""


class RuleForm(Struct, frozen=True, kw_only=True):
    """One rule with its verdict.

    ``exercised`` counts the checks that could have failed, ``excused`` those that could not, or that only a known
    deviation passed. ``seconds`` is the time of all examples that exercised the rule; an example counts in full for
    each rule that it exercises. ``deviation`` is the model's name for the cause, ``met`` counts each known deviation
    that was met, ``replays`` counts those in which the violation came back, ``interval`` is their share of all replays
    (95 % confidence), and ``rate`` in how many examples the rule broke in the same way. ``history`` is relative to the
    folder of this file; ``left_out`` counts the steps of the recording that it lacks, ``replay`` is the file to replay
    (the history, or the whole recording if steps are left out), and ``shortening`` has the stages of its shortening.
    ``because`` says why the rule did not simply hold. ``overdue``: something did not happen
    before a wait ended; ``load`` is that of the machine meanwhile. ``baseline``: its comparison with that of the run.
    """

    id: str
    verdict: VerdictName
    exercised: Count
    excused: Count = 0
    seconds: Seconds = 0.0
    deviation: str | None = None
    history: str | None = None
    replay: str | None = None
    because: str | None = None
    met: dict[str, Count] = {}
    replays: Replays | None = None
    interval: tuple[float, float] | None = None
    rate: Rate | None = None
    left_out: Count = 0
    shortening: tuple[Stage, ...] = ()
    overdue: bool = False
    load: Load | None = None
    baseline: BaselineForm | None = None


class VerifiedRuleForm(RuleForm, frozen=True, kw_only=True):
    """One rule over recorded histories; ``times`` it broke for no known reason; ``met`` counts the known deviations.

    ``topics``: in how many it broke. ``cases`` has examples from each run, fault and topic, with their events.
    """

    times: Count = 0
    topics: Count = 0
    cases: list[dict[str, Any]] = []


class _Form(Struct, frozen=True, kw_only=True, tag_field="by"):
    """Fields of both: ``suite`` is this suite's version, ``date`` when the verdicts were written, in UTC."""

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


class EndedForm(Struct, frozen=True, kw_only=True):
    """A process that ended although the suite did not end it; ``status`` is negative if a signal ended it.

    ``of``: a process of the release breaks SERVE-02, and one of the suite is a harness error. ``because`` says how it
    ended, and the likely cause; ``log`` has the last lines of its log.
    """

    process: str
    of: Literal["release", "suite"]
    pid: Count
    status: int | None
    seconds: Seconds
    because: str
    log: list[str]


class CheckForm(_Form, frozen=True, kw_only=True, tag="check"):
    """A run of ``check``. ``unseen``: known deviations not met. ``release`` is null if the broker never started.

    ``stopped``: why the run ended early although nothing failed: interrupted, not authorized, or out of time before the
    broker was ready.
    ``ended``: the processes that ended although the suite did not end them. ``load``: that of the machine in the run.
    ``substitutes``: by what is not published of an assembled release, what is used instead. ``excused``: the broken
    rules that the client is listed to break. ``stale``: those listed as always broken that held.
    """

    broker: str
    clients: dict[str, str]
    rules: list[RuleForm]
    unseen: list[str]
    stopped: str | None = None
    ended: list[EndedForm] = []
    load: Load | None = None
    substitutes: dict[str, str] = {}
    excused: list[str] = []
    stale: list[str] = []


class VerifyForm(_Form, frozen=True, kw_only=True, tag="verify"):
    """Verified histories; ``operations`` counts events. ``release`` and ``seed`` are null: histories may be of many."""

    rules: list[VerifiedRuleForm]
    notes: list[str]


def utc(when: datetime) -> str:
    """A time in the format of these forms."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def encode(form: CheckForm | VerifyForm) -> bytes:
    """The JSON, indented."""
    return msgspec.json.format(msgspec.json.encode(form), indent=2) + b"\n"


def json_schema() -> bytes:
    """The JSON schema of both forms, indented."""
    schema = msgspec.json.schema(CheckForm | VerifyForm)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Verdicts of pulsar-conformance"}
    return msgspec.json.format(msgspec.json.encode({**head, **schema}), indent=2) + b"\n"
