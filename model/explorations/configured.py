"""Explorations of one reference by its configurations: those of the document, and a small one for each variant.

It does not depend on a document: a function returns the system of a configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from model.explore import Exploration, Label, NamedExploration, System, explore
from model.variants import NamedVariant

C = TypeVar("C", bound=Struct)
S = TypeVar("S", bound=Hashable)
L = TypeVar("L", bound=Label)


@dataclass(frozen=True, slots=True, kw_only=True)
class Configurations(Generic[C, S, L]):
    """Configurations of one reference, each with its description. A configuration has a field ``variant``.

    In ``holding`` every statement must hold. In ``given_up`` some do not, as the document says. Variants have
    a configuration that is small enough for a short counterexample: ``little``, or one of ``for_variants``, by name.
    """

    system: Callable[[C], System[S, L]]
    holding: Mapping[str, tuple[str, C]]
    given_up: Mapping[str, tuple[str, C]]
    variants: tuple[NamedVariant[Any], ...]
    little: C
    for_variants: Mapping[str, C]

    def run(self, setup: C) -> Exploration[S, L]:
        """Explore one configuration."""
        return explore(self.system(setup))

    def of_document(self) -> tuple[NamedExploration[S, L], ...]:
        """The explorations of the document itself."""
        return tuple(
            NamedExploration(name=name, what=what, must_hold=setups is self.holding, run=partial(self.run, setup))
            for setups in (self.holding, self.given_up)
            for name, (what, setup) in setups.items()
        )

    def of_variant(self, named: NamedVariant[Any]) -> NamedExploration[S, L]:
        """The exploration of a variant."""
        setup = replace(self.for_variants.get(named.name, self.little), variant=named.variant)
        return NamedExploration(name=named.name, what=named.what, must_hold=False, run=partial(self.run, setup))
