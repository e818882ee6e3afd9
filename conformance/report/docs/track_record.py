"""The track record: every find with its upstream issue, and when its history was replayed last and came back.

``docs/results/track-record.jsonl`` has a line for each find that was replayed on a release, as ``reproduce --all``
writes them. The page is made from these lines and from the entries of the deviations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from conformance.files import content
from conformance.harness_error import HarnessError
from conformance.known import address
from conformance.known.versions import version_in
from conformance.rates import Counts
from conformance.report.docs.markdown import grid, page
from conformance.report.sentences.lists import count
from model.deviation import Deviation
from model.deviations import DEVIATIONS
from model.deviations.symptoms import SYMPTOMS, symptom_of


class Reproduced(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The replays of one find on one release. ``suite``: its version; ``why``: why there are none."""

    deviation: str
    release: str
    clients: dict[str, str]
    suite: str
    date: str
    tries: int
    came_back: int
    why: str = ""

    @property
    def is_gone(self) -> bool:
        """Whether it was replayed and never came back."""
        return self.tries > 0 and self.came_back == 0


def read(path: Path) -> tuple[Reproduced, ...]:
    """The lines of a file; HarnessError if one is something else."""
    try:
        return tuple(msgspec.json.decode(line, type=Reproduced) for line in content(path).splitlines() if line.strip())
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise HarnessError(f"{path} is not a track record: {error}") from error


def track_record_page(machines: dict[str, str], record: Sequence[Reproduced]) -> str:
    """A table of all finds, the gravest first. ``machines``: what drew the history of each."""
    releases = {name: tuple(one for one in record if one.deviation == name) for name in DEVIATIONS}
    gravest = [one for symptom in SYMPTOMS for one in DEVIATIONS.values() if symptom_of(one) == symptom]
    came_back = {one.deviation for one in record if one.came_back}
    return page(
        "Track record",
        "Every named find: what a user sees, the rule that it breaks, the releases that were seen with it, and the "
        "replays of its minimal history. *Since* is the first release with it, among those that were tried or whose "
        "code was read. *Found by* is what drew the history. "
        "`pulsar-conformance reproduce NAME` performs the history again, and "
        "`pulsar-conformance reproduce --all --broker RELEASE` those of all finds of a release "
        "([how](../comparing.md#reproduce-a-deviation)).",
        f"{count(len(DEVIATIONS), 'find', 'finds')}; {len(came_back)} of them were replayed for this page and came "
        f"back. {_gone(record)}",
        grid(
            ("find", "what a user sees", "rule", "seen on", "since", "upstream", "found by", "last replayed", "rate"),
            [_row(one, machines.get(one.name, ""), releases[one.name]) for one in gravest],
        ),
    )


def _gone(record: Iterable[Reproduced]) -> str:
    gone = [f"`{one.deviation}` on {one.release}" for one in record if one.is_gone]
    return f"Never came back: {', '.join(gone)}." if gone else ""


def _row(one: Deviation, machine: str, replayed: Sequence[Reproduced]) -> tuple[str, ...]:
    last = max((again for again in replayed if again.tries), key=lambda again: again.date, default=None)
    return (
        f"[`{one.name}`](deviations.md#{one.name})",
        symptom_of(one).name,
        one.rule,
        ", ".join(one.seen),
        min((*one.seen, *one.read), key=_version),
        _upstream(one),
        machine,
        "" if last is None else f"{last.date}, {last.release}, suite {last.suite}",
        "" if last is None else f"{Counts(last.came_back, last.tries)}",
    )


def _version(release: str) -> tuple[bool, object]:
    found = version_in(release)
    return found is None, found or release


def _upstream(one: Deviation) -> str:
    links = [f"[{reference.partition('/')[2]}]({address(reference)})" for reference in one.upstream]
    fixed = f"fixed in {', '.join(one.fixed)}" if one.fixed else ""
    return "; ".join(filter(None, (", ".join(links), fixed)))
