"""Known deviations: which of them concern a release, its clients and its settings.

The shipped list follows from :mod:`model.deviations`, with a minimal history each in the folder ``histories``.
``--known FILE`` reads another list in JSON: an object for each deviation with its name and releases. Fields that it
leaves out are those of the shipped entry.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final

import msgspec

from conformance.files import content, is_file
from conformance.harness_error import HarnessError
from conformance.known.versions import is_among, specifies_versions
from model.deviation import OF, Deviation
from model.deviations import DEVIATIONS, current_name
from model.rules import names

HISTORIES = Path(__file__).parent / "histories"
"""The minimal history of each deviation that has one, by its name."""


ALIKE: Final[Mapping[str, AbstractSet[str]]] = {
    "later-queued-producer-forgotten-by-unload": {"queued-producer-forgotten-by-unload"},
    "replay-hash-kept-after-ack": {"look-ahead-skips-replay"},
    "replay-head-of-line-blocking": {"look-ahead-skips-replay", "look-ahead-skips-unordered-replay"},
    "request-before-topic-policy": {"request-before-replicator-exists"},
    "skipped-parts-counted-off-again": {"unacked-count-lowered-by-any-ack"},
}
"""Deviations that explain a replay of another one as well: on one release both, or those of earlier releases."""


class KnownDeviation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One deviation.

    ``releases``, ``switched_on``, ``seldom`` and ``clients`` are those of :class:`model.deviation.Deviation`, and
    ``summary`` is its statement. ``history``: the path of a history that shows it; in a file, relative to that file.
    """

    name: str = msgspec.field(name="deviation")
    rule: str = ""
    releases: tuple[str, ...] = ()
    switched_on: dict[str, tuple[str, ...]] = {}
    seldom: tuple[str, ...] = ()
    clients: dict[str, str] = {}
    summary: str = ""
    cause: str = ""
    upstream: str | None = None
    history: str | None = None

    def concerns(
        self, release: str, clients: Mapping[str, str] | None = None, settings: Mapping[str, str] | None = None
    ) -> bool:
        """Whether it is known for this release, with these clients and settings of the broker (None: any).

        A milestone, a candidate or a snapshot is a version of its own (:mod:`conformance.known.versions`).
        """
        return self._concerns(release, clients, settings, self.seldom)

    def comes_back_on(
        self, release: str, clients: Mapping[str, str], settings: Mapping[str, str] | None = None
    ) -> bool:
        """Whether its history may be replayed there, with these clients."""
        return self._concerns(release, clients, settings, ())

    def _concerns(
        self,
        release: str,
        clients: Mapping[str, str] | None,
        settings: Mapping[str, str] | None,
        more_releases: tuple[str, ...],
    ) -> bool:
        specifiers = [*self.releases, *more_releases]
        for setting, releases in self.switched_on.items():
            name, _, value = setting.partition("=")
            if settings is None or settings.get(name) == value:
                specifiers += releases
        is_of_any_broker = not (specifiers or self.switched_on) and bool(self.clients)
        if not is_of_any_broker and not any(is_among(specifier, release) for specifier in specifiers):
            return False
        return self.concerns_clients(clients)

    def concerns_clients(self, clients: Mapping[str, str] | None) -> bool:
        """Whether it is known with these clients (None: any): one of those that it names is among them."""
        if clients is None or not self.clients:
            return True
        named = ((name.partition(":")[0], version) for name, version in clients.items())
        return any(name in self.clients and is_among(self.clients[name], version) for name, version in named)


def shipped() -> tuple[KnownDeviation, ...]:
    """All deviations of the suite."""
    return tuple(map(_shipped, DEVIATIONS.values()))


def _shipped(deviation: Deviation) -> KnownDeviation:
    return KnownDeviation(
        name=deviation.name,
        rule=deviation.rule,
        releases=deviation.releases,
        switched_on=deviation.switched_on,
        seldom=deviation.seldom,
        clients=deviation.clients,
        summary=deviation.statement,
        cause=deviation.cause,
        upstream=" ".join(map(address, deviation.upstream)) or None,
        history=str(HISTORIES / f"{deviation.name}.json") if deviation.has_history else None,
    )


