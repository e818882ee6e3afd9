"""What a machine of document 004 plans: messages with keys, and who should be there; nothing that was answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise

from model.key_shared.hashing import keys_that_share_a_hash, keys_with_hashes_apart, sticky_hash
from model.key_shared.selectors import Ring, assignments_of, joined
from model.vocabulary import Entry, Message


def _at_a_boundary(*names: str) -> str:
    """A key whose hash ends a range of the first of these consumers, and is followed by one of the second."""
    ring = Ring()
    for name in names:
        ring = joined(ring, name, name=name)
    pairs = pairwise(assignments_of(ring))
    ends = {one.hashes.last for one, after in pairs if (one.consumer, after.consumer) == names[:2]}
    return next(key for key in map("k{}".format, count()) if sticky_hash(key.encode()) in ends)


SHARING = keys_that_share_a_hash(2)
"""Two keys of one hash: to a Key_Shared subscription they are one."""
BOUNDARY = _at_a_boundary("c1", "c2", "c3")
"""Where ranges overlap by one, this is in two of them."""
KEYS = (*SHARING, BOUNDARY, *keys_with_hashes_apart(5, avoid=[sticky_hash(SHARING[0].encode())]))
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
