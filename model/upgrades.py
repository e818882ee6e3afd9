"""SERVE-15: every rule holds while brokers of two releases take topics over from each other.

What one release stored, the other one reads: the log, cursors and their acks, deduplication snapshots, policies. No
rule is judged otherwise after that, so this one has no check of its own. It is exercised by each step that checks a
rule after a broker of another release took a topic over. It is broken, together with the rule that breaks, if the
shortest history that breaks it still has such a takeover.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from model.events import TakenOver
from model.example.state import Example
from model.example.step import Step
from model.judgement import Allowed
from model.rules.catalogue import carries

OF_UPGRADES: Final = "SERVE-15"


@carries(OF_UPGRADES)
def throughout(before: Example, judged: Allowed[Example]) -> Allowed[Example]:
    """A step that checks a rule checks that it holds throughout an upgrade or rollback."""
    if not before.service.has_changed_release or not judged.exercised:
        return judged
    return judged.after(Allowed(None, (OF_UPGRADES,)))


def also_broken_by(steps: Iterable[Step]) -> tuple[str, ...]:
    """The rule of upgrades, if a broker of another release takes a topic over in a history that breaks a rule."""
    changes = any(isinstance(one.outcome, TakenOver) and one.outcome.is_of_other_release for one in steps)
    return (OF_UPGRADES,) if changes else ()
