"""What brokers answer while an operation is performed, where that is no outcome of it: errors, or nothing at all.

Whether there is a reason for it is for the model to say. A refusal because of who asks, and a request that a release
does not have, are harness errors: they say something of the run, not of the broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Final, TypeVar

from msgspec.structs import replace

from conformance.clients.admin.http import AdminError, topic_path
from conformance.clients.outcomes import ConnectionLost, NoAnswer, ServerRefused
from conformance.harness_error import HarnessError
from conformance.wait import Deadline, retry
from model.service.unexpected import INTERNAL_ERRORS, Closed, ErrorAnswer, Overdue, Silence, Unexpected

T = TypeVar("T")

LONGEST_REASON: Final = 400
"""How much of a broker's words is kept."""
_NO_SUCH_PATH: Final = (f"HTTP {HTTPStatus.NOT_FOUND}", f"HTTP {HTTPStatus.METHOD_NOT_ALLOWED}")
"""How a broker says that it has no such endpoint at all."""

BrokerError = AdminError | ServerRefused | ConnectionLost | NoAnswer
BROKER_ERRORS: Final = (AdminError, ServerRefused, ConnectionLost, NoAnswer)
"""What is raised for something that the broker did, or did not do."""


class LateForStats(HarnessError):
    """The broker's stats do not follow what was done (SERVE-04)."""


class LateToReturn(HarnessError):
    """What was closed does not come back (SERVE-02)."""


class LateToDeliver(HarnessError):
    """Messages do not arrive where they have to (SERVE-03)."""


LATE: Final = (LateForStats, LateToReturn, LateToDeliver)
"""What is raised where a broker does not do by itself, in time, what it has to."""


class Answers:
    """What happened in the operation that is being performed; ``topics``: the names of the history to the real ones."""

    def __init__(self, topics: Mapping[str, str]) -> None:
        self._topics = topics
        self._noticed: list[Unexpected] = []
        self._closed: set[tuple[str, str]] = set()

    def begin(self) -> None:
        """Another operation is performed."""
        self._noticed.clear()

    def take(self) -> tuple[Unexpected, ...]:
        """All that was noticed since, each once."""
        return tuple(dict.fromkeys(self._noticed))

    def on_admin_error(self, error: AdminError) -> None:
        """The admin API answered with an error, whatever is made of it: an internal one is no answer at any time."""
        if error.status == HTTPStatus.INTERNAL_SERVER_ERROR:
            self._noticed.append(self._admin_error(error, is_last=False))

    def notice_closed(self, closed: Iterable[tuple[str, str, str]]) -> None:
        """These are found to be closed: name, real topic, why. Each is noticed once."""
        for actor, topic, why in closed:
            if (actor, topic) not in self._closed:
                self._closed.add((actor, topic))
                self._noticed.append(Closed(actor, why, self._name_of(topic)))

    def opened(self, actor: str, topic: str) -> None:
        """A producer or consumer is open, maybe not for the first time."""
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
        """As :func:`conformance.wait.retry`, with the internal errors noticed that come before the last answer.

        ``what`` is requested, for the ``topic`` of that real name.
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
        """An operation ended with this error, although the broker is up. Raises it if it is a harness error."""
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
        for name, real in self._topics.items():
            if path.startswith(f"{topic_path(real)}/") or path == topic_path(real):
                rest = path.removeprefix(topic_path(real)).lstrip("/") or "the topic"
                request = f"{method} {rest} of topic {name}"
                return ErrorAnswer("admin", request, str(error.status), self._words(error.sentence), name, is_last)
        return ErrorAnswer("admin", error.request, str(error.status), self._words(error.sentence), None, is_last)

    def _name_of(self, topic: str | None) -> str | None:
        return next((name for name, real in self._topics.items() if real == topic), None)

    def _words(self, text: str) -> str:
        """The first line of what a broker says, with the names of the history."""
        lines = text.strip().splitlines() or ["no reason given"]
        said = lines[0].strip()[:LONGEST_REASON]
        for name, real in self._topics.items():
            said = said.replace(real, f"topic {name}").replace(topic_path(real), f"topic {name}")
        return said
