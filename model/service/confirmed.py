"""SERVE-06, -07, -12 and -14: confirmed entries stay in the log, whatever happens to brokers, bookies and sends.

A topic has one owner. If the owner is killed, shuts down, unloads the topic or is frozen beyond its session timeout,
another broker takes over. It closes the former owner's ledger and writes to a new one. So a confirmed position contains
its entry for good, and no entry is stored more often than a client sent it. A former owner cannot store entries any
more. It may confirm late what was stored in time. Entries that were sent to it only after the takeover must not be
confirmed, and no consumer may ever read them.

A ledger has several bookies, and each entry is on enough of them that one may be lost. While enough bookies are left
for a ledger's ensemble, the topic keeps storing: writes that fail on the lost bookie go to another one.

A topic may be terminated, trimmed, unloaded or killed while sends are unanswered. Their writes complete or fail. A
terminated topic has an end, after which nothing is stored, confirmed or not, and no producer is admitted any more.

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
    known. ``uncounted``: entries that pulsar-client sent, which resends by itself. ``strays``: entries that were sent
    only to a broker that had lost the topic. ``takeovers``: how often another broker took over. ``losses``: how often a
    bookie was lost. ``power_failures``: how often one lost what it had not synced. ``interruptions``: how often an
    operation was performed while sends were unanswered. ``end``: the last position of a terminated topic.
    """

    stored: Map[Position, Sending] = Map()
    sends: Map[Sending, int] = Map()
    uncounted: frozenset[Sending] = frozenset()
    strays: frozenset[Sending] = frozenset()
    takeovers: int = 0
    losses: int = 0
    power_failures: int = 0
    interruptions: int = 0
    end: Position | None = None

    @property
    def is_cut_off(self) -> bool:
        """Whether the topic was terminated while sends were unanswered."""
        return self.end is not None and self.interruptions > 0

    @property
    def losses_of_bookies(self) -> dict[str, str]:
        """The rules that require that confirmed entries can be read from the bookies, and after what."""
        return {
            **({"SERVE-14": "a power failure"} if self.power_failures else {}),
            **({"SERVE-07": "the loss of a bookie"} if self.losses else {}),
        }

    @property
    def reasons(self) -> dict[str, str]:
        """The rules that require all confirmed entries, and after what."""
        return {
            **({"SERVE-06": "a takeover"} if self.takeovers else {}),
            **self.losses_of_bookies,
            **({"SERVE-12": "an operation during sends"} if self.interruptions else {}),
        }


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


def sent_by_client(log: ConfirmedLog, producer: str, entries: Iterable[Entry]) -> ConfirmedLog:
    """pulsar-client sent entries, each as often as it needed."""
    return replace(log, uncounted=log.uncounted.union(sending(producer, entry) for entry in entries))


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


def power_failed(log: ConfirmedLog) -> ConfirmedLog:
    """A bookie that may have ledgers of the topic lost what it had not synced."""
    return replace(log, power_failures=log.power_failures + 1)


def interrupted(log: ConfirmedLog) -> ConfirmedLog:
    """An operation on the topic was performed while sends were unanswered."""
    return replace(log, interruptions=log.interruptions + 1)


@dataclass(frozen=True, slots=True)
class AfterTheEnd:
    """Entries of a topic that are after its end."""

    topic: str
    positions: tuple[Position, ...]


@carries("SERVE-12")
def terminated(log: ConfirmedLog, topic: str, end: Position) -> Allowed[ConfirmedLog] | Broken:
    """A topic was terminated: what was confirmed is not after its end."""
    after = replace(log, end=end)
    beyond = tuple(position for position in sorted(log.stored) if position > end)
    if not beyond:
        return Allowed(after, ("SERVE-12",) if log.interruptions else ())
    because = f"{_name(log.stored[beyond[0]])} is confirmed at {beyond[0]}, after the end of topic {topic}, {end}"
    return Broken("SERVE-12", because, evidence=AfterTheEnd(topic, beyond)).passing_to(after)


@carries("SERVE-12")
def opened(log: ConfirmedLog, topic: str, what: str, *, is_admitted: bool) -> Allowed[None] | Broken:
    """A terminated topic admits no producer."""
    if log.end is None:
        return Allowed(None)
    if not is_admitted:
        return Allowed(None, ("SERVE-12",))
    because = f"{what} is admitted to topic {topic}, which was terminated at {log.end}"
    return Broken("SERVE-12", because, evidence=AfterTheEnd(topic, ())).passing_to(None)


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


@carries("SERVE-12")
def ends(log: ConfirmedLog, topic: str, entries: Sequence[LoggedEntry]) -> Allowed[None] | Broken:
    """Nothing is stored after the end of a terminated topic."""
    if log.end is None:
        return Allowed(None)
    beyond = tuple(one.position for one in entries if one.position > log.end)
    if not beyond:
        return Allowed(None, ("SERVE-12",))
    because = f"topic {topic} was terminated at {log.end}, and has an entry at {beyond[0]}"
    return Broken("SERVE-12", because, evidence=AfterTheEnd(topic, beyond)).passing_to(None)


@carries("SERVE-06", "SERVE-07", "SERVE-12", "SERVE-14")
def read_back(log: ConfirmedLog, topic: str, entries: Sequence[LoggedEntry]) -> Allowed[None] | Broken:
    """The log has every confirmed entry at its position, once."""
    if not log.reasons:
        return Allowed(None)
    rule, after = next(iter(log.reasons.items()))
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
        if one not in log.uncounted and times > log.sends.get(one, times):
            return Broken(
                rule, f"{_name(one)} was sent {log.sends[one]} times and is stored {times} times in topic {topic}"
            )
    return Allowed(None, tuple(log.reasons) if log.stored else ())


def _is_answer_to(one: Sending, other: Sending) -> bool:
    """Whether the answer of one entry may belong to another: answers contain the first id only."""
    (producer, contents), (of_other, contents_of_other) = one, other
    return producer == of_other and contents[0][0] == contents_of_other[0][0]


def _name(one: Sending) -> str:
    producer, contents = one
    ids = " and ".join(f"{sequence_id} ({business_id})" for sequence_id, business_id in contents)
    return f"{ids} of {producer}"
