"""The catalogue states the source of each rule."""

from __future__ import annotations

import re

import pytest

from model.rules.catalogue import CATALOGUE, DOCUMENTS
from model.rules.rule import Rule


@pytest.mark.parametrize("rule", CATALOGUE, ids=lambda rule: rule.id)
def test_every_rule_names_its_section_and_a_public_page(rule: Rule) -> None:
    document = DOCUMENTS[rule.document]
    assert rule.section
    assert document.title
    assert document.pages


def test_every_public_page_belongs_to_pulsar() -> None:
    ours = re.compile(r"https://(pulsar\.apache\.org/docs/|github\.com/apache/pulsar/blob/master/pip/pip-\d+\.md)")
    addresses = [page.address for document in DOCUMENTS.values() for page in document.pages]
    assert len(addresses) == len(set(addresses))
    assert all(ours.match(address) for address in addresses)


def test_each_document_refers_to_its_pip() -> None:
    pips = {number: re.findall(r"pip-(\d+)", str(document.pages)) for number, document in DOCUMENTS.items()}
    assert pips == {"000": ["6"], "001": ["33"], "002": ["37"], "003": [], "004": ["379"], "service": []}
