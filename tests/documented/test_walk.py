"""The walk of one operation: its files define what ARCHITECTURE.md says, with the names that it quotes.

That an operation really comes through them, one after the other, is shown on a broker, in
``tests/lockstep/test_walk_on_a_real_broker.py``.
"""

from __future__ import annotations

import pytest

from tests.documented.walk import HEADING, Stop, stops, walk


def test_the_walk_goes_through_twelve_files_at_most() -> None:
    files = [stop.file for stop in walk()]
    assert 10 <= len(files) <= 12
    assert len(set(files)) == len(files)


@pytest.mark.parametrize("stop", walk(), ids=lambda stop: f"{stop.file.name}-{stop.definition}")
def test_each_definition_is_in_its_file_and_uses_the_names_that_its_description_quotes(stop: Stop) -> None:
    assert stop.missing == []


def test_a_definition_or_a_name_that_is_not_there_is_noticed() -> None:
    rows = [f"| `tests/documented/walk.py` | `{name}` | Has `stops` and `gone` |\n" for name in ("walk", "Stop.run")]
    page = f"{HEADING}{rows[0]}{rows[1]}\n## More\n{rows[1]}"
    assert [stop.missing for stop in stops(page)] == [["gone"], ["Stop.run"]]
