"""Small configurations whose every reachable state is explored, by document: for ``pulsar-conformance explore``."""

from __future__ import annotations

from model.explorations import dedup
from model.explorations.dedup_world import Step, World
from model.explore import NamedExploration
from model.variants import named


def explorations(variant: str | None = None) -> tuple[NamedExploration[World, Step], ...]:
    """What there is to explore: the documents, or, with a name, that variant alone; each is run by its ``run``.

    Raises ValueError, with one sentence, for a name that no variant has.
    """
    return dedup.of_document() if variant is None else (dedup.of_variant(named(variant)),)
