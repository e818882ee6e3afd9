"""A deviation, or a violation without a name, as an issue to file upstream, with the sections of Pulsar's form.

All of it comes from the deviation's entry, its rule and its minimal history; nothing is performed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from conformance.history.document import History, Replays, Violation
from conformance.known import address
from conformance.report.reproducer.program import Find
from conformance.report.sentences.lists import count, percent
from conformance.report.sentences.words import explain
from model.deviation import Deviation
from model.deviations.symptoms import symptom_of
from model.rules.catalogue import DOCUMENTS, RULES


def issue_of_deviation(
    deviation: Deviation, history: History | None, version: str, programs: Sequence[str] = ()
) -> str:
    """The issue of a deviation; ``history``: the minimal one, if the suite has one; ``version``: of the suite.

    ``programs``: the files of those that reproduce it without the suite.
    """
    title, _, more = deviation.statement.partition(". ")
    symptom = symptom_of(deviation)
    description = [
        *filter(None, (more, deviation.occurrence)),
        f"**What a user sees** ({symptom.severity}): {symptom.statement}",
        *map(_expected, (deviation.rule, *deviation.also)),
        f"**Cause**: {deviation.cause}",
    ]
    known_as = f"Found by pulsar-conformance {version}, which calls it `{deviation.name}`."
    further = [f"Related: {', '.join(map(address, deviation.upstream))}."] if deviation.upstream else []
    if deviation.searched:
        further.append(f"Searched upstream on {deviation.searched}")
    again = _again(f"pulsar-conformance reproduce {deviation.name}", programs)
    return _issue(title, _of_releases(deviation), description, history, [*further, known_as], again)


def issue_of_violation(history: History, violation: Violation, version: str, programs: Sequence[str] = ()) -> str:
    """The issue of a violation that no deviation explains."""
    environment = [f"- Broker: {history.release}.", *(f"- Client: {_client(*one)}." for one in history.clients.items())]
    found = f"Found by pulsar-conformance {version}; the cause is not known."
    again = _again(f"pulsar-conformance replay HISTORY --broker {history.release} --times 30", programs)
    title = f"{violation.rule} is broken: {violation.because}"
    return _issue(title, environment, [_expected(violation.rule)], history, [found], again)


def _issue(
    title: str,
    environment: Iterable[str],
    description: Iterable[str],
    history: History | None,
    further: Iterable[str],
    again: Iterable[str],
) -> str:
    parts = (
        f"# [Bug] {title.removesuffix('.')}",
        "## User environment",
        "\n".join(environment),
        "## Issue description",
        *description,
        "## Reproducing the issue",
        *(("It depends on a race, and no history of it comes back.",) if history is None else _steps(history, again)),
        "## Additional information",
        *further,
    )
    return "\n\n".join(parts) + "\n"


def _of_releases(deviation: Deviation) -> Iterable[str]:
    yield f"- Seen on {', '.join(deviation.seen)}."
    if deviation.read:
        yield f"- The code of {', '.join(deviation.read)} has it, too; it was not run."
    if deviation.gone:
        yield f"- Not seen on {', '.join(deviation.gone)}."
    if deviation.fixed:
        yield f"- Fixed in {', '.join(deviation.fixed)}."
    for setting in deviation.switched_on:
        yield f"- Some of these releases need `{setting}`."
    for name, versions in deviation.clients.items():
        yield f"- Client: {_client(name, versions)}."


def _client(name: str, versions: str) -> str:
    """A client by the name that its users know."""
    match name:
        case "official":
            return f"pulsar-client {versions}"
        case "wire":
            return f"pulsar-conformance's own client of the binary protocol, {versions}"
        case _:
            return f"the {name.capitalize()} client {versions}"


def _expected(number: str) -> str:
    """What the document says instead, with the pages that say it."""
    rule = RULES[number]
    pages = ", ".join(f"[{page.title}]({page.address})" for page in DOCUMENTS[rule.document].pages)
    return f"**Expected** ({number}): {rule.statement} See {pages}."


def find_of(deviation: Deviation | None, history: History, name: str) -> Find:
    """What a program reproduces. ``name``: of its file, if the violation has no name."""
    rules: tuple[str, ...]
    if deviation is None:
        assert history.violation is not None
        rules, statement = (history.violation.rule,), history.violation.because
    else:
        rules, statement, name = (deviation.rule, *deviation.also), deviation.statement, deviation.name
    title, _, more = statement.partition(". ")
    expected = (f"Expected ({rule}): {RULES[rule].statement} See {', '.join(_pages(rule))}." for rule in rules)
    return Find(
        name=name,
        title=f"{title.removesuffix('.')}.",
        explanation=(*filter(None, (more,)), *expected),
        history=history,
        clients=frozenset(() if deviation is None else deviation.clients),
    )


def _pages(rule: str) -> Iterable[str]:
    return (page.address for page in DOCUMENTS[RULES[rule].document].pages)


def _again(command: str, programs: Sequence[str]) -> Iterable[str]:
    if programs:
        names, verb = " and ".join(f"`{name}`" for name in programs), "performs" if len(programs) == 1 else "perform"
        yield f"{names} {verb} these steps, with 1 as exit status where they find this, and 0 where it is gone."
    yield "pulsar-conformance performs these steps on any release:"
    yield f"    {command}"


def _steps(history: History, again: Iterable[str]) -> Iterable[str]:
    size = history.size
    of = f"{count(size.brokers, 'broker', 'brokers')} and {count(size.bookies, 'bookie', 'bookies')}"
    yield f"On Pulsar {history.release} with {of}:"
    yield "\n".join(map(str, explain(history)))
    if (violation := history.violation) is not None:
        yield f"**Observed** in step {violation.step}: {violation.because.removesuffix('.')}."
        if violation.evidence:
            yield _block("text", violation.evidence)
    if history.replays is not None:
        yield _rate(history.replays, history.release)
    if history.settings:
        settings = _block("properties", (f"{name}={value}" for name, value in sorted(history.settings.items())))
        yield f"<details><summary>The broker's settings</summary>\n\n{settings}\n\n</details>"
    yield from again


def _block(language: str, lines: Iterable[str]) -> str:
    return "\n".join((f"```{language}", *lines, "```"))


def _rate(replays: Replays, release: str) -> str:
    rate = f"{replays.came_back} of {replays.tries} replays on {release}"
    return f"It came back in {rate} (95 % interval {percent(replays.interval)})."
