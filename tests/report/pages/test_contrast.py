"""The page's colours: every text is readable on its background, in light and in dark mode (WCAG 2, AA)."""

from __future__ import annotations

import re

import pytest

from conformance.report.pages.page import style

AA = 4.5

_SOFT = ("held", "violated", "open", "known", "model", "duplicate")

PAIRS = [
    *((text, ground) for text in ("ink", "soft") for ground in ("paper", "card", "code")),
    *((color, f"{color}-soft") for color in _SOFT),
    *((color, ground) for color in ("held", "violated", "open") for ground in ("paper", "card")),
    *((color, "code") for color in ("held", "violated", "open", "duplicate")),
    ("card", "violated"),
    ("ink", "violated-soft"),
    ("soft", "violated-soft"),
]
"""Pairs of foreground and background: texts, badges, results of steps, the sign of the breaking step."""


def colors() -> dict[str, dict[str, str]]:
    light, dark = re.findall(r":root \{(.*?)\}", str(style()), flags=re.S)[:2]
    named = {
        name: dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", text)) for name, text in (("light", light), ("dark", dark))
    }
    return {"light": named["light"], "dark": named["light"] | named["dark"]}


def luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_black_on_white_has_the_greatest_contrast() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), PAIRS)
def test_every_text_has_sufficient_contrast(scheme: str, text: str, ground: str) -> None:
    of_scheme = colors()[scheme]
    assert contrast(of_scheme[text], of_scheme[ground]) >= AA
