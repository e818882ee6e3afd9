"""One producer of a soak: it sends in bursts, waits for the answers, is closed now and then, and comes back.

On a deduplicated topic it is a source that replays: what was not answered when a producer ended is sent again, in order
and under the same sequence ids, before anything new, and now and then it sends again what was confirmed; but not what
was too large for an entry, of which known brokers store a part again that stays with every subscription for ever.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import pulsar

from conformance.recorder import RecordedProducer
from conformance.soak.payloads import payload_of
from conformance.soak.plan import Produce, TopicKind
from conformance.soak.seat import Seat
from conformance.soak.tally import Tally
from model.replication.tracked import REPLICATORS_ADD_BYTES

ANSWER_TIMEOUT_S: Final = 60.0
"""How long answers are waited for; then the producer is closed, and comes back."""
GIVE_UP_S: Final = 180.0
"""How long a source tries to have everything confirmed once nothing new is to be sent."""
RETRY_S: Final = 0.5
BURST_AT_MOST: Final = 20
KEYS: Final = 50
REPEATED_AT_MOST: Final = 5
LARGE_FROM_BYTES: Final = 12_000
"""What is as large as that has no room in an entry."""
NEARLY_FULL: Final = 0.003
"""How many messages are nearly as large as may be, where some are: so that replicators may pass over them."""
HEADERS_BYTES: Final = 60
"""What pulsar-client needs for itself of how large a message may be."""
_SEND_TIMEOUT_MS: Final = 30_000

Message = tuple[int, int, str | None]
"""Sequence id, size in bytes, key: all that a message follows from."""


class Producing(threading.Thread):
    """Runs until ``healing`` is set and all is answered, or given up; then ``is_quiet``."""

    def __init__(self, plan: Produce, seat: Seat, tally: Tally, *, healing: threading.Event) -> None:
        super().__init__(name=plan.name, daemon=True)
        self._plan = plan
        self._seat = seat
        self._tally = tally
        self._healing = healing
        self._chance = random.Random(plan.seed)
        self._replays = plan.topic_kind.is_deduplicated
        self._next = 1
        self._unanswered: list[Message] = []
        self._confirmed: deque[Message] = deque(maxlen=REPEATED_AT_MOST)
        self._furthest = (-1, -1, -1)
        self.is_open = threading.Event()
        self.is_quiet = False
        self.failure: str | None = None

    @property
    def is_ready(self) -> bool:
        """Whether it is open, or has been."""
        return self.is_open.is_set()

    def run(self) -> None:
        """Send."""
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - it is told, and ends the soak
            self.failure = f"the producer {self.name} failed: {type(error).__name__}: {error}"
        self.is_quiet = True

    def _work(self) -> None:
        give_up_at_s: float | None = None
        while not self._healing.is_set() or self._unanswered:
            if self._healing.is_set():
                give_up_at_s = give_up_at_s or time.monotonic() + GIVE_UP_S
                if time.monotonic() > give_up_at_s:
                    self._tally.add(unanswered=len(self._unanswered))
                    return
            producer = self._opened()
            if producer is not None:
                self._use(producer)

    def _opened(self) -> RecordedProducer | None:
        plan = self._plan
        batching = plan.topic_kind is TopicKind.BATCHES
        try:
            producer = self._seat.client.create_producer(
                plan.topic,
                producer_name=plan.name,
                send_timeout_millis=0 if self._replays else _SEND_TIMEOUT_MS,
                batching_enabled=batching,
                batching_max_publish_delay_ms=5,
                batching_max_messages=10,
                chunking_enabled=plan.topic_kind.is_chunked,
            )
        except pulsar.PulsarException:  # away, or not yet aware that the one before is gone
            time.sleep(RETRY_S)
            return None
        self._tally.add(reopened=self.is_open.is_set())
        self.is_open.set()
        return self._seat.recorder.producer(producer)

    def _use(self, producer: RecordedProducer) -> None:
        is_answered = self._sent(producer, tuple(self._unanswered))
        for _ in range(self._chance.randint(10, 300)):
            if not is_answered or self._healing.is_set():
                break
            burst = self._burst()
            is_answered = self._sent(producer, burst)
            if is_answered and self._replays and self._chance.random() < 0.02:
                is_answered = self._sent(producer, tuple(self._confirmed))
            self._healing.wait(len(burst) / self._plan.messages_per_s)
        try:
            producer.close()
        except pulsar.PulsarException:
            return  # it was gone already

    def _burst(self) -> tuple[Message, ...]:
        count = self._chance.randint(1, BURST_AT_MOST)
        return tuple(self._message() for _ in range(count))

    def _message(self) -> Message:
        sequence_id = self._next
        self._next += self._chance.choice((1, 1, 1, 3))  # rising, not necessarily by one
        key = f"k{self._chance.randrange(KEYS)}" if self._plan.topic_kind.has_keys else None
        return sequence_id, self._size_bytes(), key

    def _size_bytes(self) -> int:
        if self._plan.topic_kind.is_chunked and self._chance.random() < 0.2:
            return self._chance.randint(LARGE_FROM_BYTES, 40_000)
        if self._plan.largest_bytes and self._chance.random() < NEARLY_FULL:
            room_bytes = self._chance.randint(HEADERS_BYTES, REPLICATORS_ADD_BYTES)
            return self._plan.largest_bytes - room_bytes
        return self._chance.randint(30, 300)

    def _sent(self, producer: RecordedProducer, messages: Sequence[Message]) -> bool:
        """Send messages in order and wait for the answers; whether all came in time and said that it is stored."""
        answers = _Answers(len(messages))
        self._tally.add(sent=len(messages), waiting=len(messages))
        for sequence_id, size_bytes, key in messages:
            producer.send_async(
                payload_of(self._plan.name, sequence_id, size_bytes),
                answers.callback(sequence_id),
                sequence_id=sequence_id,
                partition_key=key,
            )
        answers.wait(ANSWER_TIMEOUT_S)
        told = answers.told()
        self._tally.add(waiting=-len(messages))
        return self._judge(messages, told)

    def _judge(self, messages: Sequence[Message], told: dict[int, Any]) -> bool:
        confirmed = [one for one in messages if told.get(one[0]) is not None]
        places = [told[one[0]] for one in confirmed]
        stored = [place for place in places if place[0] >= 0]
        backwards = sum(later <= earlier for earlier, later in zip([self._furthest, *stored], stored, strict=False))
        self._furthest = max([self._furthest, *stored])
        lost = [one for one in messages if told.get(one[0]) is None]
        self._tally.add(
            confirmed=len(stored),
            duplicates=len(places) - len(stored),
            backwards=backwards,
            unanswered=0 if self._replays else len(lost),
        )
        self._unanswered = lost if self._replays else []
        self._confirmed.extend(one for one in confirmed if one[1] < LARGE_FROM_BYTES)
        return not lost


class _Answers:
    """Waits for the answers to some sends; ``callback`` is called on the client's thread."""

    def __init__(self, count: int) -> None:
        self._left = count
        self._told: dict[int, tuple[int, int, int] | None] = {}
        self._changed = threading.Condition()

    def callback(self, sequence_id: int) -> Any:
        """What takes the answer to the send of this id."""

        def take(result: Any, message_id: Any) -> None:
            place = None
            if result == pulsar.Result.Ok:
                place = message_id.ledger_id(), message_id.entry_id(), message_id.batch_index()
            with self._changed:
                self._told[sequence_id] = place
                self._left -= 1
                self._changed.notify_all()

        return take

    def wait(self, timeout_s: float) -> None:
        """Return when all are there, or after that time."""
        with self._changed:
            self._changed.wait_for(lambda: self._left <= 0, timeout_s)

    def told(self) -> dict[int, tuple[int, int, int] | None]:
        """Ledger, entry and batch index (-1 throughout for a duplicate) by sequence id; None where it failed."""
        with self._changed:
            return dict(self._told)
