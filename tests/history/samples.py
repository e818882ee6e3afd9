"""Events for tests of histories."""

from __future__ import annotations

from typing import Any

import msgspec

from conformance.history.recorded import Kind, Recorded


def event(kind: Kind = Kind.SEND, **fields: Any) -> Recorded:
    """An event with a few fields, and those given here."""
    defaults: dict[str, Any] = {"run": "r", "lane": "w", "topic": "t", "invoked_ns": 1, "completed_ns": 2}
    return Recorded(kind=kind, **(defaults | fields))


def event_as_row(kind: Kind = Kind.SEND, **fields: Any) -> dict[str, Any]:
    """The same as a row."""
    return msgspec.structs.asdict(event(kind, **fields))
