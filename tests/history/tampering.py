"""Changes a JSON document anywhere, as a file that somebody wrote by hand may differ from a right one."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

ODD: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from([None, True, -1, 0, 1, 2**31, 2**63, 2**70, -(2**70), 1e300, "", "s1", "t0", "c0", "\n", [], {}]),
    st.sampled_from(["a" * 300, "../x", "\x00", "\ud7ff", "<script>", ">=4", "==4.0.8", -1e308, "/"]),
    st.lists(st.integers(-2, 3), max_size=3),
)


def tamper(raw: Any, data: st.DataObject) -> None:
    """Change one place anywhere in a document: another value, one less, one twice."""
    place: Any = raw
    parent: Any = None
    key: Any = None
    while isinstance(place, dict | list) and place and (parent is None or data.draw(st.integers(0, 9))):
        parent = place
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        place = parent[key]
    assert parent is not None
    match data.draw(st.sampled_from(("other", "other", "gone", "empty", "twice"))):
        case "gone":
            del parent[key]
        case "empty" if isinstance(place, list | dict):
            parent[key] = type(place)()
        case "twice" if isinstance(parent, list):
            parent.insert(key, copy.deepcopy(place))
        case _:
            parent[key] = data.draw(ODD)
