"""Programs with a database (DEDUP-17, DEDUP-18): what they applied, wherever they were killed.

Scenario 1 keeps the last message id in one transaction with its state, and so has applied exactly the log, in its
order, when it has come to the end of it. Scenario 2 keeps every business id, and so has applied each id of the log
once, however often the log has it. What a program did at which moment does not matter: only its database counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from model.applications.subscriptions import messages_of
from model.events import Delivery, LoggedEntry, Ran
from model.judgement import Allowed, Broken
from model.rules.catalogue import carries

Scenario = Literal["reader", "subscriber"]


@dataclass(frozen=True, slots=True)
class ProgramState:
    """What is known of one program: its scenario, how often it was killed at work, whether it has come to the end."""

    topic: str
    scenario: Scenario
    deaths: int = 0
    is_through: bool = False


def ran(program: ProgramState, outcome: Ran) -> ProgramState:
    """A run of it is over."""
    deaths = program.deaths + (1 if outcome.killed and outcome.received else 0)
    return replace(program, deaths=deaths, is_through=not outcome.killed)


@carries("DEDUP-17", "DEDUP-18")
def got_stuck(program: ProgramState, name: str, why: str) -> Broken:
    """A program that is started again and again comes to the end."""
    return Broken(_rule(program), f"program {name} did not reach the end of its topic: {why}")


def _rule(program: ProgramState) -> str:
    return "DEDUP-17" if program.scenario == "reader" else "DEDUP-18"


def database_read(
    program: ProgramState, name: str, applied: Sequence[Delivery], log: Sequence[LoggedEntry] | None
) -> Allowed[ProgramState] | Broken:
    """Its database was read; it says something once the program is through, and the log (None: not known) was read."""
    if log is None or not program.is_through:
        return Allowed(program)
    if program.scenario == "reader":
        return _reader_applied(program, name, applied, messages_of(log))
    return _subscriber_applied(program, name, applied, messages_of(log))


@carries("DEDUP-17")
def _reader_applied(
    program: ProgramState, name: str, applied: Sequence[Delivery], messages: Sequence[Delivery]
) -> Allowed[ProgramState] | Broken:
    """Every message of the log was applied exactly once, in its order."""
    times = Counter(applied)
    for message in (*messages, *applied):
        if (count := times[message]) != 1 or message not in messages:
            many = "never" if count == 0 else f"{count} times"
            where = "" if message in messages else ", which the log does not have"
            what = f"{message.business_id} (at {message.position})"
            return Broken("DEDUP-17", f"program {name} applied message {what} {many}{where}")
    if list(applied) != list(messages):
        order = ", ".join(message.business_id for message in applied)
        return Broken("DEDUP-17", f"program {name} did not apply the messages in the order of the log, but as {order}")
    return Allowed(program, ("DEDUP-17",) if program.deaths and messages else ())


@carries("DEDUP-18")
def _subscriber_applied(
    program: ProgramState, name: str, applied: Sequence[Delivery], messages: Sequence[Delivery]
) -> Allowed[ProgramState] | Broken:
    """Every business id of the log was applied exactly once; the order, with redeliveries, is nobody's promise."""
    times = Counter(message.business_id for message in applied)
    wanted = Counter(message.business_id for message in messages)
    for business_id in (*wanted, *times):
        if times[business_id] != 1 or business_id not in wanted:
            many = "never" if times[business_id] == 0 else f"{times[business_id]} times"
            has = f"has it {wanted[business_id]} times" if wanted[business_id] else "does not have it"
            return Broken("DEDUP-18", f"program {name} applied business id {business_id} {many}; the log {has}")
    holds_duplicates = len(wanted) < wanted.total()
    return Allowed(program, ("DEDUP-18",) if program.deaths and holds_duplicates else ())
