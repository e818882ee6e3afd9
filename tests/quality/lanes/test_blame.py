"""Seeded defects that only the topics of one lane have."""

from __future__ import annotations

import pytest

from conformance.faults.byteman import rule_names
from tests.quality.lanes.blame import SAMPLE, chosen, limited


def test_each_defect_of_the_sample_can_be_limited_to_the_topics_of_a_lane() -> None:
    assert [defect.name for defect in chosen(())] == sorted(SAMPLE)
    assert len(SAMPLE) >= 20
    for defect in chosen(()):
        there = limited(defect, 3)
        assert rule_names(there.text) == rule_names(defect.text)
        assert there.text.count('.contains("/lane-3-")\nDO') == defect.text.count("\nRULE")


def test_a_defect_in_code_that_does_not_know_the_topic_cannot_be_limited() -> None:
    (hidden,) = chosen(["hash-with-two-consumers"])
    with pytest.raises(ValueError, match="ConsistentHashingStickyKeyConsumerSelector"):
        limited(hidden, 1)
