"""Failpoints: faults inside a running broker, on one topic, the next so many times; an entry of data each.

An entry says what the broker then does; reports and ``docs/reference/defects.md`` quote it. How a failpoint is injected is a rule
file of ``conformance/faults/rules``, and what the broker ought to do is for the model to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct

FailpointKind = Literal[
    "write-fails",
    "write-fails-late",
    "write-slow",
    "snapshot-write-fails",
    "snapshot-slow",
    "confirmation-lost",
    "ledger-close-slow",
    "ledger-list-slow",
    "replay-slow",
    "read-slow",
    "dispatch-slow",
    "join-slow",
    "leave-slow",
]
"""The failpoints that a history can set."""

AnyFailpoint = FailpointKind | Literal["crash-before-confirmation", "producers-purged"]


class Failpoint(Struct, frozen=True, kw_only=True):
    """One failpoint. ``rules``: the rule file that injects it, where that is not of its own name.

    ``has_delay``: it takes a delay in milliseconds. ``can_spare``: it may let so many entries pass first.
    """

    statement: str
    details: str
    rules: AnyFailpoint | None = None
    has_delay: bool = False
    can_spare: bool = False
    fails_writes: bool = False
    cuts_connections: bool = False
    is_race: bool = False
    """Calls race one another in a Key_Shared subscription (KEY-10)."""


FAILPOINTS: Final[Mapping[AnyFailpoint, Failpoint]] = {
    "write-fails": Failpoint(
        statement="a write fails before anything is stored",
        details="Writes after it fail too until the broker has recovered. It refuses every send while writes are in flight, then disconnects the topic's producers.",
        can_spare=True,
        fails_writes=True,
    ),
    "write-fails-late": Failpoint(
        statement="a write fails late",
        details="As `write-fails`, after the delay in flight. It replaces a `write-fails` on the same topic.",
        rules="write-fails",
        has_delay=True,
        can_spare=True,
        fails_writes=True,
    ),
    "write-slow": Failpoint(
        statement="an entry is stored, but its write completes late",
        details="Writes complete in order: later entries wait for a slow one.",
        has_delay=True,
    ),
    "snapshot-write-fails": Failpoint(
        statement="a deduplication snapshot cannot be written",
        details="A cursor's first snapshot is always persisted, later ones as often as `managedLedgerDefaultMarkDeleteRateLimit` allows.",
    ),
    "snapshot-slow": Failpoint(
        statement="a deduplication snapshot is taken, but written late",
        details="Its position and sequence ids are those of the time when it was taken.",
        has_delay=True,
    ),
    "crash-before-confirmation": Failpoint(
        statement="an entry is stored, and the broker crashes before it sends the receipt",
        details="As by SIGKILL, with the last of so many entries. Its marks are gone with the process.",
    ),
    "producers-purged": Failpoint(
        statement="minutes pass at once for deduplication, which then purges inactive producers",
        details="Deduplication of the topic takes the time to be so much later. It purges when internal stats are read next.",
    ),
    "confirmation-lost": Failpoint(
        statement="an entry is stored, but its receipt is lost with the connection",
        details="Deduplication has recorded the entry.",
        cuts_connections=True,
    ),
    "ledger-close-slow": Failpoint(
        statement="a full ledger closes late",
        details="Its last entry is stored, readable and confirmed for the ledger. The producer and deduplication learn of it after the close.",
        has_delay=True,
    ),
    "ledger-list-slow": Failpoint(
        statement="a change of a topic's list of ledgers is stored late",
        details="It changes the version of the list that the broker had at first. The ledger that follows a full one opens only then.",
        has_delay=True,
    ),
    "replay-slow": Failpoint(
        statement="entries that recovery reads reach deduplication late",
        details="If the broker starts a second recovery beside the first, that one starts a quarter of the delay later.",
        has_delay=True,
    ),
    "read-slow": Failpoint(
        statement="entries that were read reach the dispatcher late",
        details="For Shared and Key_Shared subscriptions. Consumers are chosen after the delay, and may join and leave meanwhile.",
        has_delay=True,
        is_race=True,
    ),
    "dispatch-slow": Failpoint(
        statement="consumers are chosen for messages, which are dispatched late",
        details="For Key_Shared, before the messages become pending. The broker holds the dispatcher's lock: a consumer that joins or leaves waits for it.",
        has_delay=True,
        is_race=True,
    ),
    "join-slow": Failpoint(
        statement="hashes move to other consumers, but draining hashes are registered late",
        details="For Key_Shared from 4.0 on, when a consumer joins or leaves. Acks and nacks are processed meanwhile, messages are not dispatched. Connections on the same thread wait, too.",
        has_delay=True,
        is_race=True,
    ),
    "leave-slow": Failpoint(
        statement="a consumer leaves, but is removed late",
        details="Connections on the same thread wait, too.",
        has_delay=True,
        is_race=True,
    ),
}

WRITE_FAILURES: Final = frozenset(kind for kind, one in FAILPOINTS.items() if one.fails_writes)
CUTS: Final = frozenset(kind for kind, one in FAILPOINTS.items() if one.cuts_connections)
RACES: Final = frozenset(kind for kind, one in FAILPOINTS.items() if one.is_race)
