"""Known deviations: where a release is known to differ from a document, as data.

The files beside this module are shipped; ``--known FILE`` reads another one of the same form. Each entry names the
deviation, the rule that it breaks, the releases (and clients), what is seen, the cause in the broker's or client's
code, the upstream issue where there is one, and a minimal history that replays, in a file beside the list. Whether a
deviation was met is the verdicts' business, and its switch is the model's. Nothing stands on such a list that the suite
itself did.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from conformance.files import content
from conformance.harness_error import HarnessError
from model import names
from model.deviations import DEVIATIONS

SHIPPED = Path(__file__).parent
"""Where the files are that the suite ships."""

_RELEASE = re.compile(r"\d+(\.\d+)+")


class KnownDeviation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One deviation.

    ``releases`` are version specifiers (``">=2.5,<4.1"``), and one that matches is enough. ``switched_on``: the same
    for releases that have it only where they are given a setting, by that (``"name=value"``). ``seldom``: the same for
    releases on which it was seen, but does not come back when its history is replayed. ``clients``: the same, one
    each, for the clients whose deviation it is, by the names that a run tells of them (``official``: pulsar-client).
    ``history``: the path of a history that shows it; in the file, relative to that.
    """

    name: str = msgspec.field(name="deviation")
    rule: str
    releases: tuple[str, ...] = ()
    switched_on: dict[str, tuple[str, ...]] = {}
    seldom: tuple[str, ...] = ()
    clients: dict[str, str] = {}
    summary: str
    cause: str
    upstream: str | None = None
    history: str | None = None

    def concerns(
        self, release: str, clients: Mapping[str, str] | None = None, settings: Mapping[str, str] | None = None
    ) -> bool:
        """Whether it is known of this release, with these clients and settings of the broker (None: whatever they are).

        A milestone or snapshot counts as the release that it leads to.
        """
        return self._concerns(release, clients, settings, self.seldom)

    def comes_back_on(self, release: str, settings: Mapping[str, str] | None = None) -> bool:
        """Whether its history may be replayed there."""
        return self._concerns(release, None, settings, ())

    def _concerns(
        self,
        release: str,
        clients: Mapping[str, str] | None,
        settings: Mapping[str, str] | None,
        besides: tuple[str, ...],
    ) -> bool:
        specifiers = [*self.releases, *besides]
        for setting, releases in self.switched_on.items():
            name, _, value = setting.partition("=")
            if settings is None or settings.get(name) == value:
                specifiers += releases
        if not any(_is_among(specifier, release) for specifier in specifiers):
            return False
        return clients is None or all(_is_among(wanted, clients.get(name, "")) for name, wanted in self.clients.items())


def shipped() -> tuple[KnownDeviation, ...]:
    """All deviations that the suite ships. HarnessError when its files are broken."""
    return tuple(deviation for path in sorted(SHIPPED.glob("*.json")) for deviation in read(path))


def read(path: Path) -> tuple[KnownDeviation, ...]:
    """The deviations of one file: a JSON list of objects. HarnessError, in one sentence, when it is not that."""
    try:
        deviations = msgspec.json.decode(content(path), type=tuple[KnownDeviation, ...])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise HarnessError(f"{path} is not a list of known deviations: {error}") from error
    for deviation in deviations:
        _validate(deviation, path)
    return tuple(_with_whole_path(deviation, path.parent) for deviation in deviations)


def known_of(deviations: Iterable[KnownDeviation], release: str | None) -> tuple[KnownDeviation, ...]:
    """Those that concern a release; all of them where the release is not known yet."""
    return tuple(deviation for deviation in deviations if release is None or deviation.concerns(release))


def _with_whole_path(deviation: KnownDeviation, folder: Path) -> KnownDeviation:
    history = str(folder / deviation.history) if deviation.history is not None else None
    return msgspec.structs.replace(deviation, history=history)


def _is_among(specifier: str, version: str) -> bool:
    number = _RELEASE.search(version)
    return number is not None and SpecifierSet(specifier).contains(number[0])


def _validate(deviation: KnownDeviation, path: Path) -> None:
    modelled = DEVIATIONS.get(deviation.name)
    if modelled is None:
        raise HarnessError(f"{path}: {names.unknown('deviation in the model', deviation.name, DEVIATIONS)}")
    if deviation.rule != modelled.rule:
        raise HarnessError(f"{path}: the deviation {deviation.name} breaks {modelled.rule}, not {deviation.rule!r}")
    if not (deviation.releases or deviation.switched_on):
        raise HarnessError(f"{path}: the deviation {deviation.name} names no release")
    if deviation.history is not None and not (path.parent / deviation.history).is_file():
        raise HarnessError(f"{path}: the history {deviation.history} of the deviation {deviation.name} is not there")
    switched_on = (specifier for releases in deviation.switched_on.values() for specifier in releases)
    for specifier in (*deviation.releases, *deviation.seldom, *switched_on, *deviation.clients.values()):
        if not _specifies_releases(specifier):
            raise HarnessError(
                f"{path}: {specifier!r}, of the deviation {deviation.name}, does not specify releases; "
                'write "==4.0.8" or ">=2.5,<4.1"'
            )


def _specifies_releases(specifier: str) -> bool:
    try:
        return bool(list(SpecifierSet(specifier)))
    except InvalidSpecifier:
        return False
