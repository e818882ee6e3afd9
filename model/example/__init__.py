"""One example with all its topics: :mod:`model.example.judge` judges it by the documents alone."""

from model.example.state import Example, Judgement

__all__ = ["Example", "Judgement"]
