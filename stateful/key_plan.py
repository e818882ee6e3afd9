"""What a machine of document 004 plans: messages with keys, and who should be there; nothing that was answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from model.keys.hashing import keys_that_share_a_hash, keys_with_hashes_apart, sticky_hash
from model.operations import Entry, Message

SHARING = keys_that_share_a_hash(2)
"""Two keys of one hash: to a Key_Shared subscription they are one."""
KEYS = (*SHARING, *keys_with_hashes_apart(5, avoid=[sticky_hash(SHARING[0].encode())]))
"""The keys of all examples: few, so that each has several messages."""


@dataclass(frozen=True, slots=True)
class Pick:
    """How to choose one entry: the number of its first message's key (None: it has none), its size, and whether the
    others of a batch have other keys; ``by_ordering_key``: its key is another one, and the ordering key counts.
    """

    key: int | None = 0
    size: int = 1
    is_mixed: bool = False
    by_ordering_key: bool = False


@dataclass(slots=True)
class KeyPlan:
    """The plan of one example."""

    consumers: list[str] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    claims: dict[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    _names: int = 0
    _sequence_id: int = 0

    def fresh_name(self) -> str:
        """A consumer's name that was not used before."""
        self._names += 1
        return f"c{self._names}"

    def entries(self, picks: Sequence[Pick]) -> tuple[Entry, ...]:
        """New entries."""
        return tuple(self._entry(pick) for pick in picks)

    def _entry(self, pick: Pick) -> Entry:
        return Entry(tuple(self._message(pick, number) for number in range(pick.size)))

    def _message(self, pick: Pick, number: int) -> Message:
        self._sequence_id += 1
        self.sent.append(f"b{self._sequence_id}")
        if pick.key is None:
            return Message(self._sequence_id, self.sent[-1])
        key = KEYS[(pick.key + (number if pick.is_mixed else 0)) % len(KEYS)]
        if pick.by_ordering_key:
            return Message(self._sequence_id, self.sent[-1], key="any", ordering_key=key)
        return Message(self._sequence_id, self.sent[-1], key=key)
