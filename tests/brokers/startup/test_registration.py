"""Tests of detecting a bookie that keeps losing its registration."""

from __future__ import annotations

import pytest

from conformance.brokers.startup.registration import is_caught

LOST = b"INFO  ResourceLockImpl - Lock on resource /ledgers/available/h:1 was invalidated. state Valid\n"
OTHER = b"INFO  ResourceLockImpl - Acquired resource lock on /ledgers/available/h:1\n"


@pytest.mark.parametrize(("times", "caught"), [(0, False), (3, False), (10, True), (1000, True)])
def test_a_bookie_that_keeps_losing_its_registration_is_detected(times: int, caught: bool) -> None:
    assert is_caught((LOST + OTHER) * times + OTHER * 100) == caught