def address(reference: str) -> str:
    """The web address of an issue or pull request (GitHub redirects from one to the other)."""
    repository, _, number = reference.partition("#")
    return f"https://github.com/{repository}/issues/{number}"


def read(path: Path) -> tuple[KnownDeviation, ...]:
    """The deviations of one file: a JSON list of objects."""
    try:
        deviations = msgspec.json.decode(content(path), type=tuple[KnownDeviation, ...])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise HarnessError(f"{path} is not a list of known deviations: {error}") from error
    return tuple(_completed(deviation, path) for deviation in deviations)


def _completed(written: KnownDeviation, path: Path) -> KnownDeviation:
    """An entry of a file, completed by the shipped entry."""
    name = current_name(written.name)
    if name not in DEVIATIONS:
        raise HarnessError(f"{path}: {names.unknown('deviation in the model', name, DEVIATIONS)}")
    entry = _shipped(DEVIATIONS[name])
    completed = msgspec.structs.replace(
        written,
        name=name,
        rule=written.rule or entry.rule,
        summary=written.summary or entry.summary,
        cause=written.cause or entry.cause,
        upstream=written.upstream or entry.upstream,
        history=str(path.parent / written.history) if written.history is not None else entry.history,
    )
    _validate(completed, entry, path)
    return completed


def known_of(
    deviations: Iterable[KnownDeviation], releases: Collection[str], clients: Mapping[str, str] | None = None
) -> tuple[KnownDeviation, ...]:
    """Those that concern one of these releases, with these clients (None: any); if no release is named, any of one."""
    return tuple(
        one
        for one in deviations
        if one.concerns_clients(clients) and (not releases or any(map(one.concerns, releases)))
    )


def by_library(known: Collection[str], libraries: Mapping[str, str]) -> frozenset[str]:
    """The names of known deviations as the model has them, where a run has these clients (none: pulsar-client alone).

    ``libraries``: the name in deviations of each. A deviation of a client is known of the actors that have a client
    that it names (:func:`model.deviation.clients_by_name`). If no client of the run is among them, a file knows more
    than the suite, and it is known of all.
    """
    return frozenset(one for name in known for one in _by_library(name, libraries))


def _by_library(name: str, libraries: Mapping[str, str]) -> Iterable[str]:
    clients = DEVIATIONS[name].clients
    concerned = (one for one, kind in libraries.items() if kind in clients and is_among(clients[kind], one))
    return [f"{name}{OF}{one}" for one in concerned] or [name]


def _validate(deviation: KnownDeviation, entry: KnownDeviation, path: Path) -> None:
    if deviation.rule != entry.rule:
        raise HarnessError(f"{path}: the deviation {deviation.name} breaks {entry.rule}, not {deviation.rule!r}")
    if not (deviation.releases or deviation.switched_on or deviation.clients):
        raise HarnessError(f"{path}: the deviation {deviation.name} names no release")
    if deviation.history is not None and not is_file(Path(deviation.history)):
        raise HarnessError(f"{path}: the deviation {deviation.name} has no history {deviation.history!r}")
    validate_releases(deviation, path)


def validate_releases(deviation: KnownDeviation, path: Path) -> None:
    """Raises HarnessError, with the file that has the deviation, if its specifiers are invalid."""
    switched_on = (specifier for releases in deviation.switched_on.values() for specifier in releases)
    for specifier in (*deviation.releases, *deviation.seldom, *switched_on, *deviation.clients.values()):
        if not specifies_versions(specifier):
            raise HarnessError(
                f"{path}: {specifier!r}, of the deviation {deviation.name}, does not specify releases; "
                'write "==4.0.8" or ">=2.5,<4.1"'
            )


def unlike(deviation: str) -> frozenset[str]:
    """The deviations that do not explain what this one explains."""
    return frozenset(DEVIATIONS.keys() - {deviation} - ALIKE.get(deviation, set()))
