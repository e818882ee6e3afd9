"""The verdicts as JUnit XML, for CI systems: one test case a rule.

A violation is a failure, with the history in words. What is only suspected, is a known deviation, was not exercised or
is not decided here is skipped, with the reason: the exit status says whether it fails the gate. HarnessError is an
error, in a test case of its own. The time of a test case is that of the examples that exercised its rule; they overlap.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import assert_never
from xml.etree import ElementTree

from conformance.report.account import Account, Story, because, title
from conformance.report.sentences.words import cut
from conformance.verdicts import (
    Deviated,
    Held,
    ModelOnly,
    NotDecidable,
    NotExercised,
    RuleVerdict,
    Suspected,
    Violated,
    seconds_of,
)

STEPS_AT_MOST = 200
"""How many steps of a history a failure tells."""

_NOT_XML = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")


def write(account: Account, path: Path) -> None:
    """Write the account of a run, replacing what is there."""
    ElementTree.indent(tree := ElementTree.ElementTree(as_xml(account)))
    tree.write(path, encoding="utf-8", xml_declaration=True)


def as_xml(account: Account) -> ElementTree.Element:
    """The account of a run as a ``testsuites`` element."""
    verdicts = account.verdicts
    cases = [_case(verdict, account) for verdict in verdicts.rules]
    if verdicts.harness_errors:
        cases.append(_harness_error(account))
    suite = ElementTree.Element(
        "testsuite",
        name=_clean(f"pulsar-conformance {verdicts.release or account.broker}"),
        tests=str(len(cases)),
        failures=str(sum(case.find("failure") is not None for case in cases)),
        errors=str(sum(case.find("error") is not None for case in cases)),
        skipped=str(sum(case.find("skipped") is not None for case in cases)),
        time=f"{verdicts.seconds:.3f}",
    )
    properties = ElementTree.SubElement(suite, "properties")
    told = {"seed": str(account.seed), "operations": str(verdicts.operations), **account.clients}
    for name, value in told.items():
        ElementTree.SubElement(properties, "property", name=name, value=value)
    suite.extend(cases)
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    return suites


def _case(verdict: RuleVerdict, account: Account) -> ElementTree.Element:
    case = ElementTree.Element(
        "testcase", classname=verdict.rule.family, name=verdict.rule.id, time=f"{seconds_of(verdict):.3f}"
    )
    match verdict:
        case Held():
            excused = f", excused {verdict.excused} times" if verdict.excused else ""
            held = f"{title(verdict.rule)}\nheld, exercised {verdict.exercised} times{excused}"
            ElementTree.SubElement(case, "system-out").text = _clean(held)
        case Violated():
            failure = _child(case, "failure", because(verdict, account))
            told = [title(verdict.rule), *(_words(story) for story in account.stories[verdict.rule.id])]
            failure.text = _clean("\n\n".join(told))
        case Suspected():
            _child(case, "skipped", f"suspected: {because(verdict, account)}")
            told = [title(verdict.rule), *(_words(story) for story in account.stories[verdict.rule.id])]
            ElementTree.SubElement(case, "system-out").text = _clean("\n\n".join(told))
        case Deviated():
            _child(case, "skipped", f"known deviation: {because(verdict, account)}")
        case NotExercised(why=why):
            _child(case, "skipped", f"not exercised: {why}")
        case NotDecidable(why=why):
            _child(case, "skipped", f"not decidable here: {why}")
        case ModelOnly():
            _child(case, "skipped", "decided by exploration of the model alone")
        case _:
            assert_never(verdict)
    return case


def _harness_error(account: Account) -> ElementTree.Element:
    case = ElementTree.Element("testcase", classname="run", name="the run itself", time="0")
    first, *_ = account.verdicts.harness_errors
    error = _child(case, "error", first.sentence)
    error.text = _clean("\n\n".join(f"{each.sentence}\n{each.log_tail}" for each in account.verdicts.harness_errors))
    return case


def _child(case: ElementTree.Element, name: str, message: str) -> ElementTree.Element:
    return ElementTree.SubElement(case, name, message=_clean(message))


def _words(story: Story) -> str:
    violation = story.finding.violation
    steps = [str(telling) for telling in cut(story.tellings, at_most=STEPS_AT_MOST)]
    problem = [] if story.problem is None else [story.problem]
    return "\n".join([violation.because, *steps, *problem, *violation.evidence, f"again: {story.command}"])


def _clean(text: str) -> str:
    """The text without what no XML document may hold."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
