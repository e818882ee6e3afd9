"""Histories in older formats: renames what older releases of this suite called operations, outcomes and fields.

Works on plain JSON values, before they are typed, so that no type keeps an old name.
"""

from __future__ import annotations

from typing import Any, Final

TAGS: Final = {
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
"""Operations and outcomes of format 1, by their old tag."""

FIELDS: Final = {"tapped": "proxied"}
"""Fields of format 1, by their old name; none of them meant anything else elsewhere."""


def upgraded(written: Any, written_as: int) -> Any:
    """The JSON value of a history in the newest format; ``written_as``: the format that it says it has."""
    if written_as >= 2:
        return written
    return _renamed(written) | {"format": 2}


def _renamed(value: Any) -> Any:
    match value:
        case dict():
            renamed = {FIELDS.get(name, name): _renamed(part) for name, part in value.items()}
            for tag in ("op", "outcome"):
                if isinstance(renamed.get(tag), str):
                    renamed[tag] = TAGS.get(renamed[tag], renamed[tag])
            return renamed
        case list():
            return [_renamed(part) for part in value]
        case _:
            return value
