"""Reading the fields of compiled classes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.brokers.settings.class_file import fields_of


def text(value: str) -> bytes:
    return struct.pack(">BH", 1, len(value.encode())) + value.encode()


def class_file(*constants: bytes, slots: int, fields: bytes) -> bytes:
    head = struct.pack(">IHHH", 0xCAFEBABE, 0, 61, slots + 1) + b"".join(constants)
    return head + struct.pack(">HHHH", 0x21, 1, 1, 0) + fields


LONG = struct.pack(">Bq", 5, 1 << 40)
FIELDS = struct.pack(">H", 2) + struct.pack(">HHHH", 2, 1, 2, 0) + struct.pack(">HHHHHIH", 8, 3, 4, 1, 5, 2, 8)
CONTENT = class_file(
    text("isOn"),
    text("Z"),
    text("NAME"),
    text("Ljava/lang/String;"),
    text("ConstantValue"),
    LONG,  # takes two slots
    struct.pack(">BH", 8, 9),
    text("some.name"),
    slots=9,
    fields=FIELDS,
)


def test_fields_have_names_types_and_constant_values() -> None:
    is_on, name = fields_of(CONTENT)
    assert (is_on.name, is_on.descriptor, is_on.is_static, is_on.constant) == ("isOn", "Z", False, None)
    assert (name.name, name.descriptor, name.is_static) == ("NAME", "Ljava/lang/String;", True)
    assert name.constant == "some.name"


@given(st.integers(0, len(CONTENT) - 1))
def test_a_truncated_file_is_no_class(size: int) -> None:
    with pytest.raises(ValueError, match="not a class file"):
        fields_of(CONTENT[:size])


@given(st.binary(max_size=60))
def test_anything_else_is_no_class(content: bytes) -> None:
    with pytest.raises(ValueError, match="not a class file"):
        fields_of(content)
