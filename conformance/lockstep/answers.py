"""The errors and missing answers of a broker during an operation that are not part of its outcome.

The model judges whether they are allowed. A 401 or 403, and a request that the release lacks, are harness errors: they
are about the run, not about the broker.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final, TypeVar

from msgspec.structs import replace

from conformance.brokers.interface import Broker
from conformance.clients.admin.http import AdminError, topic_path
from conformance.clients.outcomes import ConnectionLost, NoAnswer, ServerRefused
from conformance.clients.wire.consumer import Excess
from conformance.clients.wire.pump import SecondAnswer
from conformance.harness_error import HarnessError, NotReady
from conformance.wait import Deadline, retry
from model.operations import AnyOperation
from model.service.unexpected import (
    ANSWERED,
    INTERNAL_ERRORS,
    BeyondPermits,
    Closed,
    ErrorAnswer,
    Overdue,
    Silence,
    Unexpected,
)

T = TypeVar("T")

LONGEST_REASON: Final = 400
"""The longest part of an error message that is recorded."""
_NO_SUCH_PATH: Final = (f"HTTP {HTTPStatus.NOT_FOUND}", f"HTTP {HTTPStatus.METHOD_NOT_ALLOWED}")
"""The errors of a broker that lacks the endpoint."""

BROKER_ERRORS: Final = (AdminError, ServerRefused, ConnectionLost, NoAnswer)
"""The exceptions that are raised for an error or a missing answer of the broker."""


class LateForStats(HarnessError):
    """The broker's stats are not updated in time (SERVE-04)."""


class LateToReturn(HarnessError):
    """Something that was closed is not available again in time (SERVE-02)."""


class DidNotReturn(LateToReturn):
    """A broker that was killed or restarted does not run again (SERVE-02)."""


class EndedByItself(LateToReturn):
    """The process of a broker ended although nothing was done to it (SERVE-02)."""


class LateToDeliver(HarnessError):
    """Messages are not delivered in time (SERVE-03)."""


class OutOfTime(Exception):
    """There is no time left for an operation, or for the rest of it."""


@contextmanager
def expected_back() -> Iterator[None]:
    """Where a broker is started again, raise :class:`DidNotReturn` if it does not run afterwards."""
    try:
        yield
    except NotReady as not_ready:
        raise DidNotReturn(str(not_ready)) from not_ready


LATE: Final = (LateForStats, LateToReturn, LateToDeliver)
"""The exceptions that are raised where a broker misses a bound."""


class Ends:
    """Tells once that a broker's process has ended by itself; the next example cannot begin without it."""

    def __init__(self) -> None:
        self._is_told = False

    def told(self, broker: Broker) -> EndedByItself | None:
        """What to report once the process has ended by itself; None while it runs and after that was reported.

        Also None after SIGKILL, which no history repeats: the guardian reports it (:mod:`conformance.ended`).
        """
        status = None if self._is_told else broker.ended_with()
        if status is None or status == -signal.SIGKILL:
            return None
        self._is_told = True
        return EndedByItself(f"the broker's process ended by itself, with status {status}")


