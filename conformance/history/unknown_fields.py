"""Finds the fields of a JSON document that its type does not have, which decoding ignores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import msgspec


def unknown_field(raw: Any, decoded: Any, where: str = "$") -> str | None:
    """The path of the first field of ``raw`` that the decoded value lacks."""
    return next(_unknown(raw, decoded, where), None)


def _unknown(raw: Any, decoded: Any, where: str) -> Iterator[str]:
    match raw:
        case dict() if (known := _known(decoded)) is not None:
            for name, value in raw.items():
                if name not in known:
                    yield f"{where}.{name}"
                else:
                    yield from _unknown(value, known[name], f"{where}.{name}")
        case list() if isinstance(decoded, tuple | list):
            for number, (value, part) in enumerate(zip(raw, decoded, strict=True)):
                yield from _unknown(value, part, f"{where}[{number}]")


def _known(decoded: Any) -> dict[str, Any] | None:
    """The fields of a value in JSON, with its tag; None for a value without fields."""
    if isinstance(decoded, msgspec.Struct):
        named = zip(decoded.__struct_encode_fields__, decoded.__struct_fields__, strict=True)
        tag = decoded.__struct_config__.tag_field
        return {written: getattr(decoded, name) for written, name in named} | ({tag: None} if tag else {})
    if is_dataclass(decoded):
        return {field.name: getattr(decoded, field.name) for field in fields(decoded)}
    if isinstance(decoded, dict):
        return {str(name): value for name, value in decoded.items()}
    return None
