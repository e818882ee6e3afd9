"""Sources (DEDUP-13, DEDUP-15): the guarantees for an application that publishes, across its restarts.

A source owes the log its entries, in order. A confirmation shows that an entry is stored. A source that resumes from
the last sequence id in ProducerSuccess relies on that id alone. A source that cannot replay gives up the entries that
were unconfirmed when it crashed. :mod:`model.deduplication.observer` judges the broker; this module judges what the
application sees.

Three deviations are possible, each only under its conditions. The last sequence id may be that of a write in flight
that fails later: a write failure was injected since the entry was sent, or the topic was unloaded after
ProducerSuccess, and no later entry was confirmed before. All writes after it fail too, so the log has no later entry
that this last sequence id covers. A topic that is unloaded while it rolls over to a new ledger may lose writes in
flight and store later ones, in the new ledger. And pulsar-client may wait forever if its producer was closed while it
was created, by a failed write or an unload.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from model.events import Confirmed, LoggedEntry, SourceEnded
from model.excuses import DEVIATIONS, requires
from model.excuses.deduplication import (
    CLOSE_OVERTAKES_PRODUCER_SUCCESS,
    ROLLOVER_REOPENS_CLOSED_LEDGER,
    SOURCE_RESUMES_FROM_PUSHED_ID,
)
from model.judgement import Allowed, Broken
from model.log import Position
from model.operations import GoesOn, StartSource
from model.rules.catalogue import carries
from model.vocabulary import Client, Entry


@dataclass(frozen=True, slots=True)
class Owed:
    """An entry that a source has reached.

    ``covered_by``: the last sequence id because of which the source skipped it. ``may_have_failed``: its last write
    may have failed. ``was_in_flight``: it may have been in flight during an unload. ``given_up``: a source that cannot
    replay gave it up.
    """

    entry: Entry
    confirmed: bool = False
    position: Position | None = None
    covered_by: int | None = None
    may_have_failed: bool = False
    was_in_flight: bool = False
    given_up: bool = False

    @property
    def trusted(self) -> bool:
        """Whether the source skipped it."""
        return self.covered_by is not None

    @property
    def is_open(self) -> bool:
        """Whether the source sends it, or will send it again."""
        return not (self.confirmed or self.trusted or self.given_up)

    @property
    def may_be_lost(self) -> bool:
        """Whether the write that the last sequence id covers may have failed."""
        return self.trusted and self.may_have_failed and not self.confirmed


@dataclass(frozen=True, slots=True)
class SourceState:
    """What is known of one source: what it owes, whether it lives, and what it went through.

    ``client``: that of this life. ``is_undisturbed``: no failing writes were asked for in this life. ``goes_on``: where
    it last went on.
    ``interruptions``: how often it had to come back with something unconfirmed. ``may_be_closed``: in this life the
    broker may have closed its producer. ``was_away``: in this life the broker's process was away.
    """

    topic: str
    owed: tuple[Owed, ...] = ()
    is_running: bool = False
    client: Client = "wire"
    is_undisturbed: bool = False
    goes_on: GoesOn = "from-checkpoint"
    interruptions: int = 0
    may_be_closed: bool = False
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


def started(
    source: SourceState, operation: StartSource, last_sequence_id: int, *, may_fail: bool, is_undisturbed: bool
) -> SourceState:
    """A source started. Where it resumes depends on its kind, and maybe on the last sequence id in ProducerSuccess.

    ``may_fail``: writes on its topic may fail. ``is_undisturbed``: if so, only those already in flight.
    """
    came = tuple(Owed(entry, may_have_failed=may_fail) for entry in operation.entries)
    owed = (*source.owed, *came)
    if operation.goes_on == "with-new-only":
        owed = (*(_given_up(before) for before in source.owed), *came)
    if operation.goes_on == "from-told-id":
        owed = tuple(_compared_with(last_sequence_id, one, may_fail=may_fail) for one in owed)
    return replace(
        source,
        owed=owed,
        is_running=True,
        client=operation.client,
        is_undisturbed=is_undisturbed,
        goes_on=operation.goes_on,
        may_be_closed=may_fail,
        was_away=False,
    )


def _given_up(owed: Owed) -> Owed:
    return replace(owed, given_up=True) if owed.is_open else owed


def _compared_with(last_sequence_id: int, owed: Owed, *, may_fail: bool) -> Owed:
    """The source counts entries up to the last sequence id as stored, and sends later ones (again)."""
    if owed.confirmed or owed.given_up:
        return owed
    if owed.entry.highest <= last_sequence_id:
        return owed if owed.trusted else replace(owed, covered_by=last_sequence_id)
    return replace(owed, covered_by=None, may_have_failed=may_fail)


@carries("DEDUP-13")
def ended(source: SourceState, name: str, outcome: SourceEnded, known: frozenset[str]) -> Allowed[SourceState] | Broken:
    """A life is over. What was confirmed in it is stored, and with it what the source trusted to stand before it.

    The client's retries should have been enough. While the broker's process is away it waits ever longer between them.
    """
    if not outcome.stalled or source.was_away:
        return Allowed(_after(source, outcome))
    because = f"the client did not get a send receipt for a message of source {name}"
    if source.client != "official" or not source.may_be_closed:
        return Broken("DEDUP-13", because)
    return requires(CLOSE_OVERTAKES_PRODUCER_SUCCESS, _after(source, outcome), known, because)


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
    """A confirmation without a position says no more than the last sequence id that a source trusts."""
    if answer is None or (answer.position is None and owed.may_be_lost):
        return owed
    return replace(owed, confirmed=True, position=answer.position or owed.position)


def _settled(owed: Owed) -> Owed:
    return replace(owed, confirmed=True) if owed.trusted and not owed.may_have_failed else owed


def writes_may_fail(source: SourceState) -> SourceState:
    """From now on writes to its topic may fail, and so may those that are in flight."""
    owed = tuple(replace(o, may_have_failed=not o.confirmed) for o in source.owed)
    return replace(source, owed=owed, is_undisturbed=False, may_be_closed=True)


def unloaded(source: SourceState, *, was_away: bool) -> SourceState:
    """Its topic was closed: a write that was in flight when the source was told of it may have failed.

    ``was_away``: so was the broker's process.
    """
    owed = tuple(o if o.confirmed else _in_flight_when_moved(o) for o in source.owed)
    return replace(source, owed=owed, may_be_closed=True, was_away=source.was_away or was_away)


def _in_flight_when_moved(owed: Owed) -> Owed:
    return replace(owed, was_in_flight=True, may_have_failed=owed.may_have_failed or owed.trusted)


@carries("DEDUP-13")
def never_ended(name: str, why: str) -> Broken:
    """Retrying until confirmed has an end when nothing fails any more."""
    return Broken("DEDUP-13", f"source {name} resent its messages and never finished: {why}")


@carries("DEDUP-13", "DEDUP-15")
def log_read(
    source: SourceState, name: str, found: Sequence[LoggedEntry], rolled_over: Set[int], known: frozenset[str]
) -> Allowed[SourceState] | Broken:
    """The source's part of the log: its entries, each once, in its order; what it does not count on may be missing.

    ``rolled_over``: the ledgers of the log to which the topic rolled over.
    One pass: what is there is there once and was sent, so the next entry is either the one that is owed next, or that
    one is missing.
    """
    for logged in found:
        if (because := _why_extra(source, name, logged, found)) is not None:
            return _broken(source, because)
    lost: dict[int, str] = {}
    rest = list(found)
    for number, owed in enumerate(source.owed):
        if rest and rest[0].entry == owed.entry:
            at = rest.pop(0).position
            if owed.position not in (None, at):
                return _broken(
                    source, f"{owed.entry} of source {name} is at {at} in the log, but was confirmed at {owed.position}"
                )
        elif owed.confirmed or owed.trusted:
            excuse = _excuse(owed, source.owed[number + 1 :], rest, rolled_over, known)
            if excuse is None:
                return _broken(source, _why_missing(name, owed, found))
            lost[number] = excuse
    if rest:
        return _broken(source, _out_of_order(name, rest[0]))
    for number, excuse in lost.items():
        if excuse not in known:
            return DEVIATIONS[excuse].broken(_why_missing(name, source.owed[number], found))
    after = replace(source, owed=tuple(_let_go(o) if i in lost else o for i, o in enumerate(source.owed)))
    return Allowed(after, () if lost else _exercised_by(source), tuple(sorted(set(lost.values()))))


def _excuse(
    owed: Owed, later: Sequence[Owed], rest: Sequence[LoggedEntry], rolled_over: Set[int], known: frozenset[str]
) -> str | None:
    """The deviation, a known one if there is, that explains why an entry that the source takes for stored is missing.

    None if nothing does: it is not missing but out of order, or it cannot have happened.
    """
    ledgers = {logged.entry: logged.position.ledger for logged in rest}
    if owed.entry in ledgers:
        return None
    stored = [one for one in later if one.entry in ledgers]
    excuses = []
    if owed.may_be_lost and all(one.covered_by != owed.covered_by for one in stored):
        excuses.append(SOURCE_RESUMES_FROM_PUSHED_ID)
    is_in_gap = any(one.was_in_flight and ledgers[one.entry] in rolled_over for one in stored[:1])
    if owed.was_in_flight and owed.position is None and is_in_gap:
        excuses.append(ROLLOVER_REOPENS_CLOSED_LEDGER)
    return min(excuses, key=lambda name: name not in known, default=None)


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
