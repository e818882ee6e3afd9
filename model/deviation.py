"""A deviation: where a release, or its client, differs from a document, as one entry of data.

The entries are in :mod:`model.deviations`, a module for each document. An entry's name is a switch of the model: the
states that it makes possible are marked with the name and held beside the others. All else that anybody says of a
deviation follows from its entry: the lists of known deviations (``conformance/known``), the reports and
``docs/reference/deviations.md``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from model.judgement import Broken, Side

CLASSIC = "subscriptionKeySharedUseClassicPersistentImplementation=true"
"""The setting that switches on the classic implementation of Key_Shared."""
OF = "@"
"""Between the name of a deviation that is known, and a client of which it is, where that matters."""
MAX_STATEMENT = 420
"""A statement is quoted with every violation, so it is short."""


class Shadow(Struct, frozen=True, kw_only=True):
    """A defect that breaks the rule of a deviation nearby in another way, and must be found while that is known.

    ``name``: of the variant of the simulated broker, of the seeded defect, or of the test of small histories that has
    it (``by``). ``missed_before``: it was not found as long as the deviation excused more than its cause affects.
    """

    name: str
    by: Literal["simulated broker", "seeded defect", "small history"] = "simulated broker"
    statement: str
    missed_before: bool = False


class Deviation(Struct, frozen=True, kw_only=True):
    """One deviation.

    ``aliases``: names that it had before; files that have one of them are still read. ``rule``: what it breaks;
    ``also``: what else breaks with it. ``statement``: what happens. ``cause``: why, in the code of broker or client.
    ``upstream``: issues and pull requests, as ``apache/pulsar#23845``. ``searched``: the date and the words of the last
    search for it upstream, and the nearest report, which is about something else.

    ``releases``: version specifiers (``">=2.11,<=5.0.0-M1"``) of the releases that count as having it; one that matches
    is enough. ``switched_on``: the same by setting (``"name=value"``), for releases that need it. ``seldom``: the same
    for releases that show it too seldom for a replay. ``clients``: whose deviation it is, with versions (``official``:
    pulsar-client, ``java``, ``go``); one of them is enough. One that names no releases occurs with any broker.

    ``seen``, ``gone``: the releases that were seen with it, and without it. ``read``: those whose code was read to have
    it, and that are the last of a range. ``fixed``: the first ones with the upstream fix, by its pull request or their
    code. No range ends elsewhere: an open end, or a release that nobody looked at, would excuse what nobody saw.

    ``occurrence``: how often it occurs, and in
    which circumstances. ``shadow``: what must be found beside it. ``has_history``: whether
    ``conformance/known/histories`` has a history of its name.
    """

    name: str
    aliases: tuple[str, ...] = ()
    rule: str
    also: tuple[str, ...] = ()
    statement: str
    cause: str
    upstream: tuple[str, ...] = ()
    searched: str = ""
    side: Side
    releases: tuple[str, ...] = ()
    switched_on: dict[str, tuple[str, ...]] = {}
    seldom: tuple[str, ...] = ()
    clients: dict[str, str] = {}
    seen: tuple[str, ...]
    gone: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    occurrence: str = ""
    shadow: Shadow
    has_history: bool = True

    def broken(self, because: str | None = None, rule: str | None = None) -> Broken:
        """The answer where it is not known: ``because``, what was seen, in a sentence, if there is more to say.

        ``rule``: the one that breaks, where it is not the deviation's first one.
        """
        statement = self.statement.removesuffix(".")
        because = statement if because is None else f"{because}. {statement}"
        return Broken(rule or self.rule, because, self.name, self.side)


def clients_by_name(known: Iterable[str]) -> dict[str, frozenset[str]]:
    """The names of known deviations (``name`` or ``name@java:4.0.8``), with their clients; with none, of all actors."""
    found: dict[str, set[str]] = {}
    for one in known:
        name, of, client = one.partition(OF)
        found.setdefault(name, set()).update([client] if of else [])
    return {name: frozenset(clients) for name, clients in found.items()}