class Answers:
    """The unexpected answers of the current operation.

    ``topics`` maps a history's names to real ones. ``is_of_several``: the broker that answers is one of several.
    """

    def __init__(self, topics: Mapping[str, str], *, is_of_several: bool = False) -> None:
        self._topics = topics
        self._is_of_several = is_of_several
        self._noticed: list[Unexpected] = []
        self._closed: set[tuple[str, str]] = set()

    def begin(self) -> None:
        """Begin another operation."""
        self._noticed.clear()

    def take(self) -> tuple[Unexpected, ...]:
        """The unexpected answers since :meth:`begin`, without duplicates."""
        return tuple(dict.fromkeys(self._noticed))

    def on_admin_error(self, error: AdminError) -> None:
        """Record an internal error of the admin API, even if the request is retried."""
        if error.status == HTTPStatus.INTERNAL_SERVER_ERROR:
            self._noticed.append(self._admin_error(error, is_last=False))

    def notice_closed(self, closed: Iterable[tuple[str, str, str]]) -> None:
        """Record closed producers and consumers, each once: name, real topic, reason."""
        for actor, topic, why in closed:
            if (actor, topic) not in self._closed:
                self._closed.add((actor, topic))
                self._noticed.append(Closed(actor, why, self._name_of(topic)))

    def notice_excesses(self, excesses: Iterable[tuple[str, str, Excess]]) -> None:
        """Record what consumers were sent beyond their permits: name, real topic, excess."""
        for actor, topic, excess in excesses:
            self._noticed.append(BeyondPermits(actor, excess.permits, excess.entries, self._name_of(topic)))

    def notice_second(self, answers: Iterable[SecondAnswer]) -> None:
        """Record answers to requests that had been answered."""
        for request, code, message in answers:
            topic = next((name for name, real in self._topics.items() if real in request), None)
            what = f"{self._words(request)} {ANSWERED}"
            self._noticed.append(ErrorAnswer("binary", what, code, self._words(message), topic))

    def opened(self, actor: str, topic: str) -> None:
        """Let :meth:`notice_closed` report this producer or consumer again."""
        self._closed.discard((actor, topic))

    def retry(
        self,
        request: Callable[[], T],
        timeout: Deadline | float,
        *,
        what: str,
        topic: str | None,
        may_pass: Callable[[HarnessError], bool] = lambda error: error.may_pass,
    ) -> T:
        """As :func:`conformance.wait.retry`, and record the internal errors before the last answer.

        ``topic`` is the real name.
        """

        def is_worth_another_try(error: HarnessError) -> bool:
            if not may_pass(error):
                return False
            if isinstance(error, ServerRefused) and error.code in INTERNAL_ERRORS:
                words = self._words(error.message)
                self._noticed.append(ErrorAnswer("binary", what, error.code, words, self._name_of(topic), False))
            return True

        return retry(request, timeout, may_pass=is_worth_another_try)

    def gave_up(self, error: HarnessError, what: str, topic: str | None) -> None:
        """Record the error that ended an operation although the broker is up. Raises harness errors."""
        match error:
            case AdminError() if error.is_forbidden or error.reason.startswith(_NO_SUCH_PATH):
                raise error
            case AdminError():
                last = self._admin_error(error, is_last=True)
                self._noticed = [one for one in self._noticed if one != replace(last, is_last=False)]
                self._noticed.append(last)
            case ServerRefused(code=code, message=message):
                self._noticed.append(ErrorAnswer("binary", what, code, self._words(message), topic))
            case ConnectionLost(interface="binary"):
                if not any(isinstance(one, Closed) for one in self._noticed):
                    self._noticed.append(Closed(what, self._words(str(error)), topic))
            case ConnectionLost() | NoAnswer():
                self._noticed.append(Silence(error.interface, what, self._words(str(error)), topic))
            case LateForStats():
                self._noticed.append(Overdue("SERVE-04", self._words(str(error)), topic))
            case LateToDeliver():
                self._noticed.append(Overdue("SERVE-03", self._words(str(error)), topic))
            case LateToReturn():
                self._noticed.append(Overdue("SERVE-02", self._words(str(error)), topic))
            case _:
                raise error

    def _admin_error(self, error: AdminError, *, is_last: bool) -> ErrorAnswer:
        method, _, path = error.request.partition(" ")
        request, topic = error.request, None
        for name, real in self._topics.items():
            if path.startswith(f"{topic_path(real)}/") or path == topic_path(real):
                rest = path.removeprefix(topic_path(real)).lstrip("/") or "the topic"
                request, topic = f"{method} {rest} of topic {name}", name
                break
        message, is_of_several = self._words(error.sentence), self._is_of_several
        return ErrorAnswer("admin", request, str(error.status), message, topic, is_last, is_of_several)

    def _name_of(self, topic: str | None) -> str | None:
        return next((name for name, real in self._topics.items() if real == topic), None)

    def _words(self, text: str) -> str:
        """The first line of a broker's message, with the history's names."""
        lines = text.strip().splitlines() or ["no reason given"]
        line = lines[0].strip()[:LONGEST_REASON]
        for name, real in self._topics.items():
            line = line.replace(real, f"topic {name}").replace(topic_path(real), f"topic {name}")
        return line


def request_of(operation: AnyOperation) -> str:
    """A short name of an operation, for a report."""
    actor = "" if operation.actor is None else f" of {operation.actor}"
    return f"{type(operation).__name__}{actor}"


def may_be_repeated(error: HarnessError) -> bool:
    """Whether a request that changes nothing is worth another try: also after an internal error."""
    return error.may_pass or (isinstance(error, ServerRefused) and error.code in INTERNAL_ERRORS)
