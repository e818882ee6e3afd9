from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from model.applications.sources import Missing
from model.deviation import Deviation, Shadow
from model.deviations.facts import is_reloaded_by
from model.deviations.sources import owed_before
from model.events import LoggedEntry, LogRead
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken

ENTRY = Deviation(
    name="rollover-reopens-closed-ledger",
    aliases=("unloaded-in-rollover",),
    rule="DEDUP-13",
    statement="If a topic is unloaded while it rolls over to a new ledger, some writes in flight fail and later ones are stored. The log has a gap, and the missing messages count as duplicates when they are sent again.",
    cause="ManagedLedgerImpl.asyncClose sets the state to Closed while a new ledger is being created, so the next entries fail. When the ledger exists, updateLedgersIdsComplete sets the state back to LedgerOpened, and the closed managed ledger stores the entries after them.",
    side="broker",
    releases=(">=2.5.1,<=2.6.0", "==2.11.0"),
    seen=("2.11.0", "2.5.1", "2.6.0"),
    gone=("3.3.6", "4.0.8"),
    occurrence="Without a failpoint, in about one of thirty unloads with messages in flight.",
    has_history=False,
    shadow=Shadow(
        name="test_without_a_rollover_or_a_later_entry_in_flight_an_unload_leaves_no_gap",
        by="small history",
        statement="The log has a gap after an unload, although no full ledger precedes the ledger of the next message.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    """It was in flight during an unload, and the next one that is stored, which was, too, begins a ledger."""
    match step.outcome, broken.evidence:
        case LogRead(entries), Missing(name, source, number, rest):
            room = state.topics[source.topic].ledger_room or 0
            ledgers = {logged.entry: logged.position.ledger for logged in rest}
            if source.owed[number].position is not None or source.owed[number].entry in ledgers:
                return None
            later = (n for n in range(number + 1, len(source.owed)) if source.owed[n].entry in ledgers)
            following = next(later, None)
            if following is None or ledgers[source.owed[following].entry] not in _rolled_over(entries, room):
                return None
            both = (Missing(name, source, one, rest) for one in (number, following))
            return broken.passing() if all(_was_in_flight(state, one) for one in both) else None
        case _:
            return None


def _was_in_flight(state: Example, entry: Missing) -> bool:
    """Whether an entry may have been in flight during an unload."""
    reloads = (past for past in state.trace if is_reloaded_by(past, entry.before.topic))
    return any((owed := owed_before(past, entry)) is not None and not owed.confirmed for past in reloads)


def _rolled_over(log: Sequence[LoggedEntry], room: int) -> Iterator[int]:
    """The ledgers of a log before which another one was full."""
    for before, after in pairwise(log):
        if after.position.ledger != before.position.ledger and before.position.entry + 1 >= room:
            yield after.position.ledger
