"""Tests of the suite itself, by room."""

import pytest

pytest.register_assert_rewrite("tests.brokers.contract")
