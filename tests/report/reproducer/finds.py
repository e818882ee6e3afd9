"""The known deviations that a program of a released client reproduces."""

from __future__ import annotations

from typing import Final

from conformance.history import document
from conformance.known import HISTORIES
from conformance.report.issue import find_of
from conformance.report.reproducer.program import Program, programs
from model.deviations import DEVIATIONS

IN_PYTHON_ALONE: Final = (
    "batch-without-highest-id",
    "consecutive-batch-assumed",
    "last-sequence-id-falls",
    "overlapping-batch-dropped",
    "unsubscribe-while-disconnected-fails",
)
"""Those of pulsar-client itself, or with batches that the Java client does not send as one."""

IN_BOTH: Final = (
    "all-ranges-counted",
    "backlog-analysis-moves-read-position",
    "batch-index-acks-not-recovered",
    "beginning-in-deleted-ledger-miscounted",
    "deleted-ledger-in-backlog",
    "examine-before-first-entry-fails",
    "expiry-of-all-moves-readers",
    "expiry-stops-at-acknowledged",
    "last-message-id-of-empty-ledger",
    "later-ranges-not-counted",
    "partial-acks-not-counted-off",
    "peek-creates-subscription",
    "read-of-absent-entry-fails",
    "read-of-absent-entry-not-answered",
    "reset-miscounts-backlog",
    "skip-after-all-trimmed-fails",
    "skip-of-empty-topic-fails",
    "skip-past-terminated-end-loops",
    "skip-past-terminated-end-starts-over",
    "skipped-messages-still-counted",
    "skipped-parts-counted-off-again",
    "terminated-empty-topic-refuses-subscriptions",
    "terminated-last-ledger-not-skipped",
    "terminated-topic-without-current-ledger",
    "topic-policies-load-late",
    "topic-policies-not-read",
    "topic-policy-awaits-reload",
    "ttl-expires-messages-of-readers",
    "unacked-count-lowered-by-any-ack",
    "unlimited-subscription-not-counted",
    "unused-subscription-hides-topic-policy",
)

OF_40: Final = (
    "batch-index-acks-not-recovered",
    "batch-without-highest-id",
    "beginning-in-deleted-ledger-miscounted",
    "consecutive-batch-assumed",
    "examine-before-first-entry-fails",
    "expiry-of-all-moves-readers",
    "expiry-stops-at-acknowledged",
    "last-message-id-of-empty-ledger",
    "last-sequence-id-falls",
    "overlapping-batch-dropped",
    "peek-creates-subscription",
    "read-of-absent-entry-fails",
    "reset-miscounts-backlog",
    "skip-after-all-trimmed-fails",
    "skip-past-terminated-end-starts-over",
    "skipped-messages-still-counted",
    "skipped-parts-counted-off-again",
    "terminated-empty-topic-refuses-subscriptions",
    "terminated-last-ledger-not-skipped",
    "ttl-expires-messages-of-readers",
    "unsubscribe-while-disconnected-fails",
)
"""Those of Pulsar 4.0.8 with the client of the tests; on that release, all others are gone."""


def programs_of(name: str) -> dict[str, Program]:
    """By language, the programs that reproduce a known deviation."""
    history = document.read(HISTORIES / f"{name}.json")
    return {one.language: one for one in programs(find_of(DEVIATIONS[name], history, name))}
