"""The generated pages of the documentation: rules, seeded defects, explorations of the model.

Each is a function from the data to the page's text. ``make docs`` writes them (:mod:`conformance.documentation`).
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from conformance.faults.defect import Defect
from conformance.report.data import title
from conformance.report.docs.exploration import broken_in_brief
from conformance.report.docs.hunts import DefectForm, HuntForm
from conformance.report.sentences.lists import count
from model.chunking import assembly
from model.explorations import explorations
from model.explorations.deduplication import source, system
from model.explorations.deduplication.world import Setup, World
from model.explore import explore
from model.failpoints import FAILPOINTS, AnyFailpoint
from model.key_shared import draining_hashes
from model.rules.catalogue import DOCUMENTS, Rule, heading
from model.variants import NamedVariant

_DRAWN = Setup(sources=(source("A", 1),), failures=1, restart=None)
"""A configuration small enough for a drawing."""


def rules_page(rules: Iterable[Rule], places: Collection[str], invariants: Mapping[str, Sequence[str]]) -> str:
    """Every rule of the catalogue, document by document.

    ``places``: the rules that the machines decide; ``invariants``: those that decide a rule over histories.
    """
    all_rules = tuple(rules)
    sections = [
        f"## {heading(number)}\n\nThe document: {document.title}. Public pages: "
        + ", ".join(f"[{page.title}]({page.address})" for page in document.pages)
        + ".\n\n"
        + grid(
            ("id", "rule", "decided by", "over histories", "section of the document"),
            [
                (
                    rule.id,
                    title(rule),
                    ", ".join(decided.value for decided in rule.decided_by),
                    ", ".join(invariants.get(rule.id, ())),
                    rule.section,
                )
                for rule in all_rules
                if rule.document == number
            ],
        )
        for number, document in DOCUMENTS.items()
    ]
    return page(
        "Rules",
        "Every statement of the five documents, in the suite's words, and what a broker owes its clients whatever the "
        "document. A rule is decided by *wire*, what clients and "
        "the admin API observe; *stats*, the broker's stats; *fault*, only with a fault; *model*, exploring the model "
        "alone. `pulsar-conformance rules` prints the same. "
        f"The machines of `check` and the explorations decide {len(places)} of the {len(all_rules)} rules. `verify` "
        f"decides {len(invariants)} of them over histories, too, by the invariants that are named.",
        *sections,
    )


def defects_page(defects: Sequence[Defect], hunts: Sequence[HuntForm]) -> str:
    """The seeded defects, and the results of hunts for them."""
    hunted = {one.id for hunt in hunts for one in hunt.defects}
    unhunted = [f"`{defect.name}`" for defect in defects if defect.name not in hunted]
    return page(
        "Seeded defects",
        "Small bugs that are switched on in a running broker (`conformance/faults/rules`), or on the wire "
        "(`conformance/faults/wire.py`). They test the machines: a defect is found if a rule is violated with it, and "
        "the same histories violate no rule without it.",
        "## Defects\n\n"
        + grid(("defect", "breaks", "what it does"), [(f"`{d.name}`", d.breaks, d.summary) for d in defects]),
        "## Failpoints\n\n"
        "Faults that the machines inject into a running broker, on one topic, for the next entries, reads or consumers "
        "(`model/failpoints.py`).\n\n" + grid(("failpoint", "what happens", "details"), map(_failpoint, FAILPOINTS)),
        "## Hunts\n\n"
        "`pulsar-conformance defects --hunt --json FILE` switches one defect on after the other; `docs/hunts` has the "
        "results below. *Violated* is the rule that the minimal history breaks. It is often another rule than the "
        "defect breaks by design: if the broker forgets a sequence id, a producer sees it in ProducerSuccess before a "
        "message is stored twice. Operations and seconds are those until the defect was found, without the start of "
        "the broker. Steps are those of the minimal history, replays how many of its replays violated the rule again. "
        "Without the defect none did.",
        *(_hunt(hunt) for hunt in hunts),
        *([f"Not hunted yet: {', '.join(unhunted)}."] if unhunted else []),
    )


def _failpoint(name: AnyFailpoint) -> tuple[str, str, str]:
    failpoint = FAILPOINTS[name]
    return f"`{name}`", f"{failpoint.statement[0].upper()}{failpoint.statement[1:]}.", failpoint.details


def _hunt(hunt: HuntForm) -> str:
    caught = sum(one.result == "found" for one in hunt.defects)
    number = count(len(hunt.defects), "defect", "defects")
    return (
        f"### On {hunt.broker}, seed {hunt.seed}\n\n{caught} of {number} found, within {hunt.budget_s:g} s each.\n\n"
    ) + grid(
        ("defect", "found by", "breaks", "violated", "operations", "seconds", "steps", "replays"),
        [_row(one) for one in hunt.defects],
    )


def _row(hunted: DefectForm) -> tuple[str, ...]:
    if hunted.replays is None:
        return f"`{hunted.id}`", hunted.result, hunted.breaks, *([""] * 5)
    found_by = hunted.machine if hunted.result == "found" else hunted.result
    replays = f"{hunted.replays.came_back} of {hunted.replays.tries}"
    numbers = (str(hunted.operations), str(hunted.seconds), str(hunted.steps))
    return f"`{hunted.id}`", str(found_by), hunted.breaks, str(hunted.rule), *numbers, replays


def exploration_page(variants: Sequence[NamedVariant[Any]]) -> str:
    """A small state graph, and what each variant of the model breaks."""
    rows = [
        (f"`{variant.name}`", variant.origin.value, variant.what, "<br>".join(broken_in_brief(named.run())))
        for variant in variants
        for named in explorations(variant.name)
    ]
    return page(
        "Exploring the model",
        "`pulsar-conformance explore` visits every reachable state of the references in small configurations. The "
        "rules hold in each state.",
        "## One message, one failing write\n\nAll states of one producer that sends one message, while one write may "
        "fail. Each state has the highest id pushed, the highest id persisted, and the ids in the log.\n\n"
        f"```mermaid\n{_drawing()}\n```",
        "## What breaks without a sentence of the documents\n\nEach variant of a reference does one thing differently. "
        "Those of replication are named `repl-…`, of chunking `chunk-…`, of cursors `ack-…`, of Key_Shared "
        "`key-…`. Each breaks these statements, after so many steps; "
        "`pulsar-conformance explore --variant NAME` shows the shortest counterexample step by step.",
        grid(("variant", "from", "difference", "broken statements (rules): shortest counterexample"), rows),
    )


def draining_page(
    table: Mapping[
        tuple[draining_hashes.DrainingState, draining_hashes.DrainingInput], draining_hashes.DrainingTransition
    ],
) -> str:
    """The life of a draining hash: the model's table and a drawing of it."""
    return _life_page(
        "The life of a draining hash",
        "Document 004: a hash that moved to another consumer drains until none of its messages is pending at the first "
        "consumer. This is the table of `model/key_shared/draining_hashes.py`; no other transition exists.",
        ("state", "input", "effect", "next state"),
        draining_hashes.DrainingState,
        table,
    )


