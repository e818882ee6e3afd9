"""Removes namespaces with everything in them, topic by topic, and tenants.

It never forces the deletion of a namespace, because clusters refuse that by default (``forceDeleteNamespaceAllowed``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from typing import Final, get_args

from conformance.clients.admin.client import Admin, Domain
from conformance.clients.admin.http import AdminError
from conformance.clients.outcomes import NoAnswer
from conformance.harness_error import HarnessError
from conformance.wait import retry

AT_ONCE: Final = 8
"""How many topics are deleted at the same time."""

TIMEOUT_S: Final = 60.0
"""How long the deletion of one namespace or tenant may fail: a topic may be moving to another broker, or be created by
a client's last request."""

_PAUSE_S: Final = 0.1
_REFUSED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.METHOD_NOT_ALLOWED)


def remove_namespaces(admin: Admin, namespaces: Sequence[str]) -> None:
    """Remove these namespaces, if they exist, with all topics and subscriptions.

    Raises:
        HarnessError: one still exists after the timeout.
    """
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for namespace in namespaces:
            _until_gone(f"the namespace {namespace}", partial(_remove, admin, pool, namespace))


def remove_tenant(admin: Admin, tenant: str) -> None:
    """Remove a tenant without namespaces, if it exists. Raises :class:`HarnessError` after the timeout."""
    _until_gone(f"the tenant {tenant}", lambda: admin.delete_tenant(tenant))


def count_topics(admin: Admin, namespaces: Sequence[str]) -> int:
    """The number of topics in these namespaces, each partition separately; a deleted namespace has none."""
    count = 0
    for namespace in namespaces:
        for domain in get_args(Domain):
            with contextlib.suppress(AdminError):
                count += len(admin.topics(namespace, domain=domain))
    return count


def _remove(admin: Admin, pool: ThreadPoolExecutor, namespace: str) -> None:
    try:
        for domain in get_args(Domain):
            partitioned = admin.partitioned_topics(namespace, domain=domain)
            list(pool.map(lambda topic: _go(lambda: admin.delete_partitioned_topic(topic, force=True)), partitioned))
            topics = admin.topics(namespace, domain=domain)
            list(pool.map(lambda topic: _go(lambda: admin.delete_topic(topic, force=True)), topics))
    except AdminError as error:
        # Gone, or its deletion failed half way, when no topic was left. To delete it again tells the two apart.
        if error.status != HTTPStatus.NOT_FOUND:
            raise
    admin.delete_namespace(namespace)


def _go(delete: Callable[[], None]) -> None:
    """Delete a topic; after a failure, the next pass over its namespace retries."""
    try:
        delete()
    except AdminError as error:
        if error.status in _REFUSED:
            raise


def _until_gone(what: str, remove: Callable[[], None]) -> None:
    """Retry until it succeeds or nothing is left to remove."""
    try:
        retry(remove, TIMEOUT_S, may_pass=_may_pass, pause_s=_PAUSE_S)
    except AdminError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise HarnessError(f"{what[0].upper()}{what[1:]} could not be removed: {error}.") from error


def _may_pass(error: HarnessError) -> bool:
    if isinstance(error, AdminError):
        return error.status not in (*_REFUSED, HTTPStatus.NOT_FOUND)
    return isinstance(error, NoAnswer)
