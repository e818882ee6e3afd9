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

IN_JAVA_ALONE: Final = (
    "chunk-recovery-counts-unfinished",
    "chunk-without-permits-blocks-others",
    "delayed-waits-for-replay-queue",
    "dropped-pending-acks-still-counted",
    "key-shared-policies-mixed",
    "last-message-id-answered-twice",
    "leave-triggers-no-read",
    "new-message-overtakes-replay",
    "own-claims-overlap",
    "partial-ack-leaves-consumer-blocked",
    "pending-acks-without-hash",
    "recently-joined-cleared-without-read",
    "recently-joined-outlives-skip",
    "replay-filtered-after-limit",
    "replay-hash-kept-after-ack",
    "replay-head-of-line-blocking",
    "reset-keeps-former-ranges",
    "send-in-progress-cleared-early",
    "skip-rate-limited",
    "unclaimed-hash-read-again",
    "unclaimed-message-dropped",
)
"""Those whose consumers give the broker permits one by one, whose chunks are sent alone, or that kill the broker."""

STARTING_ITS_BROKER: Final = (
    "chunk-recovery-counts-unfinished",
    "chunk-without-permits-blocks-others",
    "dropped-pending-acks-still-counted",
    "last-message-id-answered-twice",
    "partial-ack-leaves-consumer-blocked",
    "pending-acks-without-hash",
    "replay-hash-kept-after-ack",
    "reset-keeps-former-ranges",
)
"""Those of them that were run on a 4.0.8 of their own, which cannot perform histories with the former Key_Shared."""

OF_40: Final = (
    "batch-index-acks-not-recovered",
    "batch-without-highest-id",
    "beginning-in-deleted-ledger-miscounted",
    "chunk-recovery-counts-unfinished",
    "chunk-without-permits-blocks-others",
    "consecutive-batch-assumed",
    "dropped-pending-acks-still-counted",
    "examine-before-first-entry-fails",
    "expiry-of-all-moves-readers",
    "expiry-stops-at-acknowledged",
    "last-message-id-of-empty-ledger",
    "last-sequence-id-falls",
    "overlapping-batch-dropped",
    "partial-ack-leaves-consumer-blocked",
    "peek-creates-subscription",
    "pending-acks-without-hash",
    "read-of-absent-entry-fails",
    "replay-hash-kept-after-ack",
    "reset-keeps-former-ranges",
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
