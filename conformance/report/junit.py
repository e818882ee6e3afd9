"""The verdicts as JUnit XML, for CI systems: one test case a rule.

A violation is a failure, with its history in words; so is a rule that held although the client is listed to break it.
A violation that is listed, a suspected one, a known deviation and a rule that was not exercised or decided are skipped,
with the reason. What makes the exit status 2 is an error in a test case of its own: a harness error, the reason of a
run that was stopped, and rules that the run should have decided and did not. The time of a test case is that of all
examples that exercised its rule.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import assert_never
from xml.etree import ElementTree

from conformance.files import write_whole
from conformance.report.data import ReportData, ReportedFinding, diagnosis, title
from conformance.report.printable import printable
from conformance.report.sentences.words import cut
from conformance.verdicts import (
    Contradicted,
    Deviated,
    Held,
    ModelOnly,
    NotDecidable,
    NotExercised,
    RuleVerdict,
    Suspected,
    Violated,
    leaves_open,
    seconds_of,
)

STEPS_AT_MOST = 200
"""How many steps of a history a failure has."""


def write(data: ReportData, path: Path) -> None:
    """Write the file; an older one is replaced."""
    ElementTree.indent(tree := ElementTree.ElementTree(as_xml(data)))
    encoded = io.BytesIO()
    tree.write(encoded, encoding="utf-8", xml_declaration=True)
    write_whole(path, encoded.getvalue())


def as_xml(data: ReportData) -> ElementTree.Element:
    """The verdicts as a ``testsuites`` element."""
    verdicts = data.verdicts
    cases = [_case(verdict, data) for verdict in verdicts.rules]
    cases += _run_itself(data)
    suite = ElementTree.Element(
        "testsuite",
        name=_clean(f"pulsar-conformance {verdicts.release or data.broker}"),
        tests=str(len(cases)),
        failures=str(sum(case.find("failure") is not None for case in cases)),
        errors=str(sum(case.find("error") is not None for case in cases)),
        skipped=str(sum(case.find("skipped") is not None for case in cases)),
        time=f"{verdicts.seconds:.3f}",
    )
    properties = ElementTree.SubElement(suite, "properties")
    values = {"seed": str(data.seed), "operations": str(verdicts.operations), **data.clients}
    if verdicts.load is not None:
        values["load"] = str(verdicts.load)
    for name, value in values.items():
        ElementTree.SubElement(properties, "property", name=_clean(name), value=_clean(value))
    suite.extend(cases)
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    return suites


def _case(verdict: RuleVerdict, data: ReportData) -> ElementTree.Element:
    case = ElementTree.Element(
        "testcase", classname=verdict.rule.family, name=verdict.rule.id, time=f"{seconds_of(verdict):.3f}"
    )
    match verdict:
        case Held() if verdict.rule.id in data.verdicts.stale:
            _child(case, "failure", "the list of known failures is stale: the rule held")
        case Violated() if verdict.rule.id in data.verdicts.excused:
            _child(case, "skipped", f"listed as a failure of the client: {diagnosis(verdict, data)}")
        case Held():
            excused = f", excused {verdict.excused} times" if verdict.excused else ""
            output = f"{title(verdict.rule)}\nheld, exercised {verdict.exercised} times{excused}"
            ElementTree.SubElement(case, "system-out").text = _clean(output)
        case Violated():
            failure = _child(case, "failure", diagnosis(verdict, data))
            failure.text = _findings(verdict, data)
        case Suspected():
            _child(case, "skipped", f"suspected: {diagnosis(verdict, data)}")
            ElementTree.SubElement(case, "system-out").text = _findings(verdict, data)
        case Deviated():
            _child(case, "skipped", f"known deviation: {diagnosis(verdict, data)}")
        case NotExercised(why=why):
            _child(case, "skipped", f"not exercised: {why}")
        case NotDecidable(why=why):
            _child(case, "skipped", f"not decidable here: {why}")
        case ModelOnly():
            _child(case, "skipped", "decided by exploration of the model alone")
        case _:
            assert_never(verdict)
    return case


def _run_itself(data: ReportData) -> list[ElementTree.Element]:
    """A test case for the run, if it failed, was stopped or left rules open."""
    stopped = data.verdicts.stopped
    texts = [(each.sentence, f"{each.sentence}\n{each.log_tail}") for each in data.verdicts.harness_errors]
    texts += [] if stopped is None else [(stopped.sentence, stopped.sentence)]
    if open_ := [verdict.rule.id for verdict in data.verdicts.rules if leaves_open(verdict)]:
        sentence = f"The run did not decide {', '.join(open_)}."
        texts.append((sentence, sentence))
    if not texts:
        return []
    case = ElementTree.Element("testcase", classname="run", name="the run itself", time="0")
    error = _child(case, "error", texts[0][0])
    error.text = _clean("\n\n".join(text for _, text in texts))
    return [case]


def _child(case: ElementTree.Element, name: str, message: str) -> ElementTree.Element:
    return ElementTree.SubElement(case, name, message=_clean(message))


def _findings(verdict: Contradicted, data: ReportData) -> str:
    crashes = (f"After {crash.at_s:.0f} s: {crash.sentence}\n{crash.log_tail}" for crash in verdict.crashes)
    findings = (_words(reported) for reported in data.findings[verdict.rule.id])
    return _clean("\n\n".join([title(verdict.rule), *crashes, *findings]))


def _words(reported: ReportedFinding) -> str:
    violation = reported.finding.violation
    steps = [str(step) for step in cut(reported.steps, at_most=STEPS_AT_MOST)]
    problem = [] if reported.problem is None else [reported.problem]
    return "\n".join(
        [violation.because, *steps, *problem, *violation.evidence, reported.came_back, f"again: {reported.command}"]
    )


def _clean(text: str) -> str:
    """The text without characters that XML does not allow."""
    return printable(text)
