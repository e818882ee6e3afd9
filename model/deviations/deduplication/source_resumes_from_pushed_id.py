from __future__ import annotations

from model.applications.sources import Missing, Owed
from model.deviation import Deviation, Shadow
from model.deviations.facts import is_reloaded_by
from model.deviations.sources import owed_before, sets_write_failures, writes_may_fail
from model.example.state import Example, Judgement, Past
from model.example.step import Step
from model.judgement import Broken
from model.operations import StartSource

ENTRY = Deviation(
    name="source-resumes-from-pushed-id",
    aliases=("pending-id-trusted",),
    rule="DEDUP-13",
    statement="A source that resumes from the last sequence id in ProducerSuccess loses a message, because the write with that id failed afterwards.",
    cause="The consequence of pushed-id-in-producer-success. A source that resumes from its own last confirmed message is safe.",
    searched="2026-11-30: `getLastPublishedSequenceId highestSequencedPushed message lost`; nothing similar.",
    side="broker",
    releases=(">=2.10.1,<=5.0.1", "==2.5.1", "==2.6.0"),
    seen=("4.0.8", "3.3.6", "2.11.0", "2.10.1", "2.5.1", "2.6.0", "5.0.1"),
    shadow=Shadow(
        name="test_a_source_loses_no_entry_before_a_stored_one_that_the_same_last_sequence_id_covers",
        by="small history",
        statement="A source loses a message, but not a later one that the same last sequence id covers.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    """No later entry that the same last sequence id covers is stored: once a write fails, those after it fail, too."""
    match broken.evidence:
        case Missing(before=source, number=number, rest=rest) as missing:
            owed, stored = source.owed[number], {logged.entry for logged in rest}
            later = [one for one in source.owed[number + 1 :] if one.entry in stored]
            is_lost = owed.trusted and owed.position is None and owed.entry not in stored
            is_last = all(one.covered_by != owed.covered_by for one in later)
            return broken.passing() if is_lost and is_last and _may_have_failed(state, missing) else None
        case _:
            return None


def _may_have_failed(state: Example, missing: Missing) -> bool:
    """Whether the last write of an entry may have failed, before or after ProducerSuccess had its id."""
    for past in state.trace:
        owed, topic = owed_before(past, missing), missing.before.topic
        if owed is not None and not owed.confirmed and _may_fail_by(past, topic, owed):
            return True
        if isinstance(past.step.operation, StartSource) and past.step.operation.source == missing.source:
            after = past.after.applications.sources[missing.source].owed[missing.number]
            if not after.trusted:
                return writes_may_fail(past.before, topic)
    return False


def _may_fail_by(past: Past, topic: str, owed: Owed) -> bool:
    """Whether a step may have made the write of an entry fail, or lost it with its topic."""
    return sets_write_failures(past.step, topic) or (owed.trusted and is_reloaded_by(past, topic))
