"""The acknowledged messages of a subscription: a mark-delete position, and bits for the positions after it (ACK-01).

As in document 003 there is a bit set for each ledger. It consists of words of a fixed number of entries, so the cost of
a change or a comparison does not grow with their number, unless two states are equal. Single messages of a batch can be
acknowledged; the entry is acknowledged when all are. Values are immutable: an ack gives another state, which shares its
unchanged parts with the former one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from model.cursors.bits import Bits
from model.cursors.log import Place, TopicLog
from model.log import EARLIEST, Position
from model.rules.catalogue import carries

WORD = 256
"""The number of entries in one word."""

Word = tuple[int, int]
"""The key of a word: the ledger, and the number of its first entry divided by ``WORD``."""


def _word(position: Position) -> tuple[Word, int]:
    number, bit = divmod(position.entry, WORD)
    return (position.ledger, number), 1 << bit


def all_bits(log: TopicLog, position: Position) -> int:
    """The bits of all messages of an entry."""
    return (1 << log.size(position)) - 1


@dataclass(frozen=True, slots=True)
class Acked:
    """A subscription's state. ``mark_delete``: an entry of the log, or before all of them. ``parts``: the acknowledged
    messages of partly acknowledged entries, bit n for the n-th message."""

    mark_delete: Position = EARLIEST
    words: Bits[Word] = Bits()
    parts: Bits[Position] = Bits()

    def has(self, position: Position) -> bool:
        """Whether a whole entry is acknowledged."""
        if position <= self.mark_delete:
            return True
        word, bit = _word(position)
        return bool(self.words[word] & bit)

    def has_message(self, place: Place) -> bool:
        """Whether a message is acknowledged."""
        if self.has(place.position):
            return True
        return place.batch_index >= 0 and bool(self.parts[place.position] >> place.batch_index & 1)

    def beyond(self) -> list[Position]:
        """The entries acknowledged individually, in order."""
        return [
            Position(ledger, number * WORD + bit)
            for (ledger, number), bits in sorted(self.words.items())
            for bit in range(bits.bit_length())
            if bits >> bit & 1
        ]

    def unacknowledged(self, log: TopicLog) -> Iterator[Position]:
        """The entries of the log that are not, or only partly, acknowledged, in order."""
        return (position for position in log.all_after(self.mark_delete) if not self.has(position))

    def count_left(self, log: TopicLog) -> int:
        """How many entries of the log are not, or only partly, acknowledged."""
        return log.count_after(self.mark_delete) - sum(bits.bit_count() for _, bits in self.words.items())

    def with_parts_of_first(self, log: TopicLog) -> Acked:
        """The state where of each partly acknowledged entry those messages are left that are left of the first one.

        It takes entries of up to 64 messages, one word of the broker's bit set.
        """
        (first, acknowledged), *others = sorted(self.parts.items())
        left = ~acknowledged & all_bits(log, first)
        return replace(self, parts=self.parts.put((at, ~left & all_bits(log, at)) for at, _ in others))

    def messages_left(self, log: TopicLog) -> Iterator[Place]:
        """The messages of the log that are not acknowledged, in order."""
        for position in self.unacknowledged(log):
            yield from (place for place in log.places_at(position) if not self.has_message(place))


@carries("ACK-02", "ACK-03")
def acknowledge(state: Acked, log: TopicLog, position: Position) -> Acked:
    """A whole entry is acknowledged. Mark-delete advances over all contiguous entries, across ledgers.

    A repeated ack changes nothing, and the order of acks makes no difference.
    """
    if state.has(position):
        return state
    parts = state.parts.put([(position, 0)]) if position in state.parts else state.parts
    if log.after(state.mark_delete) != position:
        word, bit = _word(position)
        return replace(state, words=state.words.put([(word, state.words[word] | bit)]), parts=parts)
    return _advanced(replace(state, parts=parts), log, position)


def with_entries(state: Acked, log: TopicLog, positions: Iterable[Position]) -> Acked:
    """Many whole entries are acknowledged, none of them partly before. This is faster than one by one."""
    words = defaultdict[Word, int](int)
    for position in positions:
        if position > state.mark_delete:
            word, bit = _word(position)
            words[word] |= bit
    merged = state.words.put((word, state.words[word] | bits) for word, bits in words.items())
    return _advanced(replace(state, words=merged), log, state.mark_delete)


def without_entries(state: Acked, positions: Iterable[Position]) -> Acked:
    """The state without these individual acks."""
    words: dict[Word, int] = {}
    for position in positions:
        word, bit = _word(position)
        words[word] = words.get(word, state.words[word]) & ~bit
    return replace(state, words=state.words.put(words.items()))


def _advanced(state: Acked, log: TopicLog, mark_delete: Position) -> Acked:
    """Mark-delete advances at least to here, and over the contiguous acknowledged entries after it."""
    changed: dict[Word, int] = {}
    while (following := log.after(mark_delete)) is not None:
        word, bit = _word(following)
        bits = changed.get(word, state.words[word])
        if not bits & bit:
            break
        changed[word] = bits & ~bit
        mark_delete = following
    return Acked(mark_delete, state.words.put(changed.items()), state.parts)


def acknowledge_message(state: Acked, log: TopicLog, place: Place) -> Acked:
    """A message is acknowledged, and its entry if it was the last unacknowledged message."""
    if place.batch_index < 0:
        return acknowledge(state, log, place.position)
    if state.has_message(place):
        return state
    bits = state.parts[place.position] | 1 << place.batch_index
    if bits == all_bits(log, place.position):
        return acknowledge(state, log, place.position)
    return replace(state, parts=state.parts.put([(place.position, bits)]))


def acknowledge_all(state: Acked, log: TopicLog, places: Iterable[Place]) -> Acked:
    for place in places:
        state = acknowledge_message(state, log, place)
    return state


@carries("ACK-04")
def acknowledge_up_to(state: Acked, log: TopicLog, place: Place) -> Acked:
    """Everything up to a message is acknowledged; of its batch, the messages before it and itself."""
    size = log.size(place.position)
    if 0 <= place.batch_index < size - 1:
        within = (Place(place.position, index) for index in range(place.batch_index + 1))
        return acknowledge_all(_up_to(state, log, log.at_or_before(_before(place.position))), log, within)
    return _up_to(state, log, place.position)


def overwritten(state: Acked, log: TopicLog, place: Place) -> Acked:
    """As :func:`acknowledge_up_to`, but other acks of that batch are lost."""
    if place.position <= state.mark_delete:
        return state
    after = _up_to(state, log, log.at_or_before(_before(place.position)))
    if after.has(place.position) or place.batch_index == log.size(place.position) - 1:
        return acknowledge_up_to(state, log, place)
    return replace(after, parts=after.parts.put([(place.position, (1 << place.batch_index + 1) - 1)]))


def _before(position: Position) -> Position:
    return Position(position.ledger, position.entry - 1)


def _up_to(state: Acked, log: TopicLog, mark_delete: Position) -> Acked:
    if mark_delete <= state.mark_delete:
        return state
    return _advanced(_without(state, log, mark_delete), log, mark_delete)


def _without(state: Acked, log: TopicLog, mark_delete: Position) -> Acked:
    """The state without individual acks at or before a position."""
    last, bit = _word(mark_delete)
    gone = dict.fromkeys((word for word in _words(log, state.mark_delete, mark_delete) if word in state.words), 0)
    if last in gone:
        gone[last] = state.words[last] & ~((bit << 1) - 1)
    parts = [(position, 0) for position in state.parts if position <= mark_delete]
    return Acked(state.mark_delete, state.words.put(gone.items()), state.parts.put(parts))


def _words(log: TopicLog, behind: Position, last: Position) -> Iterator[Word]:
    """The words of the log with entries after ``behind``, up to ``last``."""
    for ledger in log.ledgers[bisect_left(log.ledgers, behind.ledger) : bisect_right(log.ledgers, last.ledger)]:
        first = max(0, behind.entry) if ledger == behind.ledger else 0
        end = last.entry if ledger == last.ledger else log.counts[ledger] - 1
        yield from ((ledger, number) for number in range(first // WORD, end // WORD + 1))


def found_by_search(state: Acked, log: TopicLog, up_to: Position) -> Position | None:
    """The result of the broker's binary search for the newest entry up to a position; None if there is none.

    It reads the first entry, then the last one, then entries in between. If everything from a probe on is acknowledged,
    it takes the probe for the end of the topic. A log with markers may end with acknowledged ones, which it lacks.
    """
    entries = list(log.all_after(state.mark_delete))
    if not entries or entries[0] > up_to:
        return None
    if log.has_markers:
        return entries[0]
    last_left = max(number for number, position in enumerate(entries) if not state.has(position))
    found, highest, probe = 0, len(entries), len(entries) - 1
    while probe <= last_left and found < highest:
        if entries[probe] <= up_to:
            found = probe
        else:
            highest = probe - 1
        probe = found + max((highest - found) // 2, 1)
    return entries[found]


def everything(log: TopicLog) -> Acked:
    """The state in which the whole log is acknowledged."""
    return Acked(log.last)


def set_to(log: TopicLog, position: Position | None) -> Acked:
    """The state in which an entry is the next one (None: the first of the log), and no later one is acknowledged."""
    return Acked() if position is None else Acked(log.at_or_before(_before(position)))


def skip(state: Acked, log: TopicLog, count: int) -> Acked:
    """Skips the next ``count`` unacknowledged entries. Mark-delete is at least at the last of them."""
    last = _nth_unacknowledged(state, log, count)
    return state if last is None else _up_to(state, log, last)


def skip_before_last_ledger(state: Acked, log: TopicLog, count: int) -> Acked:
    """The same without the last ledger: the skip ends at the end of the ledger before it."""
    last = _nth_unacknowledged(state, log, count)
    if last is None or last.ledger != log.last.ledger:
        return skip(state, log, count)
    return _up_to(state, log, log.before_last_ledger)


def skip_starting_over(state: Acked, log: TopicLog, count: int) -> Acked:
    """The same, but a skip past the end of the log starts over with the last ledger, as often as that takes."""
    left = sum(1 for _ in state.unacknowledged(log))
    if count <= left or not log.ledgers:
        return skip(state, log, count)
    entry = (count - left - 1) % log.counts[log.last.ledger]
    return _up_to(state, log, Position(log.last.ledger, entry))


def nth_by_first_ranges(state: Acked, log: TopicLog, nth: int) -> list[Position]:
    """What a broker takes for the ``nth`` unacknowledged entry if it allows only for the first acknowledged ranges.

    One position for each number of ranges: one or more, but not all of those before the entry.
    """
    entries = list(log.all_after(state.mark_delete))
    in_ranges, left, acknowledged = [0], 0, 0
    for position in entries:
        if state.has(position):
            acknowledged += 1
            continue
        if acknowledged > in_ranges[-1]:
            in_ranges.append(acknowledged)
        left += 1
        if left == nth:
            break
    return [entries[nth + counted - 1] for counted in in_ranges[1:-1] if nth + counted <= len(entries)]


def nth_by_all_ranges(state: Acked, log: TopicLog, nth: int) -> list[Position]:
    """The same if it allows for all acknowledged ranges of the log, also those after the entry.

    None, unless a range is before the entry.
    """
    last = _nth_unacknowledged(state, log, nth)
    entries = list(log.all_after(state.mark_delete))
    acknowledged = [position for position in entries if state.has(position)]
    if last is None or not acknowledged or acknowledged[0] > last:
        return []
    return [entries[min(nth + len(acknowledged), len(entries)) - 1]]


def _nth_unacknowledged(state: Acked, log: TopicLog, count: int) -> Position | None:
    """The last of the next ``count`` unacknowledged entries; None if there are none."""
    last = None
    for position, _ in zip(state.unacknowledged(log), range(count), strict=False):
        last = position
    return last
