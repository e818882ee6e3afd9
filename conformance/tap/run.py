"""A tap: a proxy that clients connect to, a thread that translates its events into a history, and the end.

The proxy's own thread only passes on commands and appends what it read to a queue of bounded length; the translating
thread writes files as the history grows. If it lags behind, the proxy waits, and with it the traffic: memory does not
grow. At the end the topics' logs and cursors are read back, if there is an admin API.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from conformance.clients.admin.client import Admin
from conformance.clients.security.service import Service
from conformance.clients.wire.client import WireClient
from conformance.harness_error import HarnessError
from conformance.history.about import About
from conformance.history.lane_recorder import LaneRecorder, now_ns
from conformance.history.recorded import Kind
from conformance.proxy.armed import ArmedFault
from conformance.proxy.events import Command, ConnectionOpened, Event
from conformance.proxy.faults import HoldFrames, Which
from conformance.proxy.proxy import Proxy
from conformance.tap.handles import FailedLook, TapTopic, TopicLook
from conformance.tap.looks import UNANSWERED, Looks, look_at
from conformance.tap.request import Named, TapCounts, TapRequest, TapResult
from conformance.tap.topics import Topics, full_name
from conformance.tap.wire_history import WireHistory
from conformance.topic_reader import read_back

MOST_HELD: Final = 100_000
"""How many subscriptions are awaited like that; of later ones an ack may come first."""
MOST_LAGGING: Final = 50_000
"""How many events may wait for the translating thread; then the traffic waits."""
PAUSE_S: Final = 0.002
IDLE_S: Final = 0.02
CONNECT_TIMEOUT_S: Final = 10.0
LANE: Final = "tap"

SETTINGS: Final = ("managedLedgerDefaultMarkDeleteRateLimit", "managedLedgerCursorPositionFlushSeconds")
"""The settings of the broker that a history records: until when a kill may undo an ack."""


class Tap:
    """Listens from its construction until :meth:`stop`; ``say`` gets sentences for people, on any thread."""

    def __init__(self, asked: TapRequest, *, say: Callable[[str], None]) -> None:
        """Raises :class:`HarnessError`: it cannot listen there, or the admin API does not answer."""
        self._asked = asked
        self._say = say
        self._about = None if asked.admin is None else _about(asked.admin)
        self._began_s = time.monotonic()
        self.counts = TapCounts()
        self._waiting: deque[Event | TopicLook | FailedLook] = deque()
        self._held: dict[str, list[ArmedFault]] = {}
        self._lock = threading.Lock()
        self._begun: set[tuple[str, str]] = set()
        self._is_ending = threading.Event()
        self._failure: BaseException | None = None
        self._recorder = LaneRecorder(asked.history, run=f"tap-{secrets.token_hex(4)}", lane=LANE, about=self._about)
        self._topics = Topics(self, look=self._request_look, settled=self._release, say=say)
        self._history = WireHistory(self._topics)
        self._proxy = Proxy(asked.service, record=self._take, host=asked.host, port=asked.port, with_contents=True)
        self._looks: Looks | None = None
        if asked.admin is not None:
            self._looks = Looks(asked.admin, self._waiting.append, carries=self._proxy.carries)
            self._looks.start()
        self._translating = threading.Thread(target=self._translate, name="tap", daemon=True)
        self._translating.start()

    @property
    def url(self) -> str:
        """What clients connect to."""
        return self._proxy.url

    def check(self) -> None:
        """Raises :class:`HarnessError` if it failed."""
        if isinstance(self._failure, HarnessError):
            raise self._failure
        if self._failure is not None:
            raise HarnessError(f"the tap failed: {self._failure!r}") from self._failure
        self._proxy.check()

    def stop(self) -> TapResult:
        """End all connections, and read the topics back; what is recorded is then complete.

        Raises :class:`HarnessError` if it failed, or the admin API does not answer any more.
        """
        seconds = time.monotonic() - self._began_s
        if self._looks is not None:
            self._looks.stop()
        self._look_once_more()
        try:
            self._proxy.stop()
        finally:
            self._is_ending.set()
            self._translating.join()
        self.check()
        topics = self._topics.by_name
        try:
            logged = self._read_back(topics) if self._asked.admin is not None else 0
        finally:
            self._recorder.close()
        return TapResult(
            counts=self.counts,
            seconds=seconds,
            topics=len(topics),
            logged=logged,
            release=None if self._about is None else self._about.release,
            not_judged=_not_judged(topics) if self._asked.admin is not None else {},
        )

    def record(self, kind: Kind, *, invoked_ns: int | None, completed_ns: int | None = None, **fields: Any) -> None:
        """Record an event of the history, on the translating thread."""
        counts = self.counts
        counts.events += 1
        if kind is Kind.SEND:
            counts.sent += 1
        elif kind is Kind.DISPATCH:
            counts.received += 1
        self._recorder.record(kind, invoked_ns=invoked_ns, completed_ns=completed_ns, **fields)

    # ------------------------------------------------------------------------------------------------------ its threads

    def _take(self, event: Event) -> None:
        """Take an event from the proxy, on its thread."""
        if self._looks is not None and isinstance(event, Command) and event.kind == "SUBSCRIBE":
            self._hold_acks(event)
        self._waiting.append(event)
        while len(self._waiting) > MOST_LAGGING and self._failure is None:
            time.sleep(PAUSE_S)
        if self._failure is not None:
            raise HarnessError("the tap cannot record any more")

    def _hold_acks(self, command: Command) -> None:
        """Hold the acks of a topic until it is known where a new subscription begins: an ack would move it.

        What was confirmed or dispatched before that goes on.
        """
        topic = full_name(command.topic or "")
        subscription = topic, command.subscription or ""
        if subscription not in self._begun and command.is_durable and len(self._begun) < MOST_HELD:
            self._begun.add(subscription)
            armed = self._proxy.inject(HoldFrames(which=Which(kind="ACK", topic=command.topic, count=None)))
            with self._lock:
                self._held.setdefault(topic, []).append(armed)

    def _release(self, topic: str) -> None:
        """Lift what holds acks of a topic, on another thread: the proxy's may wait for this one."""
        with self._lock:
            held = self._held.pop(topic, [])
        for fault in held:
            if self._looks is not None:
                self._looks.do(fault.lift)

    def _translate(self) -> None:
        try:
            while True:
                is_ending = self._is_ending.is_set()  # before it looks whether there is more
                self._translate_waiting()
                if is_ending and not self._waiting:
                    break
                self._is_ending.wait(IDLE_S)
            self._history.end(now_ns())
        except BaseException as error:  # noqa: BLE001 - check raises it on the caller's thread
            self._failure = error

    def _translate_waiting(self) -> None:
        waiting, take, counts = self._waiting, self._history.take, self.counts
        while waiting:
            event = waiting.popleft()
            if isinstance(event, ConnectionOpened):
                counts.connections += 1
            counts.lagging = len(waiting)
            take(event)

    def _request_look(self, topic: str) -> None:
        if self._looks is not None:
            self._looks.request(topic)

    # ---------------------------------------------------------------------------------------------------------- the end

    def _look_once_more(self) -> None:
        """Look at each topic while its consumers are connected: are there others? Did messages expire?"""
        if self._asked.admin is None:
            return
        with Admin(self._asked.admin) as admin:
            for name in tuple(self._topics.by_name):
                try:
                    self._waiting.append(look_at(admin, name, carries=self._proxy.carries))
                except UNANSWERED as error:
                    self._say(f"{name} cannot be read: {error}")

    def _read_back(self, topics: dict[str, TapTopic]) -> int:
        assert self._asked.admin is not None
        logged = 0
        client = WireClient.connect(self._asked.service, timeout_s=CONNECT_TIMEOUT_S)
        try:
            with Admin(self._asked.admin) as admin:
                for topic in topics.values():
                    try:
                        logged += self._read_back_one(client, admin, topic)
                    except HarnessError as error:
                        topic.trouble = f"its log could not be read back ({error})"
        finally:
            client.abort()
        return logged

    def _read_back_one(self, client: WireClient, admin: Admin, topic: TapTopic) -> int:
        begins = topic.begins
        if begins is None:
            topic.trouble = topic.trouble or "the admin API did not tell how it began"
        if begins is None or topic.trouble is not None:
            return 0
        look = look_at(admin, topic.name, carries=self._proxy.carries)
        if look.first is not None and (topic.first is None or look.first < topic.first):
            topic.not_deduplicated = "it had messages before the tap"
        if look.is_deduplicated and topic.not_deduplicated is not None:
            self._say(f"{topic.name}: whether it is deduplicated is not judged, because {topic.not_deduplicated}")
        is_certain = topic.not_deduplicated is None and look.is_deduplicated == begins.is_deduplicated
        self._recorder.record(
            Kind.TOPIC,
            topic=topic.name,
            deduplication=look.is_deduplicated if is_certain else None,
            replicated=look.is_replicated,
            invoked_ns=begins.invoked_ns,
        )
        judged = {name for name, one in topic.subscriptions.items() if one.begins is not None and one.trouble is None}
        return read_back(
            self._recorder, client, admin, topic.name, first_ledger=begins.first_ledger, subscriptions=judged
        )


def _about(admin_service: Service) -> About:
    """The release and settings of the broker. Raises HarnessError if the admin API does not answer."""
    with Admin(admin_service) as admin:
        release = admin.broker_version()
        try:
            configuration = admin.runtime_configuration()
        except UNANSWERED:  # the role may not read it
            configuration = {}
    return About(release=release, settings={name: configuration[name] for name in SETTINGS if name in configuration})


def _not_judged(topics: dict[str, TapTopic]) -> dict[Named, str]:
    """What is not judged as a whole, and why."""
    found: dict[Named, str] = {}
    for topic in topics.values():
        if topic.trouble is not None:
            found[topic.name, None] = topic.trouble
            continue
        for subscription in topic.subscriptions.values():
            if not subscription.is_durable:
                continue
            if subscription.trouble is not None:
                found[topic.name, subscription.name] = subscription.trouble
            elif subscription.begins is None:
                found[topic.name, subscription.name] = "the admin API did not tell how it began"
    return found
