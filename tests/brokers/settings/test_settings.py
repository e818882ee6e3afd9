"""Tests of the settings that brokers are started with."""

from __future__ import annotations

import pytest

from conformance.brokers.settings import NEAR, QUICK, STEADY, suite_settings


def test_every_setting_is_in_one_table_with_a_reason() -> None:
    tables = (QUICK, NEAR, STEADY)
    assert len(suite_settings({})) == sum(map(len, tables)) + len({"nettyMaxFrameSizeBytes"})
    assert all(setting.why for table in tables for setting in table.values())


def test_the_users_settings_replace_and_extend_those_of_the_suite() -> None:
    settings = suite_settings({"managedLedgerMaxEntriesPerLedger": "9", "anything": "else"})
    assert settings["managedLedgerMaxEntriesPerLedger"] == "9"
    assert settings["anything"] == "else"
    assert suite_settings({})["managedLedgerMaxEntriesPerLedger"] == "5"


@pytest.mark.parametrize(
    ("overrides", "frame_bytes"),
    [
        ({}, 5_253_120),
        ({"maxMessageSize": "5242880"}, 5_253_120),
        ({"maxMessageSize": "10485760"}, 10_485_760 + 10_240),
        ({"maxMessageSize": "10485760", "nettyMaxFrameSizeBytes": "1"}, 1),
    ],
)
def test_the_bookie_accepts_every_message_that_the_broker_accepts(overrides: dict[str, str], frame_bytes: int) -> None:
    assert suite_settings(overrides)["nettyMaxFrameSizeBytes"] == str(frame_bytes)
