"""Deletes the topics of examples that have ended, with the namespaces of one topic, while others run.

Without that a broker keeps some thousand topics of a long run in its heap, and does little but collect garbage. Topics
that cannot be deleted at the moment, because their broker is gone or frozen, stay until the end of the run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from conformance.clients.admin.client import Admin
from conformance.clients.admin.http import namespace_of
from conformance.clients.security.service import Service
from conformance.harness_error import HarnessError
from conformance.tenancy.removal import remove_namespaces


class EndedTopics:
    """Deletes topics one after the other, in a thread of its own."""

    def __init__(self, service: Callable[[], Service], *, is_of_one_topic: Callable[[str], bool]) -> None:
        """``service``: where the admin API is now; ``is_of_one_topic``: whether a namespace goes with its topic."""
        self._service = service
        self._is_of_one_topic = is_of_one_topic
        self._thread: Final = ThreadPoolExecutor(1, thread_name_prefix="ended-topics")

    def delete(self, topics: Iterable[str]) -> None:
        """Delete topics, by their full names, as soon as those before are deleted."""
        if named := tuple(topics):
            self._thread.submit(self._delete, named)

    def close(self) -> None:
        """Leave the topics that are not deleted yet."""
        self._thread.shutdown(cancel_futures=True)

    def _delete(self, topics: Iterable[str]) -> None:
        # Not with the admin API of examples: an error here is no answer to an operation.
        with Admin(self._service()) as admin:
            for topic in topics:
                with contextlib.suppress(HarnessError):
                    admin.delete_topic(topic, force=True)
                    if self._is_of_one_topic(namespace_of(topic)):
                        remove_namespaces(admin, [namespace_of(topic)])