def buffers_page(table: Mapping[tuple[assembly.BufferState, assembly.BufferInput], assembly.BufferTransition]) -> str:
    """The life of a chunk buffer: the model's table and a drawing of it."""
    return _life_page(
        "The life of a chunk buffer",
        "Document 002: a consumer buffers the chunks of a message until it has them all. This is the table of "
        "`model/chunking/assembly.py`; no other transition exists.",
        ("state", "input", "effect", "next state"),
        assembly.BufferState,
        table,
    )


class _Transition(Protocol):
    """A transition of either table."""

    @property
    def effect(self) -> enum.Enum: ...

    @property
    def after(self) -> enum.Enum: ...


S = TypeVar("S", bound=enum.Enum)
N = TypeVar("N", bound=enum.Enum)
T = TypeVar("T", bound=_Transition)


def _life_page(
    heading: str, what: str, columns: tuple[str, str, str, str], states: type[S], table: Mapping[tuple[S, N], T]
) -> str:
    return page(
        heading,
        what,
        f"```mermaid\n{_life(states, table)}\n```",
        grid(
            columns,
            [(state.value, happens.value, to.effect.value, to.after.value) for (state, happens), to in table.items()],
        ),
    )


def _life(states: type[S], table: Mapping[tuple[S, N], T]) -> str:
    """A drawing of a table, which begins in the first state."""
    declared = [f"  {state.name}: {state.value}" for state in states]
    changes = [
        f"  {state.name} --> {to.after.name}: {_short(happens)} / {to.effect.value}"
        for (state, happens), to in table.items()
        if state is not to.after
    ]
    return "\n".join(("stateDiagram-v2", *declared, f"  [*] --> {next(iter(states)).name}", *changes))


def _short(happens: enum.Enum) -> str:
    return happens.name.lower().replace("_", " ")


def _drawing() -> str:
    graph = explore(system(_DRAWN)).graph
    names = {world: f"s{number}" for number, world in enumerate(graph)}
    states = [f'  {name}["{_state(world)}"]' for world, name in names.items()]
    steps = [
        f'  {names[before]} -->|"{_words(graph.edges[before, after]["words"])}"| {names[after]}'
        for before, after in graph.edges
    ]
    return "\n".join(("flowchart TD", *states, *steps))


def _words(label: str) -> str:
    return label.replace("\n", "<br>or ")


def _state(world: World) -> str:
    pushed, persisted = (
        "none" if one == -1 else str(one) for one in (world.topic.pushed_of("A"), world.topic.persisted_of("A"))
    )
    log = ", ".join(str(logged.entry.highest) for logged in world.topic.log) or "empty"
    return f"pushed {pushed}<br>persisted {persisted}<br>log {log}"


def page(heading: str, *parts: str) -> str:
    """A generated page: a note that it is generated, a heading, and these parts."""
    note = "<!-- Written by `make docs`; changes by hand are lost. -->"
    return "\n\n".join((note, f"# {heading}", *parts)) + "\n"


def grid(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [headings, tuple("---" for _ in headings), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
