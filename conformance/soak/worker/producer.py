"""One producer of a soak: it sends in bursts, waits for the answers, closes now and then, and opens again.

On a deduplicated topic it is a source that replays. What was not answered when a producer ended is sent again before
anything new, in order and under the same sequence ids. Now and then it also sends again what was confirmed, except for
what is too large for an entry: known brokers store a part of that again, which stays with every subscription for ever.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Sequence
from typing import Final

from conformance.clients.driver.interface import UNLIMITED
from conformance.clients.handles import OfficialProducerHandle
from conformance.clients.outcomes import CLIENT_ERRORS, Receipt, SendOutcome
from conformance.soak.worker.context import OPERATION_TIMEOUT_S, Context
from conformance.soak.worker.payloads import payload_of
from conformance.wait import Deadline
from conformance.workers.client_plan import ProducerRole, TopicKind
from model.log import EARLIEST
from model.replication.tracked import REPLICATORS_ADD_BYTES

ANSWER_TIMEOUT_S: Final = 60.0
"""How long answers are waited for; then the producer is closed and opened again."""
GIVE_UP_S: Final = 180.0
"""How long a source tries to have everything confirmed in the quiesce phase."""
RETRY_S: Final = 0.5
BURST_AT_MOST: Final = 20
KEYS: Final = 50
REPEATED_AT_MOST: Final = 5
LARGE_FROM_BYTES: Final = 12_000
"""From this size on, a message has no room in an entry."""
NEARLY_FULL: Final = 0.003
"""The share of messages that are nearly as large as may be, where some are: so that replicators may skip them."""
HEADERS_BYTES: Final = 60
"""What pulsar-client needs for itself of the largest message size."""
SEND_TIMEOUT_S: Final = 30.0

Message = tuple[int, int, str | None]
"""Sequence id, size in bytes, key: all that a message follows from."""


class ProducerThread(threading.Thread):
    """Runs until the quiesce phase, and then until all is answered, or given up; then ``is_quiet``."""

    def __init__(self, plan: ProducerRole, context: Context) -> None:
        super().__init__(name=plan.name, daemon=True)
        self._plan = plan
        self._cluster = context.clients[plan.cluster]
        self._counters = context.counters
        self._quiesce = context.quiesce
        self._chance = random.Random(plan.seed)
        self._replays = plan.topic_kind.is_deduplicated
        self._next = 1
        self._unanswered: list[Message] = []
        self._confirmed: deque[Message] = deque(maxlen=REPEATED_AT_MOST)
        self._furthest = (EARLIEST, -1)
        self.is_ready = self.is_quiet = False
        self.failure: str | None = None

    def run(self) -> None:
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - it is reported, and ends the soak
            self.failure = f"the producer {self.name} failed: {type(error).__name__}: {error}"
        self.is_quiet = True

    def _work(self) -> None:
        give_up: Deadline | None = None
        while not self._quiesce.is_set() or self._unanswered:
            if self._quiesce.is_set():
                give_up = give_up or Deadline.after(GIVE_UP_S)
                if give_up.passed:
                    self._counters.add(unanswered=len(self._unanswered))
                    return
            producer = self._opened()
            if producer is not None:
                self._use(producer)

    def _opened(self) -> OfficialProducerHandle | None:
        plan, cluster = self._plan, self._cluster
        try:
            producer = OfficialProducerHandle(
                cluster.service,
                plan.topic,
                plan.name,
                timeout_s=OPERATION_TIMEOUT_S,
                client=cluster.client,
                send_timeout_s=UNLIMITED if self._replays else SEND_TIMEOUT_S,
                batching=plan.topic_kind is TopicKind.BATCHES,
                batch_delay_ms=5,
                batch_messages=10,
                chunking=plan.topic_kind.is_chunked,
                wrap=cluster.recorder.producer,
            )
        except CLIENT_ERRORS:  # the broker is away, or has not noticed that the last one is gone
            threading.Event().wait(RETRY_S)
            return None
        self._counters.add(reopened=self.is_ready)
        self.is_ready = True
        return producer

    def _use(self, producer: OfficialProducerHandle) -> None:
        is_answered = self._sent(producer, tuple(self._unanswered))
        for _ in range(self._chance.randint(10, 300)):
            if not is_answered or self._quiesce.is_set():
                break
            burst = self._burst()
            is_answered = self._sent(producer, burst)
            if is_answered and self._replays and self._chance.random() < 0.02:
                is_answered = self._sent(producer, tuple(self._confirmed))
            self._quiesce.wait(len(burst) / self._plan.messages_per_s)
        producer.close()

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

    def _sent(self, producer: OfficialProducerHandle, messages: Sequence[Message]) -> bool:
        """Send messages in order and wait for the answers; whether all of them were confirmed in time."""
        self._counters.add(sent=len(messages), waiting=len(messages))
        tickets = [
            producer.send(sequence_id, payload_of(self._plan.name, sequence_id, size_bytes), partition_key=key)
            for sequence_id, size_bytes, key in messages
        ]
        deadline = Deadline.after(ANSWER_TIMEOUT_S)
        outcomes = [ticket.wait(deadline.left_s) for ticket in tickets]
        self._counters.add(waiting=-len(messages))
        return self._count(messages, outcomes)

    def _count(self, messages: Sequence[Message], outcomes: Sequence[SendOutcome | None]) -> bool:
        receipts = [one for one in outcomes if isinstance(one, Receipt)]
        stored = [(one.position, one.batch_index) for one in receipts if one.position is not None]
        backwards = sum(later <= earlier for earlier, later in zip([self._furthest, *stored], stored, strict=False))
        self._furthest = max([self._furthest, *stored])
        pairs = list(zip(messages, outcomes, strict=True))
        lost = [message for message, outcome in pairs if not isinstance(outcome, Receipt)]
        self._counters.add(
            confirmed=len(stored),
            duplicates=len(receipts) - len(stored),
            backwards=backwards,
            unanswered=0 if self._replays else len(lost),
        )
        self._unanswered = lost if self._replays else []
        self._confirmed.extend(
            message for message, outcome in pairs if isinstance(outcome, Receipt) and message[1] < LARGE_FROM_BYTES
        )
        return not lost
