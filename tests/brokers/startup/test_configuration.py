"""Tests of writing a release's configuration file."""

from __future__ import annotations

from conformance.brokers.startup.configuration import configured


def test_a_setting_replaces_the_shipped_value() -> None:
    assert configured("a=1\nb=2\n", {"a": "3"}).split() == ["b=2", "###", "Set", "by", "pulsar-conformance", "a=3"]


def test_every_name_occurs_once_whatever_the_shipped_file_has() -> None:
    text = configured("journalMaxGroupWaitMSec = 1\n  journalMaxGroupWaitMSec=2\n", {"journalMaxGroupWaitMSec": "0"})
    assert [line for line in text.splitlines() if "journal" in line] == ["journalMaxGroupWaitMSec=0"]


def test_comments_and_names_with_the_same_prefix_are_kept() -> None:
    text = configured("# a=1\n#a=1\na2=1\n", {"a": "3"})
    assert text.splitlines()[:3] == ["# a=1", "#a=1", "a2=1"]


def test_a_last_line_without_a_newline_is_kept_intact() -> None:
    assert configured("last=1", {"a": "3"}).splitlines()[0] == "last=1"
