"""One example judged, with all its topics: the whole model as a machine meets it."""

from model.example.explained import judge
from model.example.state import Example, Judgement

__all__ = ["Example", "Judgement", "judge"]
