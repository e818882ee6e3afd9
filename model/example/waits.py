"""The outcomes of waits that ended before something happened, and what that means for a rule that they break."""

from __future__ import annotations

from typing import TypeVar

from model.cluster_events import Lagging, ReplicatorStalled
from model.events import NotPersisted, PolicyIgnored, Starved, Stuck
from model.judgement import overdue
from model.vocabulary import Outcome

T = TypeVar("T")

InVain = Starved | Stuck | NotPersisted | PolicyIgnored | Lagging | ReplicatorStalled


def in_time(outcome: Outcome, judged: T) -> T:
    """The judgement on an outcome: after a wait in vain, a rule is broken by what did not happen in time."""
    return overdue(judged) if isinstance(outcome, InVain) else judged
