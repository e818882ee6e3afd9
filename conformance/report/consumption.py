"""Document 003 in words: what consumers and cursors were asked for, and what came of it."""

from __future__ import annotations

from model.cursors.words import CursorOperation, CursorOutcome


def deed(operation: CursorOperation) -> tuple[str, str, str]:
    """The actor's short name, the actor as the subject of a sentence, and the rest of that sentence."""
    actor = getattr(operation, "consumer", "suite")
    return actor, actor, f"does {type(operation).__name__}"


def outcome_in_words(outcome: CursorOutcome) -> str:
    """What came of it."""
    return type(outcome).__name__
