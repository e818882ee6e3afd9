"""Small configurations whose every reachable state is explored, by document: for ``pulsar-conformance explore``."""

from __future__ import annotations

from typing import Any

from model.chunking.variants import VARIANTS as OF_CHUNKS
from model.cursors.variants import VARIANTS as OF_CURSORS
from model.deduplication.variants import VARIANTS as OF_DEDUP
from model.explorations import chunking, cursors, deduplication, key_shared, replication
from model.explorations.chunking import shared as chunking_shared
from model.explore import NamedExploration
from model.key_shared.variants import VARIANTS as OF_KEYS
from model.replication.variants import VARIANTS as OF_REPLICATION
from model.rules import names
from model.variants import NamedVariant

VARIANTS: tuple[NamedVariant[Any], ...] = (*OF_DEDUP, *OF_REPLICATION, *OF_CHUNKS, *OF_CURSORS, *OF_KEYS)
"""The variants of all documents that are explored."""

EXPLORED = (
    deduplication.EXPLORED,
    replication.EXPLORED,
    chunking.EXPLORED,
    chunking_shared.EXPLORED,
    cursors.EXPLORED,
    key_shared.EXPLORED,
)
"""The explorations, by reference."""


def explorations(variant: str | None = None) -> tuple[NamedExploration[Any, Any], ...]:
    """The explorations of all documents or, with a name, of that variant alone. Each has a method ``run``.

    Raises ValueError, with one sentence, for a name that no variant has.
    """
    if variant is None:
        return tuple(named for explored in EXPLORED for named in explored.of_document())
    found = tuple(
        explored.of_variant(named) for explored in EXPLORED for named in explored.variants if named.name == variant
    )
    if not found:
        known = [named.name for named in VARIANTS]
        raise ValueError(names.unknown("variant", variant, known, listed_by="pulsar-conformance explore --list"))
    return found
