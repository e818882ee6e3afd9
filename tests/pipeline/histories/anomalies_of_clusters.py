"""Planted anomalies of several clusters, in a sound history (``two_clusters``); three or more for each invariant."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from conformance.history.recorded import Kind
from tests.pipeline.histories.anomalies import History, Plant, after_the_log, changed, pick, without


def _copies(history: History, number: int) -> History:
    """One cluster's copies of the other one's messages, in order."""
    at = "BA"[number % 2]
    rows = [one for one in history if one.kind is Kind.LOG and one.cluster == at and one.replicated_from]
    return sorted(rows, key=lambda one: one.entry or 0)


def _copy_without(history: History, number: int) -> History:
    return without(history, pick(_copies(history, number), number))


def _copies_without(history: History, number: int) -> History:
    return without(history, *_copies(history, number)[number % 10 :][:5])


def _copy_changed(**fields: Any) -> Plant:
    return lambda history, number: changed(history, pick(_copies(history, number), number), **fields)


def _copy_again(history: History, number: int) -> History:
    return [*history, replace(pick(_copies(history, number), number), **after_the_log(history))]


def _copy_again_at_once(history: History, number: int) -> History:
    """At the place of a marker."""
    copies = _copies(history, number)
    there = {one.entry for one in history if one.kind is Kind.LOG and one.ledger == copies[0].ledger}
    free = [entry for entry in range(1, max(one.entry or 0 for one in copies)) if entry not in there]
    before = [one for one in copies if (one.entry or 0) < free[-1]]
    return [*history, replace(before[-1], entry=free[-1])]


def _copies_again(history: History, number: int) -> History:
    ledger = after_the_log(history)["ledger"]
    tail = _copies(history, number)[-4:]
    return [*history, *(replace(one, ledger=ledger, entry=entry) for entry, one in enumerate(tail))]


def _copies_swapped(apart: int) -> Plant:
    def plant(history: History, number: int) -> History:
        copies = _copies(history, number)
        first = number % (len(copies) - apart)
        one, other = copies[first], copies[first + apart]
        return changed(changed(history, one, entry=other.entry), other, entry=one.entry)

    return plant


def _copy_late(history: History, number: int) -> History:
    return changed(history, pick(_copies(history, number)[:-1], number), **after_the_log(history))


def _original_changed(history: History, number: int) -> History:
    copy = pick(_copies(history, number), number)
    (original,) = (one for one in history if one.kind is Kind.LOG and one.digest == copy.digest and one is not copy)
    return changed(history, original, digest=1)


def _originals(history: History, number: int, count: int) -> History:
    """Messages of one cluster that were replicated, without the last ones."""
    copies = _copies(history, number)[:-2]
    digests = {one.digest for one in copies[number % (len(copies) - count) :][:count]}
    return [one for one in history if one.kind is Kind.LOG and one.digest in digests and not one.replicated_from]


def _originals_without(count: int) -> Plant:
    return lambda history, number: without(history, *_originals(history, number, count))


def _original_of_another_producer(history: History, number: int) -> History:
    return changed(history, *_originals(history, number, 1), producer="another")


def _copy_of_its_own_cluster(history: History, number: int) -> History:
    copy = pick(_copies(history, number), number)
    return changed(history, copy, replicated_from=copy.cluster)


def _original_from_elsewhere(history: History, number: int) -> History:
    return changed(history, *_originals(history, number, 1), replicated_from="elsewhere")


def _what_consumers_did(history: History, number: int, *kinds: Kind) -> History:
    """The events of consumers, of these kinds, for some message, at both clusters."""
    log = pick(_copies(history, number), number)
    places = {
        (one.cluster, one.ledger, one.entry) for one in history if one.kind is Kind.LOG and one.digest == log.digest
    }
    return [one for one in history if one.kind in kinds and (one.cluster, one.ledger, one.entry) in places]


def _never_acknowledged(history: History, number: int) -> History:
    return without(history, *_what_consumers_did(history, number, Kind.ACK))


def _acknowledged_late(history: History, number: int) -> History:
    later_ns = max(one.completed_ns for one in history) + 1
    late = _what_consumers_did(history, number, Kind.ACK)
    return [*without(history, *late), *(replace(one, invoked_ns=later_ns, completed_ns=later_ns) for one in late)]


def _ahead_at_b(history: History, number: int) -> History:
    """An update says that B has everything acknowledged that it has by then."""
    readings = [one for one in history if one.kind is Kind.CURSOR and one.cluster == "B"]
    last = max(readings, key=lambda one: one.entry or 0)
    early = min(readings, key=lambda one: one.completed_ns)
    return changed(history, early, entry=last.entry)


def _never_given(history: History, number: int) -> History:
    return without(history, *_what_consumers_did(history, number, Kind.ACK, Kind.DISPATCH))


def _several_never_given(history: History, number: int) -> History:
    for more in range(0, 6, 2):
        history = _never_given(history, number + more)
    return history


def _another_given_instead(history: History, number: int) -> History:
    """The delivery has another position, after everything else."""
    moved = _what_consumers_did(history, number, Kind.ACK, Kind.DISPATCH)
    return [*without(history, *moved), *(replace(one, **after_the_log(history)) for one in moved)]


def _followers(history: History) -> History:
    """The readings at B while consumers are at A."""
    readings = [one for one in history if one.kind is Kind.CURSOR and one.cluster == "B"]
    came_ns = min(one.completed_ns for one in history if one.kind is Kind.SUBSCRIBE and one.cluster == "B")
    return sorted((one for one in readings if one.completed_ns < came_ns), key=lambda one: one.completed_ns)


def _follows_no_more(since: int) -> Plant:
    """From one of its readings on, mark-delete in B does not advance."""

    def plant(history: History, _: int) -> History:
        followers = _followers(history)
        for one in followers[since + 1 :]:
            history = changed(history, one, entry=followers[since].entry)
        return history

    return plant


def _never_follows(history: History, _: int) -> History:
    for one in _followers(history):
        history = changed(history, one, ledger=-1, entry=-1)
    return history


PLANTS_OF_CLUSTERS: dict[str, tuple[Plant, ...]] = {
    "not replicated": (_copy_without, _copies_without, _copy_changed(replicated_from=None)),
    "from no cluster": (
        _copy_changed(replicated_from="elsewhere"),
        _copy_of_its_own_cluster,
        _original_from_elsewhere,
    ),
    "without original": (_originals_without(1), _originals_without(3), _original_of_another_producer),
    "replicated twice": (_copy_again, _copies_again, _copy_again_at_once),
    "replicated out of order": (_copies_swapped(1), _copies_swapped(6), _copy_late),
    "replicated otherwise": (_copy_changed(digest=1), _copy_changed(key="another"), _original_changed),
    "left behind": (_never_follows, _follows_no_more(0), _follows_no_more(1)),
    "ahead": (_never_acknowledged, _acknowledged_late, _ahead_at_b),
    "missed everywhere": (_never_given, _several_never_given, _another_given_instead),
}
"""By the invariant that each breaks; others may break with it."""
