"""``known``: the deviations of a release, or of all, by what a user sees of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from rich.console import Console
from rich.text import Text

from conformance.known import address, shipped
from conformance.report.console import say, show_table
from conformance.report.sentences.lists import count
from model.deviation import Deviation
from model.deviations import DEVIATIONS
from model.deviations.symptoms import SYMPTOMS, Severity, Symptom, symptom_of


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """A deviation as ``known --json`` has it.

    ``releases`` are specifiers of the releases that have it, ``switched_on`` those that need a setting, ``seldom``
    those that show it too seldom for a replay, ``clients`` the client that has it. ``seen`` and ``gone``: the releases
    that were seen with it and without it.
    """

    deviation: str
    symptom: str
    severity: Severity
    breaks: tuple[str, ...]
    statement: str
    releases: tuple[str, ...]
    switched_on: dict[str, tuple[str, ...]]
    seldom: tuple[str, ...]
    clients: dict[str, str]
    seen: tuple[str, ...]
    gone: tuple[str, ...]
    upstream: tuple[str, ...]
    reproducible: bool
    """Whether ``reproduce`` has a history of it."""


def known_on(release: str | None) -> list[Deviation]:
    """The deviations that are known of a release, with any client and settings; of all releases without one."""
    return [DEVIATIONS[one.name] for one in shipped() if release is None or one.concerns(release)]


def by_symptom(deviations: Iterable[Deviation]) -> list[tuple[Symptom, list[Deviation]]]:
    """Those of each symptom that has one, the gravest first."""
    all_of_them = list(deviations)
    grouped = [(symptom, [one for one in all_of_them if symptom_of(one) == symptom]) for symptom in SYMPTOMS]
    return [(symptom, found) for symptom, found in grouped if found]


def was_looked_at(release: str) -> bool:
    """Whether any deviation was seen, missed or read on a release."""
    return any(release in (*one.seen, *one.gone, *one.read) for one in DEVIATIONS.values())


def list_known(deviations: Sequence[Deviation], release: str | None, out: Console) -> None:
    """Print them by symptom."""
    for symptom, found in by_symptom(deviations):
        out.print(Text(f"{symptom.name} ({symptom.severity}): {symptom.statement}", style="bold"), soft_wrap=True)
        rows = [
            (Text(f"  {one.name}"), Text(one.rule, style="dim"), Text(one.statement if release else _where(one)))
            for one in found
        ]
        show_table(out, rows, justify=("left", "left", "left"), wrapped=True)
    of = "all releases" if release is None else f"Pulsar {release}"
    say(out, f"{count(len(deviations), 'deviation is', 'deviations are')} known of {of}.")
    if release is not None and not was_looked_at(release):
        say(out, f"No deviation was looked for on {release}; these were seen on releases before and after it.")


def as_json(deviations: Iterable[Deviation]) -> bytes:
    """A list of objects, the gravest symptom first."""
    forms = [_form(one) for _, found in by_symptom(deviations) for one in found]
    return msgspec.json.format(msgspec.json.encode(forms), indent=2)


def _form(one: Deviation) -> Known:
    symptom = symptom_of(one)
    return Known(
        deviation=one.name,
        symptom=symptom.name,
        severity=symptom.severity,
        breaks=(one.rule, *one.also),
        statement=one.statement,
        releases=one.releases,
        switched_on=one.switched_on,
        seldom=one.seldom,
        clients=one.clients,
        seen=one.seen,
        gone=one.gone,
        upstream=tuple(map(address, one.upstream)),
        reproducible=one.has_history,
    )


def _where(one: Deviation) -> str:
    gone = f"; not {', '.join(one.gone)}" if one.gone else ""
    return f"seen on {', '.join(one.seen)}{gone}"
