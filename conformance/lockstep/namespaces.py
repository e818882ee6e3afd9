"""The namespaces of the topics that the examples of one run create."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Final, assert_never

from conformance.clients.admin import types as admin_types
from conformance.clients.admin.client import NO_SUCH_REQUEST, Admin, AdminError
from conformance.lockstep.settings.traits import limit_in_all
from conformance.tenancy.run_tenant import RunTenant
from model.operations import Switch
from model.vocabulary import Limits, Persistence, Quorum

INACTIVE_TOPIC_S = 24 * 3600
"""How long inactive topics stay on clusters that cannot keep them forever."""
SHARED: Final[Mapping[str, bool | None]] = {"on": True, "off": False, "default": None}
"""The namespaces that every run has, with their policy of deduplication."""

_OfCursors = tuple[Persistence, bool, Limits | None, Quorum | None]
"""Persistence, whether ledgers are trimmed, limits and quorum of the topics in a namespace."""


class Namespaces:
    """Namespaces with what their topics need: deduplication, persistence of cursors, limits, retention."""

    def __init__(
        self,
        admin: Admin,
        tenant: RunTenant,
        runtime: Mapping[str, str],
        *,
        persisted_per_s: Callable[[Persistence], float | None],
        away: Callable[[], Admin] | None = None,
    ) -> None:
        """``runtime``: the broker's settings, as far as it shows them. ``away``: the cluster to replicate to."""
        self._admin = admin
        self._tenant = tenant
        self._persisted_per_s = persisted_per_s
        self._away = away
        self._numbers = itertools.count(1)
        self._of_one_topic: set[str] = set()
        self._of_cursors: dict[_OfCursors, str] = {}
        self._refused: dict[_OfCursors, AdminError] = {}
        self._untimed: dict[str, str] = {}
        self._deletes_inactive_topics = runtime.get("brokerDeleteInactiveTopicsEnabled", "true") == "true"
        self._limits_subscriptions = limit_in_all(runtime) > 0
        for kind, deduplication in SHARED.items():
            self._make(kind, deduplication)

    def lift_limit(self, runtime: Mapping[str, str]) -> None:
        """Lift the limit on unacknowledged messages, which only topics showed, from the first namespaces and others."""
        self._limits_subscriptions = limit_in_all(runtime) > 0
        for kind in SHARED if self._limits_subscriptions else ():
            self._admin.set_max_unacknowledged_in_all(self._tenant.namespace(kind), 0)

    def of_switch(self, switch: Switch, *, is_timed: bool = True) -> str:
        """The namespace of a new topic whose deduplication is switched like this; created if the topic has its own.

        Without ``is_timed``, a namespace policy turns off the timer of snapshots.
        """
        match switch:
            case "broker":
                return self._shared("default", is_timed=is_timed)
            case "namespace-on" | "topic-off":
                return self._shared("on", is_timed=is_timed)
            case "namespace-off" | "topic-on":
                return self._shared("off", is_timed=is_timed)
            case "own-namespace-on" | "own-namespace-off":
                namespace = self._make(f"of-one-topic-{next(self._numbers)}", switch == "own-namespace-on")
                self._of_one_topic.add(namespace)
                if not is_timed:
                    self._admin.set_deduplication_snapshot_interval(namespace, 0)
                return namespace
            case _:
                assert_never(switch)

    def is_of_one_topic(self, namespace: str) -> bool:
        """Whether a namespace was made for one topic only."""
        return namespace in self._of_one_topic

    def of_cursors(
        self,
        persistence: Persistence,
        *,
        is_trimmed: bool,
        limits: Limits | None = None,
        quorum: Quorum | None = None,
        is_of_one_topic: bool = False,
    ) -> str:
        """The namespace of topics with this persistence and these limits; created on first use, or for each topic."""
        chosen = (persistence, is_trimmed, limits, quorum)
        if chosen in self._refused:  # its namespace exists, without what the release lacks
            raise self._refused[chosen]
        if is_of_one_topic:
            namespace = self._make_for_cursors(f"of-one-topic-{next(self._numbers)}", chosen)
            self._of_one_topic.add(namespace)
            return namespace
        if chosen not in self._of_cursors:
            kind = f"{persistence}{'-trimmed' if is_trimmed else ''}"
            if limits is not None:
                kind = f"{kind}-{limits.consumers}-{limits.unacknowledged}-{limits.in_all}"
            if quorum is not None:
                kind = f"{kind}-{quorum.replace('/', '-')}"
            self._of_cursors[chosen] = self._make_for_cursors(kind, chosen)
        return self._of_cursors[chosen]

    def _make_for_cursors(self, kind: str, chosen: _OfCursors) -> str:
        persistence, is_trimmed, limits, quorum = chosen
        namespace = self._make(kind, deduplication=False, is_limited=True)
        if limits is not None:
            try:
                self._limit(namespace, limits)
            except AdminError as error:
                self._refused[chosen] = error
                raise
        if is_trimmed:
            self._admin.set_retention(namespace, size_mb=0, time_minutes=0)
        rate = self._persisted_per_s(persistence) or 0.0
        self._admin.set_persistence(namespace, admin_types.Persistence.of(quorum or "1/1/1", rate))
        return namespace

    def _shared(self, kind: str, *, is_timed: bool) -> str:
        if is_timed:
            return self._tenant.namespace(kind)
        if kind not in self._untimed:
            namespace = self._make(f"{kind}-untimed", SHARED[kind])
            self._admin.set_deduplication_snapshot_interval(namespace, 0)
            self._untimed[kind] = namespace
        return self._untimed[kind]

    def _make(self, kind: str, deduplication: bool | None, *, is_limited: bool = False) -> str:
        """``is_limited``: the broker's limit on a subscription's unacknowledged messages applies."""
        namespace = self._tenant.create_namespace(kind)
        # Without retention, acknowledged ledgers are trimmed, which looks like message loss.
        self._admin.set_retention(namespace, size_mb=-1, time_minutes=-1)
        # The shipped settings delete topics that an example does not use for a minute.
        if self._deletes_inactive_topics:
            self._keep_inactive(namespace)
        if self._limits_subscriptions and not is_limited:
            self._admin.set_max_unacknowledged_in_all(namespace, 0)
        if deduplication is not None:
            self._admin.set_namespace_deduplication(namespace, deduplication)
            if self._away is not None:
                self._away().set_namespace_deduplication(namespace, deduplication)
        return namespace

    def _keep_inactive(self, namespace: str) -> None:
        """Keep inactive topics; a release without such a policy deletes them after its own time."""
        try:
            self._admin.set_inactive_after(namespace, idle_s=INACTIVE_TOPIC_S, is_deleted=False)
        except AdminError as error:
            if error.status not in NO_SUCH_REQUEST:
                raise

    def _limit(self, namespace: str, limits: Limits) -> None:
        self._admin.set_max_consumers(namespace, limits.consumers)
        self._admin.set_max_unacknowledged(namespace, limits.unacknowledged)
        self._admin.set_max_unacknowledged_in_all(namespace, limits.in_all)
