"""The last sequence id that a producer reports, from which an application resumes (DEDUP-19).

It is the highest of the id in ProducerSuccess and the ids confirmed since, so it agrees with the broker's. It may be
higher only if the broker stored more of the producer: entries whose answers were lost, or of another session.

A message in chunks is confirmed with its last chunk. The wire client takes its id from the receipt of any chunk, so
what it reports after another one is excused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from model.deduplication.producer_state import NONE
from model.deduplication.topic_observer import TopicView
from model.events import Answer, Duplicate, Sent, Stored
from model.judgement import Allowed, Broken
from model.rules.catalogue import carries
from model.sessions import Session
from model.vocabulary import Entry


@dataclass(frozen=True, slots=True)
class WrongLastId:
    """The last sequence id that a producer reported after its ``last`` confirmed entry, which it takes to end with the
    id ``counted``."""

    session: Session
    reported: int
    last: Entry
    counted: int


def confirmed(
    session: Session, entries: Sequence[Entry], answers: Sequence[Answer], *, is_alone: bool = True
) -> Session:
    """The session after these answers: its highest id follows the confirmations.

    A send receipt contains the first id of its entry. So the highest id is unknown if several entries with one first id
    were in flight. Without ``is_alone``, another send may have had such an entry.
    """
    if session.highest is None or not is_alone or len({entry.lowest for entry in entries}) < len(set(entries)):
        return replace(session, highest=None)
    return replace(session, highest=max([session.highest, *(entry.highest for entry in _confirmed(entries, answers))]))


@carries("DEDUP-19")
def reported(session: Session, entries: Sequence[Entry], outcome: Sent, view: TopicView) -> Allowed[Session] | Broken:
    """The producer reports a last sequence id. The session already includes these answers.

    While deduplication is disabled, the broker knows no ids. The last sent id is then as good an answer as the highest.
    """
    done, last_sequence_id = _confirmed(entries, outcome.answers), outcome.last_sequence_id
    if last_sequence_id is None:
        return Allowed(session)
    if not done:
        return Allowed(session, excused=("DEDUP-19",) if any(entry.is_part for entry in entries) else ())
    stored = (logged for state in view.state(session.producer) for logged in state.entries)
    of_broker = {id_ for logged in stored for id_ in (logged.highest, logged.entry.highest)}
    if session.highest is None:
        return Allowed(replace(session, highest=last_sequence_id) if last_sequence_id in of_broker else session)
    highest, last = session.highest, done[-1]
    if last_sequence_id == highest or (not view.enabled and last_sequence_id == last.highest):
        return Allowed(session, ("DEDUP-19",))
    if last_sequence_id > highest and last_sequence_id in of_broker:
        return Allowed(session)
    ids = "the broker has no id of it" if highest == NONE else f"{highest} is the highest id confirmed"
    because = f"the producer's last sequence id is {last_sequence_id} after {last}, but {ids}"
    wrong = WrongLastId(session, last_sequence_id, last, last.highest)
    return Broken("DEDUP-19", because, evidence=wrong).passing_to(session)


def _confirmed(entries: Sequence[Entry], answers: Sequence[Answer]) -> list[Entry]:
    answered = zip(entries, answers, strict=True)
    return [one for one, answer in answered if isinstance(answer, Stored | Duplicate) and not one.is_part]
