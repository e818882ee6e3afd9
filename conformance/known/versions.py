"""The order of versions: milestones and candidates are versions of their own, before their release.

``5.0.0-M1 < 5.0.0-candidate-1 < 5.0.0-SNAPSHOT < 5.0.0``, as Maven orders them: a snapshot is a build on the way to its
release, which may have all that was in the candidates. A build that a vendor names in another way counts as the release
whose number it has.
"""

from __future__ import annotations

import re
from typing import Final

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

_VERSION: Final = re.compile(r"(\d+(?:\.\d+)+)(?:[-.]?(M|candidate|rc|a|b)[-.]?(\d+))?(-SNAPSHOT)?", re.IGNORECASE)
_STAGE: Final = {"m": "a", "candidate": "rc", "rc": "rc", "a": "a", "b": "b"}
_AFTER_ALL_CANDIDATES: Final = "rc999999"


def version_in(text: str) -> Version | None:
    """The version that a text has, as in ``pulsar-client 3.13.0``; None without one."""
    found = _VERSION.search(text)
    return None if found is None else Version(_ordered(found))


def is_among(specifier: str, text: str) -> bool:
    """Whether the version in a text is one of those that a specifier has, such as ``>=4.0.6,<=5.0.0-M1``."""
    version = version_in(text)
    return version is not None and _specifiers(specifier).contains(version, prereleases=True)


def specifies_versions(specifier: str) -> bool:
    """Whether it is a specifier."""
    try:
        return bool(list(_specifiers(specifier)))
    except InvalidSpecifier:
        return False


def _specifiers(text: str) -> SpecifierSet:
    return SpecifierSet(_VERSION.sub(_ordered, text))


def _ordered(found: re.Match[str]) -> str:
    """A version in the words of PEP 440, whose specifiers order milestones as alphas."""
    number, stage, count, snapshot = found.groups()
    if stage is not None:
        return f"{number}{_STAGE[stage.lower()]}{count}{'.dev0' if snapshot else ''}"
    return f"{number}{_AFTER_ALL_CANDIDATES}" if snapshot else number
