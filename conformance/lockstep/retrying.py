"""What is asked once more: the broker only says that it is not ready yet, as while a topic is loaded."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from conformance.clients.admin.http import AdminError
from conformance.wait import Deadline

T = TypeVar("T")

RETRIABLE: Final = frozenset({"ServiceNotReady", "MetadataError", "PersistenceError", "TopicTemporaryError"})
"""Refusals of a producer or a consumer that only say: not yet."""
PAUSE_S: Final = 0.005


def retried(request: Callable[[], T], *, timeout_s: float) -> T:
    """Make an admin request, again while it fails as for a topic that is being loaded (5xx).

    Raises:
        AdminError: it was refused for another reason, or is still after so long.
    """
    deadline = Deadline.after(timeout_s)
    while True:
        try:
            return request()
        except AdminError as error:
            if error.status < 500 or deadline.passed:
                raise
        time.sleep(PAUSE_S)
