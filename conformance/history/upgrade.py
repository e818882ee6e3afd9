"""Upgrades histories in older formats: renames operations, outcomes, fields and deviations.

It works on plain JSON values before they are typed, so that no type has an old name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from conformance.history import upgrade_chunking, upgrade_replication
from model.deviations import current_name

_TAGS_1: Final = {
    "Take": "Receive",
    "Taken": "ReceivedMessages",
    "TakeAll": "ReceiveAll",
    "TakenAll": "AllReceived",
    "AcknowledgeOthers": "AckById",
    "Redeliver": "Nack",
    "Redelivering": "RedeliveryRequested",
    "CutOff": "CutDuring",
    "SwitchDeduplication": "SetDeduplication",
    "Switched": "DeduplicationSet",
    "Unheeded": "PolicyIgnored",
    "ReadStored": "ReadStoredCursor",
    "StoredRead": "StoredCursorRead",
    "FailOften": "NackRepeatedly",
    "CameBack": "RedeliveryTimes",
    "Disturb": "InjectNetworkFault",
    "Mend": "ClearNetworkFaults",
    "Mended": "NetworkFaultsCleared",
    "UseTap": "UseProxy",
    "SetTo": "CursorReset",
}

_FIELDS_1: Final = {"tapped": "proxied"}

_TAGS_2: Final = {"Gather": "ReceiveDue", "Gathered": "DueReceived", "Received": "Consumed"}

_FIELDS_2: Final = {"shares": "consumers"}


@dataclass(frozen=True, slots=True)
class Renames:
    """The old and new names of operations and outcomes (``tags``) and of fields.

    Every old name had one meaning only. ``added``: fields that the next format adds beside a field of this name.
    """

    tags: Mapping[str, str]
    fields: Mapping[str, str]
    added: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __call__(self, value: Any) -> Any:
        """The value in the next format."""
        return _renamed(value, self)


FORMATS: Final[tuple[Callable[[Any], Any], ...]] = (
    Renames(_TAGS_1, _FIELDS_1),
    Renames(_TAGS_2, _FIELDS_2, {"batch_index": {"batch_size": 0}}),
    upgrade_replication.upgraded,
    upgrade_chunking.upgraded,
)
"""From each format to the next, format 1 first."""

FORMAT: Final = 1 + len(FORMATS)
"""The format that this suite writes."""


def upgraded(written: Any, written_as: int) -> Any:
    """The JSON value of a history in the newest format; ``written_as``: its format."""
    try:
        for upgrade in FORMATS[written_as - 1 :]:
            written = upgrade(written)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise msgspec.ValidationError(f"it does not have the form of format {written_as} ({error!r})") from error
    return _with_current_name(written | {"format": FORMAT})


def _with_current_name(history: Mapping[str, Any]) -> Mapping[str, Any]:
    """The history with the current name of its deviation: these names change without a new format."""
    violation = history.get("violation")
    if not (isinstance(violation, dict) and isinstance(violation.get("deviation"), str)):
        return history
    return {**history, "violation": violation | {"deviation": current_name(violation["deviation"])}}


def _renamed(value: Any, renames: Renames) -> Any:
    match value:
        case dict():
            renamed = {renames.fields.get(name, name): _renamed(part, renames) for name, part in value.items()}
            for tag in ("op", "outcome"):
                if isinstance(renamed.get(tag), str):
                    renamed[tag] = renames.tags.get(renamed[tag], renamed[tag])
            for name in renames.added.keys() & renamed.keys():
                renamed = {**renames.added[name], **renamed}
            return renamed
        case list():
            return [_renamed(part, renames) for part in value]
        case _:
            return value
