"""The immutable map: changes are copies, and nothing changes the map itself."""

from __future__ import annotations

import contextlib
import pickle

import pytest

from model.immutable.map import Map

NUMBERS = Map({"a": 1, "b": 2})


def test_a_change_leaves_the_map_as_it_was() -> None:
    changed = NUMBERS.set("c", 3).delete("a").updated({"b": 4})
    assert dict(changed) == {"b": 4, "c": 3}
    assert dict(NUMBERS) == {"a": 1, "b": 2}
    assert {type(NUMBERS.set("c", 3)), type(changed)} == {Map}


@pytest.mark.parametrize("name", sorted(name for name in set(dir(dict)) - set(dir(Map({}).keys())) if name in dir(Map)))
def test_every_method_that_changes_a_dict_is_refused_or_changes_nothing(name: str) -> None:
    numbers = Map({"a": 1, "b": 2})
    for arguments in ((), ("a",), ("a", 3), ({"a": 3},)):
        with contextlib.suppress(TypeError, KeyError):
            getattr(numbers, name)(*arguments)
        assert dict(numbers) == {"a": 1, "b": 2}, name


def test_equal_maps_have_equal_hashes_whatever_the_order_of_their_items() -> None:
    assert Map([("b", 2), ("a", 1)]) == NUMBERS
    assert hash(Map([("b", 2), ("a", 1)])) == hash(NUMBERS)


def test_a_pickled_map_comes_back() -> None:
    assert pickle.loads(pickle.dumps(NUMBERS)) == NUMBERS
