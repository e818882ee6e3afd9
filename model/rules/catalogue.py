"""The rule catalogue: every statement of the five documents, and what a broker owes its clients
whatever the document, as data.

A rule's id never changes. Where a rule is decided is marked in the model with :func:`carries`; a test holds the marks
against this catalogue. The documents are named by their numbers: 000 deduplication, 001 replicated subscriptions,
002 chunking, 003 acknowledgment and cursors, 004 Key_Shared. The rules of the family SERVE have no document; their
key is ``service``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from model.rules import chunking, cursors, deduplication, key_shared, names, replication, service
from model.rules.rule import Decided, Document, Page, Rule

__all__ = [
    "CATALOGUE",
    "DOCUMENTS",
    "FAMILIES",
    "LISTED_BY",
    "PLACES",
    "RULES",
    "Decided",
    "Rule",
    "Selection",
    "carries",
    "heading",
    "select",
    "selection",
]

CATALOGUE: tuple[Rule, ...] = (
    *deduplication.STATEMENTS,
    *replication.STATEMENTS,
    *chunking.STATEMENTS,
    *cursors.STATEMENTS,
    *key_shared.STATEMENTS,
    *service.STATEMENTS,
)

RULES: dict[str, Rule] = {rule.id: rule for rule in CATALOGUE}

FAMILIES: tuple[str, ...] = tuple(dict.fromkeys(rule.family for rule in CATALOGUE))
"""What rules are selected by together, in the order of the catalogue."""

LISTED_BY = "pulsar-conformance rules"
"""The command that lists them."""

_DOCS = "https://pulsar.apache.org/docs"
_PIPS = "https://github.com/apache/pulsar/blob/master/pip"

DOCUMENTS: dict[str, Document] = {
    "000": Document(
        "effectively-once publishing and consuming (deduplication)",
        "Effectively-once in Pulsar, with a reading of MessageDeduplication (an article)",
        (
            Page("PIP-6: Guaranteed Message Deduplication", f"{_PIPS}/pip-6.md"),
            Page("Message deduplication", f"{_DOCS}/cookbooks-deduplication/"),
        ),
    ),
    "001": Document(
        "replicated subscriptions",
        "How Pulsar synchronizes subscription progress (an article, in Chinese)",
        (
            Page("PIP-33: Replicated subscriptions", f"{_PIPS}/pip-33.md"),
            Page("Geo-replication", f"{_DOCS}/administration-geo/"),
        ),
    ),
    "002": Document(
        "chunking (PIP-37)",
        "PIP 37: Large message size handling in Pulsar",
        (
            Page("PIP-37: Large message size handling in Pulsar", f"{_PIPS}/pip-37.md"),
            Page("Chunking", f"{_DOCS}/concepts-messaging/#chunking"),
        ),
    ),
    "003": Document(
        "individual acknowledgment and cursors",
        "The Beauty of Apache Pulsar: Individual Message Acknowledgment (an article)",
        (
            Page("Acknowledgment", f"{_DOCS}/concepts-messaging/#acknowledgment"),
            Page("Architecture overview", f"{_DOCS}/concepts-architecture-overview/"),
        ),
    ),
    "004": Document(
        "Key_Shared and draining hashes (PIP-379)",
        "PIP-379: Key_Shared Draining Hashes for Improved Message Ordering",
        (
            Page("PIP-379: Key_Shared Draining Hashes for Improved Message Ordering", f"{_PIPS}/pip-379.md"),
            Page("Key_Shared", f"{_DOCS}/concepts-messaging/#key_shared"),
        ),
    ),
    "service": Document(
        "what a broker owes its clients",
        "Pulsar's public protocol and admin API",
        (
            Page("Binary protocol", f"{_DOCS}/developing-binary-protocol/"),
            Page("Admin API", f"{_DOCS}/admin-api-overview/"),
            Page("Subscriptions", f"{_DOCS}/concepts-messaging/#subscriptions"),
        ),
    ),
}


def heading(key: str) -> str:
    """The heading of a document's rules: its number, if any, and its subject."""
    name = DOCUMENTS[key].name
    return f"Document {key}: {name}" if key.isdigit() else f"{name[0].upper()}{name[1:]}"


PLACES: dict[str, list[str]] = {}
"""Where each rule is decided: rule id to the qualified names of the functions that carry it."""

F = TypeVar("F", bound=Callable[..., object])


def carries(*rule_ids: str) -> Callable[[F], F]:
    """Mark a function of the model as the place where these rules are decided. The mark changes nothing in it."""
    for rule_id in rule_ids:
        if rule_id not in RULES:
            raise ValueError(f"{rule_id} is not in the catalogue")

    def mark(function: F) -> F:
        for rule_id in rule_ids:
            PLACES.setdefault(rule_id, []).append(f"{function.__module__}.{function.__qualname__}")
        return function

    return mark


@dataclass(frozen=True, slots=True)
class Selection:
    """Rules that were asked for, in catalogue order, and the ids of those that were asked for by id."""

    rules: tuple[Rule, ...]
    named: frozenset[str]


def select(text: str) -> tuple[Rule, ...]:
    """The rules of a :func:`selection`."""
    return selection(text).rules


def selection(text: str) -> Selection:
    """The rules that ``text`` names: ids and families separated by commas (``DEDUP,KEY-01``).

    Raises ValueError, with one sentence, for a name that is neither.
    """
    wanted = names.listed(text, kind="rule or family of rules", names=(*FAMILIES, *RULES), listed_by=LISTED_BY)
    rules = tuple(rule for rule in CATALOGUE if rule.id in wanted or rule.family in wanted)
    return Selection(rules=rules, named=frozenset(wanted) & frozenset(RULES))
