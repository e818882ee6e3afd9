"""Sources (DEDUP-13, DEDUP-15): the guarantees for an application that publishes, across its restarts.

A source owes the log its entries, in order. A confirmation shows that an entry is stored. A source that resumes from
the last sequence id in ProducerSuccess relies on that id alone. A source that cannot replay gives up the entries that
were unconfirmed when it crashed. :mod:`model.deduplication.observer` judges the broker; this module judges what the
application sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from model.events import Confirmed, LoggedEntry, SourceEnded
from model.judgement import Allowed, Broken
from model.log import Position
from model.operations import GoesOn, StartSource
from model.rules.catalogue import carries
from model.vocabulary import Client, Entry


@dataclass(frozen=True, slots=True)
class Owed:
    """An entry that a source has reached.

    ``covered_by``: the last sequence id because of which the source skipped it. ``given_up``: a source that cannot
    replay gave it up.
    """

    entry: Entry
    confirmed: bool = False
    position: Position | None = None
    covered_by: int | None = None
    given_up: bool = False

    @property
    def trusted(self) -> bool:
        """Whether the source skipped it."""
        return self.covered_by is not None

    @property
    def is_open(self) -> bool:
        """Whether the source sends it, or will send it again."""
        return not (self.confirmed or self.trusted or self.given_up)


@dataclass(frozen=True, slots=True)
class SourceState:
    """What is known of one source: what it owes, whether it lives, and what it went through.

    ``client``: that of this life. ``is_undisturbed``: no failing writes were asked for in this life. ``goes_on``: where
    it last went on.
    ``interruptions``: how often it had to come back with something unconfirmed. ``was_away``: in this life the broker's
    process was away.
    """

    topic: str
    owed: tuple[Owed, ...] = ()
    is_running: bool = False
    client: Client = "wire"
    is_undisturbed: bool = False
    goes_on: GoesOn = "from-checkpoint"
    interruptions: int = 0
    was_away: bool = False

    @property
    def is_settled(self) -> bool:
        """Whether nothing that it sent can still be on its way: all of it was confirmed."""
        return not self.is_running and all(owed.confirmed for owed in self.owed)

    @property
    def can_replay(self) -> bool:
        """Whether it sends again, in another life, what was not confirmed when it died."""
        return self.goes_on != "with-new-only"

    @property
    def highest(self) -> int:
        """The highest sequence id that it used; 0 for none."""
        return max((owed.entry.highest for owed in self.owed), default=0)


@dataclass(frozen=True, slots=True)
class Stalled:
    """The client of a source got no send receipt, however long it waited."""

    source: str


@dataclass(frozen=True, slots=True)
class Missing:
    """The log lacks the entry that a source owes as this ``number``. ``rest``: what the log has of it after that."""

    source: str
    before: SourceState
    number: int
    rest: tuple[LoggedEntry, ...]


def started(source: SourceState, operation: StartSource, last_sequence_id: int, *, is_undisturbed: bool) -> SourceState:
    """A source started. Where it resumes depends on its kind, and maybe on the last sequence id in ProducerSuccess.

    ``is_undisturbed``: only writes that are already in flight may fail on its topic.
    """
    came = tuple(Owed(entry) for entry in operation.entries)
    owed = (*source.owed, *came)
    if operation.goes_on == "with-new-only":
        owed = (*(_given_up(before) for before in source.owed), *came)
    if operation.goes_on == "from-told-id":
        owed = tuple(_compared_with(last_sequence_id, one) for one in owed)
    return replace(
        source,
        owed=owed,
        is_running=True,
        client=operation.client,
        is_undisturbed=is_undisturbed,
        goes_on=operation.goes_on,
        was_away=False,
    )


def _given_up(owed: Owed) -> Owed:
    return replace(owed, given_up=True) if owed.is_open else owed


def _compared_with(last_sequence_id: int, owed: Owed) -> Owed:
    """The source counts entries up to the last sequence id as stored, and sends later ones (again)."""
    if owed.confirmed or owed.given_up:
        return owed
    if owed.entry.highest <= last_sequence_id:
        return owed if owed.trusted else replace(owed, covered_by=last_sequence_id)
    return replace(owed, covered_by=None)


@carries("DEDUP-13")
def ended(source: SourceState, name: str, outcome: SourceEnded) -> Allowed[SourceState] | Broken:
    """A life is over. What was confirmed in it is stored, and with it what the source trusted to stand before it.

    The client's retries should have been enough. While the broker's process is away it waits ever longer between them.
    """
    if not outcome.stalled or source.was_away:
        return Allowed(_after(source, outcome))
    because = f"the client did not get a send receipt for a message of source {name}"
    return Broken("DEDUP-13", because, evidence=Stalled(name)).passing_to(_after(source, outcome))


def _after(source: SourceState, outcome: SourceEnded) -> SourceState:
    confirmed = {one.sequence_id: one for one in outcome.confirmed}
    owed = tuple(_with_answer(one, confirmed.get(one.entry.lowest)) for one in source.owed)
    last = max(confirmed, default=0)
    owed = tuple(_settled(one) if one.entry.lowest < last else one for one in owed)
    interruptions = source.interruptions + outcome.came_back + (1 if outcome.left else 0)
    return replace(source, owed=owed, is_running=False, interruptions=interruptions)


def shows_that_writes_are_over(source: SourceState, outcome: SourceEnded) -> bool:
    """Whether a write that this life had confirmed shows that all which were held before it have ended."""
    return source.is_undisturbed and any(one.position is not None for one in outcome.confirmed)


def _with_answer(owed: Owed, answer: Confirmed | None) -> Owed:
    return owed if answer is None else replace(owed, confirmed=True, position=answer.position or owed.position)


def _settled(owed: Owed) -> Owed:
    return replace(owed, confirmed=True) if owed.trusted else owed


def writes_may_fail(source: SourceState) -> SourceState:
    """From now on writes to its topic may fail, and so may those that are in flight."""
    return replace(source, is_undisturbed=False)


def unloaded(source: SourceState, *, was_away: bool) -> SourceState:
    """Its topic was closed. ``was_away``: so was the broker's process."""
    return replace(source, was_away=source.was_away or was_away)


