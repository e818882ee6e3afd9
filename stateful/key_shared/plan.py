"""The plan of a machine of document 004: messages with keys, and its consumers, without the broker's answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise

from model.key_shared.hashes import STICKY_HASHES, keys_that_share_a_hash, keys_with_hashes_apart, sticky_hash
from model.key_shared.selectors import Ring, assignments_of, joined
from model.vocabulary import Entry, Message
from stateful.delays import Delays, delay_of


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


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

BOUNDS = tuple(sorted(sticky_hash(key.encode(), STICKY_HASHES) for key in KEYS))
"""The hashes of these keys where consumers claim ranges: a range ends at the hash of a key, or right before it."""

Claims = tuple[tuple[int, int], ...]
"""Hash ranges that a consumer claims for itself, ends included."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What a consumer asks for at its subscribe."""

    claims: Claims = ()
    out_of_order: bool = False

    @property
    def kind(self) -> tuple[bool, bool]:
        """What all consumers of a subscription have in common."""
        return bool(self.claims), self.out_of_order


@dataclass(frozen=True, slots=True)
class KeyedPick:
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
    policies: dict[str, Policy] = field(default_factory=dict)
    """Those of the connected consumers, if consumers differ in them."""
    delays: Delays = ()
    """Those of single messages."""
    _names: int = 0
    _sequence_id: int = 0

    def fresh_name(self) -> str:
        """A consumer's name that was not used before."""
        self._names += 1
        return f"c{self._names}"

    def may_join(self, policy: Policy) -> bool:
        """Whether a consumer with this policy fits the others: all claim ranges, or none does, and all want order, or
        none does.
        """
        if any(own.kind != policy.kind for own in self.policies.values()):
            return False
        taken = [one for own in self.policies.values() for one in own.claims]
        return not any(_overlap(one, other) for one in policy.claims for other in taken) and not any(
            _overlap(one, other) for one, other in pairwise(sorted(policy.claims))
        )

    def entries(self, picks: Sequence[KeyedPick]) -> tuple[Entry, ...]:
        """New entries."""
        return tuple(self._entry(pick) for pick in picks)

    def _entry(self, pick: KeyedPick) -> Entry:
        return Entry(tuple(self._message(pick, number) for number in range(pick.size)))

    def _message(self, pick: KeyedPick, number: int) -> Message:
        self._sequence_id += 1
        self.sent.append(f"b{self._sequence_id}")
        key = None if pick.key is None else KEYS[(pick.key + (number if pick.is_mixed else 0)) % len(KEYS)]
        is_other = key is not None and pick.by_ordering_key
        return Message(
            self._sequence_id,
            self.sent[-1],
            key="any" if is_other else key,
            ordering_key=key if is_other else None,
            delay_ms=delay_of(self.delays, self._sequence_id, batch_size=pick.size),
        )
