"""Producers that contend for a topic or are inactive, in words."""

from __future__ import annotations

from typing import assert_never

from conformance.report.sentences.lists import joined
from model.producer_operations import (
    AwaitProducers,
    ProducerAnswer,
    ProducersPurged,
    ProducersRead,
    PurgeProducers,
    Queued,
)
from model.vocabulary import AccessMode


def action(operation: AwaitProducers | PurgeProducers) -> str:
    """What the suite does, as the rest of a sentence."""
    match operation:
        case AwaitProducers(topic):
            return f"waits until the producers of topic {topic} have the access that they asked for"
        case PurgeProducers(topic, minutes):
            passing = f"lets {minutes} minutes pass at once for deduplication of topic {topic}"
            return f"{passing}, and has the broker purge inactive producers"
        case _:
            assert_never(operation)


def with_access(access: AccessMode, *, has_epoch: bool) -> str:
    """How a producer asks for access, as the end of a sentence; nothing for Shared."""
    mode = "" if access == "Shared" else f", with access mode {access}"
    return f"{mode}, with the topic's epoch that it knows" if has_epoch else mode


def outcome_in_words(outcome: ProducerAnswer) -> str:
    """What became of it."""
    match outcome:
        case Queued():
            return "waits for exclusive access"
        case ProducersPurged(timeout_min):
            return f"producers that were inactive for more than {timeout_min} minutes are purged"
        case ProducersRead(waiting=waiting, open=there, activated=activated):
            given = [f"{one.session} is given exclusive access" for one in activated]
            parts = [f"{joined(there, ' and ')} open" if there else "none is open"]
            parts += [f"{joined(waiting, ' and ')} waiting"] if waiting else []
            return "; ".join([*given, *parts])
        case _:
            assert_never(outcome)
