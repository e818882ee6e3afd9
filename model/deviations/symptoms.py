"""What a user sees of a deviation: its symptom, which follows from the rule that it breaks, or else from its name.

The gravest symptom is first. A deviation that has several counts as the gravest one that a user meets.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from model.deviation import Deviation

Severity = Literal["grave", "moderate", "slight"]


class Symptom(Struct, frozen=True, kw_only=True):
    """A symptom: its name, how grave it is, and a sentence that says what a user sees."""

    name: str
    severity: Severity
    statement: str


SYMPTOMS = (
    Symptom(
        name="lost",
        severity="grave",
        statement="A message is lost: it was confirmed and is not stored, or no consumer ever receives it.",
    ),
    Symptom(
        name="starved",
        severity="grave",
        statement="A consumer or a remote cluster does not get messages that are due, until something else happens.",
    ),
    Symptom(name="twice", severity="grave", statement="A message is stored or delivered twice."),
    Symptom(
        name="out-of-order",
        severity="grave",
        statement="Messages of a key are delivered out of order, or to two consumers at a time.",
    ),
    Symptom(name="ack-lost", severity="moderate", statement="An ack is lost, so the message is delivered again."),
    Symptom(
        name="no-answer", severity="moderate", statement="A request is never answered, or a broker serves no longer."
    ),
    Symptom(name="internal-error", severity="moderate", statement="A request is answered with an internal error."),
    Symptom(name="refused", severity="moderate", statement="A legal request is refused."),
    Symptom(
        name="not-done",
        severity="moderate",
        statement="A request is answered with success and not done, or only in part.",
    ),
    Symptom(name="not-enforced", severity="moderate", statement="A setting, a policy or a limit has no effect."),
    Symptom(name="lagging", severity="slight", statement="A replicated subscription lags in another cluster."),
    Symptom(name="wrong-count", severity="slight", statement="The stats, or a client, show a wrong number."),
    Symptom(name="overhead", severity="slight", statement="The broker does work, or keeps data, that nobody needs."),
    Symptom(name="internal", severity="slight", statement="Only what the broker persists for itself is wrong."),
)
"""All symptoms, the gravest first."""

BY_NAME = {symptom.name: symptom for symptom in SYMPTOMS}

_RULES = {
    "lost": "DEDUP-02 DEDUP-09 DEDUP-13 REPL-01 REPL-07 REPL-09 REPL-14 REPL-21 CHUNK-04 CHUNK-13 ACK-16 ACK-20",
    "starved": "CHUNK-08 CHUNK-09 CHUNK-14 CHUNK-15 KEY-13 KEY-16 SERVE-03 SERVE-08",
    "twice": "DEDUP-03 DEDUP-12 DEDUP-20 CHUNK-05 ACK-12",
    "out-of-order": "KEY-01 KEY-02 KEY-06 KEY-09",
    "ack-lost": "CHUNK-07 ACK-08 ACK-10 ACK-11 ACK-15 ACK-21 SERVE-06",
    "no-answer": "SERVE-02 SERVE-09",
    "internal-error": "SERVE-01",
    "refused": "CHUNK-01",
    "not-done": "ACK-04 SERVE-11 SERVE-12",
    "not-enforced": "DEDUP-01 ACK-13 ACK-17 KEY-15 KEY-17 SERVE-05 SERVE-13",
    "lagging": "REPL-12 REPL-13 REPL-17 REPL-19",
    "wrong-count": "DEDUP-19 ACK-01 KEY-11 SERVE-04",
    "overhead": "REPL-02 REPL-03 REPL-18",
    "internal": "DEDUP-10 DEDUP-11a REPL-11",
}
"""The rules whose deviations have each symptom."""

_EXCEPTIONS = {
    "lost": (
        "all-ranges-counted",
        "chunks-dispatched-one-by-one",
        "created-cursor-persisted-at-latest",
        "hash-reassigned-between-chunks",
        "partial-acks-persisted-as-first",
        "update-of-unreplicated-subscription",
    ),
    "starved": (
        "chunk-nack-returns-last-only",
        "close-overtakes-producer-success",
        "draining-refcount-doubled",
        "dropped-pending-acks-still-counted",
        "namespace-not-found-ends-replication",
        "orphan-replicator-keeps-name",
        "partial-ack-leaves-consumer-blocked",
        "pending-acks-without-hash",
        "replicator-stuck-on-too-large-message",
        "skipped-messages-still-counted",
    ),
    "twice": ("chunk-only-last-deduplicated", "recovery-ignores-replicator-positions"),
    "ack-lost": ("batch-index-acks-overwritten",),
    "no-answer": (
        "read-of-absent-entry-not-answered",
        "reconnect-never-answered",
        "second-deletion-not-answered",
        "sends-of-terminated-ledger-never-fail",
        "skip-past-terminated-end-loops",
    ),
    "internal-error": ("request-beside-deletion-fails", "skip-beside-reset-fails"),
    "refused": (
        "new-topic-unknown-to-other-broker",
        "terminated-empty-topic-refuses-subscriptions",
        "topic-policies-load-late",
    ),
    "not-done": ("expiry-stops-at-acknowledged", "skip-rate-limited"),
    "not-enforced": ("unacked-count-lowered-by-any-ack",),
    "wrong-count": ("claim-of-one-hash-paired",),
    "overhead": ("peek-creates-subscription", "replicator-resends-after-drop", "replicator-resends-in-a-loop"),
    "internal": ("range-limit-ignored-on-unload",),
}
"""The deviations whose symptom is not that of their rule."""

OF_RULES = {rule: name for name, rules in _RULES.items() for rule in rules.split()}
EXCEPTIONS = {deviation: name for name, deviations in _EXCEPTIONS.items() for deviation in deviations}


def symptom_of(deviation: Deviation) -> Symptom:
    """What a user sees of a deviation."""
    return BY_NAME[EXCEPTIONS.get(deviation.name) or OF_RULES[deviation.rule]]