@carries("DEDUP-13")
def never_ended(name: str, why: str) -> Broken:
    """Retrying until confirmed has an end when nothing fails any more."""
    return Broken("DEDUP-13", f"source {name} resent its messages and never finished: {why}")


@carries("DEDUP-13", "DEDUP-15")
def log_read(source: SourceState, name: str, found: Sequence[LoggedEntry]) -> Allowed[SourceState] | Broken:
    """The source's part of the log: its entries, each once, in its order; what it does not count on may be missing.

    One pass: what is there is there once and was sent, so the next entry is either the one that is owed next, or that
    one is missing.
    """
    for logged in found:
        if (because := _why_extra(source, name, logged, found)) is not None:
            return _broken(source, because)
    rest = list(found)
    for number, owed in enumerate(source.owed):
        if rest and rest[0].entry == owed.entry:
            at = rest.pop(0).position
            if owed.position not in (None, at):
                return _broken(
                    source, f"{owed.entry} of source {name} is at {at} in the log, but was confirmed at {owed.position}"
                )
        elif owed.confirmed or owed.trusted:
            broken = _broken(source, _why_missing(name, owed, found))
            without = replace(source, owed=(*source.owed[:number], _let_go(owed), *source.owed[number + 1 :]))
            missing = replace(broken, evidence=Missing(name, source, number, tuple(rest)))
            return missing.passing_to(without).then(lambda after: log_read(after, name, found))
    if rest:
        return _broken(source, _out_of_order(name, rest[0]))
    return Allowed(source, _exercised_by(source))


def _let_go(owed: Owed) -> Owed:
    return replace(owed, confirmed=False, covered_by=None, given_up=True)


def _broken(source: SourceState, because: str) -> Broken:
    return Broken("DEDUP-13" if source.can_replay else "DEDUP-15", because)


def _why_missing(name: str, owed: Owed, found: Sequence[LoggedEntry]) -> str:
    for logged in found:
        if logged.entry == owed.entry:
            return _out_of_order(name, logged)
    why = "though it was confirmed" if owed.confirmed else "though the last sequence id that it got covers it"
    return f"the log lacks {owed.entry} of source {name}, {why}"


def _out_of_order(name: str, logged: LoggedEntry) -> str:
    return (
        f"the log has {logged.entry} of source {name} at {logged.position}, which is not the order in which it was sent"
    )


def _why_extra(source: SourceState, name: str, logged: LoggedEntry, found: Sequence[LoggedEntry]) -> str | None:
    what = f"the log has {logged.entry} of source {name}"
    places = [str(other.position) for other in found if other.entry == logged.entry]
    if len(places) > 1:
        return f"{what} {len(places)} times, at {', '.join(places)}"
    if all(owed.entry != logged.entry for owed in source.owed):
        return f"{what} at {logged.position}, but the source never sent this entry"
    return None


def _exercised_by(source: SourceState) -> tuple[str, ...]:
    """Only a source that was interrupted and had everything settled put its rule to the test."""
    if not source.interruptions or any(owed.is_open for owed in source.owed):
        return ()
    if source.can_replay:
        return ("DEDUP-13",)
    gave_up = any(owed.given_up for owed in source.owed)
    return ("DEDUP-15",) if gave_up and any(owed.confirmed for owed in source.owed) else ()
