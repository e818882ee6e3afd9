"""SERVE-06 and SERVE-07: confirmed entries stay in the log, through takeovers and lost bookies.

A topic has one owner. If the owner is killed, shuts down, unloads the topic or is frozen beyond its session timeout,
another broker takes over. It closes the former owner's ledger and writes to a new one. So a confirmed position contains
its entry for good, and no entry is stored more often than a client sent it. A former owner cannot store entries any
more. It may confirm late what was stored in time. Entries that were sent to it only after the takeover must not be
confirmed, and no consumer may ever read them.

A ledger has several bookies, and each entry is on enough of them that one may be lost. While enough bookies are left
for a ledger's ensemble, the topic keeps storing: writes that fail on the lost bookie go to another one.

Deduplication (DEDUP) and cursors (ACK) have their own rules. This module judges only which entries are stored, and
where. It does not follow pulsar-client, which resends entries by itself, nor applications and chunked topics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from model.events import Answer, Duplicate, LoggedEntry, Stored, Unknown
from model.immutable.map import Map
from model.judgement import Allowed, Broken, overdue
from model.log import Position
from model.rules.catalogue import carries
from model.vocabulary import Entry

Contents = tuple[tuple[int, str], ...]
"""The messages of an entry: sequence id and business id."""

Sending = tuple[str, Contents]
"""An entry of a producer."""


@dataclass(frozen=True, slots=True)
class ConfirmedLog:
    """What the answers alone say of one topic's log.

    ``stored``: the confirmed entries, by position. ``sends``: how often each entry was sent, if all its sends are
    known. ``strays``: entries that were sent only to a broker that had lost the topic. ``takeovers``: how often another
    broker took over. ``losses``: how often a bookie was lost.
    """

    stored: Map[Position, Sending] = Map()
    sends: Map[Sending, int] = Map()
    strays: frozenset[Sending] = frozenset()
    takeovers: int = 0
    losses: int = 0

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules that require all confirmed entries."""
        return (*(["SERVE-06"] if self.takeovers else []), *(["SERVE-07"] if self.losses else []))


EMPTY: Final = ConfirmedLog()


def sending(producer: str, entry: Entry) -> Sending:
    """The identity of an entry."""
    return producer, tuple((message.sequence_id, message.business_id) for message in entry.messages)


def sent(log: ConfirmedLog, producer: str, entries: Iterable[Entry]) -> ConfirmedLog:
    """The wire client sent entries, each once."""
    sends = log.sends
    for entry in entries:
        one = sending(producer, entry)
        sends = sends.set(one, sends.get(one, 0) + 1)
    return replace(log, sends=sends)


def answered(log: ConfirmedLog, producer: str, entries: Iterable[Entry], answers: Iterable[Answer]) -> ConfirmedLog:
    stored = log.stored
    for entry, answer in zip(entries, answers, strict=False):
        if isinstance(answer, Stored):
            stored = stored.set(answer.position, sending(producer, entry))
    return log if stored is log.stored else replace(log, stored=stored)


def taken_over(log: ConfirmedLog) -> ConfirmedLog:
    return replace(log, takeovers=log.takeovers + 1)


def bookie_lost(log: ConfirmedLog) -> ConfirmedLog:
    """A bookie was lost that may have ledgers of the topic."""
    return replace(log, losses=log.losses + 1)


@carries("SERVE-07")
def goes_on(topic: str, entries: Sequence[Entry], answers: Sequence[Answer]) -> Allowed[None] | Broken:
    """A topic with enough bookies left stores every entry."""
    for entry, answer in zip(entries, answers, strict=False):
        if not isinstance(answer, Stored | Duplicate):
            broken = Broken(
                "SERVE-07", f"{entry} is not stored in topic {topic}, which has enough bookies left: {answer}"
            )
            return overdue(broken) if isinstance(answer, Unknown) else broken
    return Allowed(None, ("SERVE-07",))


def sent_to_frozen(log: ConfirmedLog, producer: str, entries: Iterable[Entry]) -> ConfirmedLog:
    fresh = {sending(producer, entry) for entry in entries} - set(log.sends)
    return replace(log, strays=log.strays | fresh)


@carries("SERVE-06")
def thawed(log: ConfirmedLog, producer: str, entry: Entry, answer: Answer) -> Allowed[ConfirmedLog] | Broken:
    """A former owner answered. It may confirm what it stored in time, and nothing that was sent to it later."""
    if isinstance(answer, Stored | Duplicate) and sending(producer, entry) in log.strays:
        how = f"at {answer.position}" if isinstance(answer, Stored) else "as a duplicate"
        return Broken(
            "SERVE-06",
            f"the former owner confirms {entry} of {producer} {how}, which was sent to it after another broker had "
            "taken over",
        )
    return Allowed(answered(log, producer, [entry], [answer]), ("SERVE-06",))


@carries("SERVE-06", "SERVE-07")
def read_back(log: ConfirmedLog, topic: str, entries: Sequence[LoggedEntry]) -> Allowed[None] | Broken:
    """The log has every confirmed entry at its position, once."""
    if not log.rules:
        return Allowed(None)
    rule, after = (log.rules[0], "a takeover" if log.takeovers else "the loss of a bookie")
    found = {one.position: sending(one.producer, one.entry) for one in entries}
    for position, one in sorted(log.stored.items()):
        if position not in found:
            return Broken(rule, f"{_name(one)}, confirmed at {position} of topic {topic}, is lost after {after}")
        if not _is_answer_to(one, found[position]):
            other = _name(found[position])
            return Broken(
                rule,
                f"at {position} of topic {topic}, where {_name(one)} was confirmed, is {other} after {after}",
            )
    for one, times in Counter(found.values()).items():
        if one in log.strays:
            return Broken("SERVE-06", f"a former owner stored {_name(one)} in topic {topic}, which it had lost")
        if times > log.sends.get(one, times):
            return Broken(
                rule, f"{_name(one)} was sent {log.sends[one]} times and is stored {times} times in topic {topic}"
            )
    return Allowed(None, log.rules if log.stored else ())


def _is_answer_to(one: Sending, other: Sending) -> bool:
    """Whether the answer of one entry may belong to another: answers contain the first id only."""
    (producer, contents), (of_other, contents_of_other) = one, other
    return producer == of_other and contents[0][0] == contents_of_other[0][0]


def _name(one: Sending) -> str:
    producer, contents = one
    ids = " and ".join(f"{sequence_id} ({business_id})" for sequence_id, business_id in contents)
    return f"{ids} of {producer}"
