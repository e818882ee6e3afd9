"""The client of the admin API.

Every method raises :class:`AdminError` for an error, :class:`ConnectionLost` without a connection, and
:class:`NoAnswer` after its deadline. Topics have their full names, ``persistent://tenant/namespace/topic``, and
namespaces ``tenant/namespace``. It does not wait until policies are in force.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeVar
from urllib.parse import quote

import msgspec

from conformance.clients.admin.http import DEFAULT_TIMEOUT_S, AdminError, AdminHttp, namespace_of, topic_path
from conformance.clients.admin.types import (
    AnalyzedBacklog,
    InactiveTopics,
    InternalInfo,
    InternalStats,
    NamespacePolicies,
    PartitionedMetadata,
    Persistence,
    RestEntry,
    Retention,
    StoredPosition,
    TopicStats,
)
from conformance.clients.outcomes import ConnectionLost, NoAnswer
from conformance.clients.security.service import Service
from conformance.harness_error import HarnessError
from conformance.wait import retry
from model.log import Position

__all__ = ["Admin", "AdminError"]

T = TypeVar("T")
Domain = Literal["persistent", "non-persistent"]

ASKING_S: Final = 5.0
"""How long to ask whether a request exists while connections are lost."""
NO_SUCH_REQUEST: Final = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED)
"""The status of a request that the release does not have."""

_EARLIEST: Final = {"ledgerId": -1, "entryId": -1}
_LATEST: Final = {"ledgerId": 2**63 - 1, "entryId": 2**63 - 1}


WHOLE_BUNDLE: Final = "0x00000000_0xffffffff"
"""The only bundle of a namespace that has one."""


class Admin:
    """The admin API of one cluster."""

    def __init__(
        self,
        service: Service | str,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        on_error: Callable[[AdminError], None] | None = None,
    ) -> None:
        """``service``: ``http://host:port``; ``timeout_s`` bounds each request; ``on_error`` gets every error."""
        self._http = AdminHttp(service, timeout_s=timeout_s, on_error=on_error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def ask_at(self, service: Service) -> None:
        """Send all later requests to other addresses of the cluster."""
        self._http.ask_at(service)

    # ------------------------------------------------------------------------------------------------------- topics

    def create_topic(self, topic: str, *, partitions: int | None = None) -> None:
        """Create a topic, partitioned if a number of partitions is given."""
        if partitions is None:
            self._http.request("PUT", topic_path(topic))
        else:
            self._http.request("PUT", f"{topic_path(topic)}/partitions", partitions)

    def ensure_topic(self, topic: str) -> None:
        """Create a topic without partitions unless it exists: another cluster may have created it."""
        try:
            self.create_topic(topic)
        except AdminError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise

    def delete_topic(self, topic: str, *, force: bool = False) -> None:
        """Delete a topic, with its schema; ``force`` also with producers and subscriptions on it."""
        self._http.request("DELETE", topic_path(topic), query={"force": str(force).lower(), "deleteSchema": "true"})

    def delete_partitioned_topic(self, topic: str, *, force: bool = False) -> None:
        """Delete a topic with all its partitions; ``force`` also with producers and subscriptions on them."""
        query = {"force": str(force).lower(), "deleteSchema": "true"}
        self._http.request("DELETE", f"{topic_path(topic)}/partitions", query=query)

    def unload(self, topic: str) -> None:
        """Unload a topic; the next look-up loads it again."""
        self._http.request("PUT", f"{topic_path(topic)}/unload")

    def unload_whole(self, place: str) -> None:
        """Unload a namespace, or a bundle: ``tenant/namespace/bundle``."""
        self._http.request("PUT", f"namespaces/{place}/unload")

    def clear_backlog(self, place: str, subscription: str | None = None) -> None:
        """Acknowledge the backlog of one or all subscriptions of a namespace, or of a bundle."""
        below = "" if subscription is None else f"/{quote(subscription, safe='')}"
        self._http.request("POST", f"namespaces/{place}/clearBacklog{below}")

    def unsubscribe(self, place: str, subscription: str) -> None:
        """Delete a subscription of all topics of a namespace, or of a bundle; an error while it has consumers."""
        self._http.request("POST", f"namespaces/{place}/unsubscribe/{quote(subscription, safe='')}")

    def bundle(self, topic: str) -> str:
        """The bundle of a topic, as paths have it below the namespace."""
        answer = self._http.request("GET", f"../../lookup/v2/topic/{topic_path(topic)}/bundle")
        return answer.data.decode().strip().strip('"')

    def unload_namespace(self, namespace: str, *, to: str | None = None) -> None:
        """Unload a namespace of one bundle; ``to``: the destination broker, by its name in this release."""
        query = None if to is None else {"destinationBroker": to}
        self._http.request("PUT", f"namespaces/{namespace}/{WHOLE_BUNDLE}/unload", query=query)

    def terminate(self, topic: str) -> Position:
        """Terminate a topic; returns its last position."""
        return self._http.call("POST", f"{topic_path(topic)}/terminate", StoredPosition).position

    def trim(self, topic: str) -> None:
        """Trim a topic; the broker answers when it is done."""
        self._http.request("POST", f"{topic_path(topic)}/trim")

    def partitions(self, topic: str) -> int:
        """A topic's number of partitions, 0 if it is not partitioned."""
        return self._http.get(f"{topic_path(topic)}/partitions", PartitionedMetadata).partitions

    def stats(self, topic: str) -> TopicStats:
        return self._http.get(f"{topic_path(topic)}/stats", TopicStats)

    def stats_fields(self, topic: str) -> Mapping[str, Collection[str]]:
        """The names of the stats' fields of a topic's first publisher and first subscription."""
        answer = self._http.get(f"{topic_path(topic)}/stats", _StatsFields)
        parts = {"publishers": answer.publishers, "subscriptions": tuple(answer.subscriptions.values())}
        return {part: tuple(ones[0]) for part, ones in parts.items() if ones}

    def has_request(self, topic: str, path: str) -> bool:
        """Whether the release has a request with any method, by its path below the topic's.

        It does not change the topic. OPTIONS returns the methods of an existing path, or fails on old releases, which
        then close the connection: the next request on it may be lost.
        """
        try:
            retry(
                lambda: self._http.request("OPTIONS", f"{topic_path(topic)}/{path}"),
                ASKING_S,
                may_pass=lambda error: isinstance(error, ConnectionLost),
            )
        except AdminError as error:
            return error.status not in NO_SUCH_REQUEST
        return True

    def policy(self, at: str, policy: str, *, is_applied: bool = False) -> Any:
        """A policy of a topic or a namespace; None without such a policy.

        As far as the broker has loaded it. ``is_applied``: that of any level that applies to a topic.
        """
        query = {"applied": "true"} if is_applied else None
        answer = self._http.request("GET", f"{_policies_path(at)}/{policy}", query=query)
        return msgspec.json.decode(answer.data or b"null")

    def set_policy(self, at: str, policy: str, value: object | None) -> None:
        """Set a policy of a topic or a namespace, or, with None, remove it."""
        method = "DELETE" if value is None else "POST"
        self._http.request(method, f"{_policies_path(at)}/{policy}", value)

    def set_backlog_quota(self, at: str, action: str, *, size_bytes: int = -1, seconds: int = -1) -> None:
        """Set how large, or how old, backlogs of a topic or of a namespace's topics may be."""
        query = {"backlogQuotaType": "destination_storage" if seconds < 0 else "message_age"}
        body = {"limitSize": size_bytes, "limitTime": seconds, "policy": action}
        self._http.request("POST", f"{_policies_path(at)}/backlogQuota", body, query=query)

    def remove_backlog_quota(self, at: str) -> None:
        """Remove the quota on the size of backlogs."""
        query = {"backlogQuotaType": "destination_storage"}
        self._http.request("DELETE", f"{_policies_path(at)}/backlogQuota", query=query)

    def applied_policy(self, topic: str, policy: str, kind: type[T]) -> T | None:
        """A policy that applies to a topic, perhaps by default; None if the release does not show it to this role."""
        try:
            answer = self._http.request("GET", f"{topic_path(topic)}/{policy}", query={"applied": "true"})
        except AdminError as error:
            if error.status in (*NO_SUCH_REQUEST, HTTPStatus.FORBIDDEN):
                return None
            raise
        return msgspec.json.decode(answer.data, type=kind | None) if answer.data else None

    def internal_stats(self, topic: str, *, with_metadata: bool = False) -> InternalStats:
        """The state of a topic's ledgers and cursors in the broker's memory; the metadata of its ledgers is ignored."""
        query = {"metadata": "true"} if with_metadata else None
        return self._http.call("GET", f"{topic_path(topic)}/internalStats", InternalStats, query=query)

    def internal_info(self, topic: str) -> InternalInfo:
        """The same in the metadata store."""
        return self._http.get(f"{topic_path(topic)}/internal-info", InternalInfo)

    def last_message_id(self, topic: str) -> Position:
        """A topic's last position; its entry is -1 if there is none."""
        return self._http.get(f"{topic_path(topic)}/lastMessageId", StoredPosition).position

    def read_entry(self, topic: str, position: Position) -> RestEntry:
        """Read one entry of the log; an error of status 404 (2.11: 500) if there is none."""
        return self._entry(f"{topic_path(topic)}/ledger/{position.ledger}/entry/{position.entry}")

    def examine(self, topic: str, nth: int, *, from_end: bool) -> RestEntry:
        """Read the ``nth`` entry of the log from its beginning or its end, from 1; status 412 if the log is empty."""
        query = {"initialPosition": "latest" if from_end else "earliest", "messagePosition": str(nth)}
        return self._entry(f"{topic_path(topic)}/examinemessage", query)

    def find_by_time(self, topic: str, publish_time_ms: int) -> Position:
        """The first position with this publish time or a later one; the next one to be written if there is none."""
        return self._http.get(f"{topic_path(topic)}/messageid/{publish_time_ms}", StoredPosition).position

    def subscriptions(self, topic: str) -> Sequence[str]:
        """The names of a topic's subscriptions."""
        return self._http.get(f"{topic_path(topic)}/subscriptions", list[str])

    def inquire(self, topic: str, about: str) -> None:
        """Send a request that only reads; its answer is ignored."""
        path = topic_path(topic)
        without_domain, namespace = path.partition("/")[2], namespace_of(topic)
        paths = {
            "look-up": f"../../lookup/v2/topic/{path}",
            "bundle": f"../../lookup/v2/topic/{path}/bundle",
            "schema": f"schemas/{without_domain}/schema",
            "schema versions": f"schemas/{without_domain}/schemas",
            "namespace policies": f"namespaces/{namespace}",
            "topic policy": f"{path}/retention",
            "permissions": f"{path}/permissions",
            "stats": f"{path}/stats",
            "topics": f"persistent/{namespace}",
            "stored state": f"{path}/internal-info",
        }
        self._http.request("GET", paths[about])

    # ------------------------------------------------------------------------------------------------ subscriptions

    def create_subscription(
        self, topic: str, subscription: str, *, earliest: bool, at: Position | None = None, replicated: bool = False
    ) -> None:
        """Create a subscription at a topic's beginning or end, or ``at`` an entry."""
        start = _EARLIEST if earliest else _LATEST
        start = start if at is None else {"ledgerId": at.ledger, "entryId": at.entry}
        query = {"replicated": "true"} if replicated else None
        self._http.request("PUT", _subscription_path(topic, subscription), start, query=query)

    def delete_subscription(self, topic: str, subscription: str, *, force: bool = False) -> None:
        """Delete a subscription; ``force`` also with consumers on it."""
        path = _subscription_path(topic, subscription)
        self._http.request("DELETE", path, query={"force": str(force).lower()})

    def peek(self, topic: str, subscription: str, nth: int) -> RestEntry:
        """Read the ``nth`` entry of a subscription's backlog, from 1, without a change to it."""
        return self._entry(f"{_subscription_path(topic, subscription)}/position/{nth}")

    def analyze_backlog(self, topic: str, subscription: str) -> AnalyzedBacklog:
        """Have the broker read a subscription's backlog and count it (from 2.11)."""
        path = f"{_subscription_path(topic, subscription)}/analyzeBacklog"
        return self._http.call("POST", path, AnalyzedBacklog)

    def skip(self, topic: str, subscription: str, count: int) -> None:
        """Acknowledge the next ``count`` entries of a subscription."""
        self._http.request("POST", f"{_subscription_path(topic, subscription)}/skip/{count}")

    def skip_all(self, topic: str, subscription: str) -> None:
        """Acknowledge all of a subscription's backlog."""
        self._http.request("POST", f"{_subscription_path(topic, subscription)}/skip_all")

    def expire(self, topic: str, subscription: str, *, older_than_s: int) -> None:
        """Expire older messages, in the background."""
        self._http.request("POST", f"{_subscription_path(topic, subscription)}/expireMessages/{older_than_s}")

    def expire_all(self, topic: str, *, older_than_s: int) -> None:
        """Expire older messages of all subscriptions, in the background."""
        self._http.request("POST", f"{topic_path(topic)}/all_subscription/expireMessages/{older_than_s}")

    def expire_up_to(self, topic: str, subscription: str, position: Position) -> None:
        """Expire everything up to and including a position, in the background; status 409 for one after the end."""
        body = {"ledgerId": position.ledger, "entryId": position.entry, "partitionIndex": -1, "isExcluded": False}
        self._http.request("POST", f"{_subscription_path(topic, subscription)}/expireMessages", body)

    def reset_cursor(self, topic: str, subscription: str, position: Position, *, is_excluded: bool = False) -> None:
        """Reset a subscription to a position, which is then the next one to be delivered; ``is_excluded``: the one
        after it."""
        body = {"ledgerId": position.ledger, "entryId": position.entry} | ({"excluded": True} if is_excluded else {})
        self._http.request("POST", f"{_subscription_path(topic, subscription)}/resetcursor", body)

    def reset_cursor_to_time(self, topic: str, subscription: str, publish_time_ms: int) -> None:
        """Reset a subscription to the first message with this publish time or a later one."""
        self._http.request("POST", f"{_subscription_path(topic, subscription)}/resetcursor/{publish_time_ms}")

    # ----------------------------------------------------------------------------------------------- topic policies

    def set_topic_replication_clusters(self, topic: str, clusters: Sequence[str] | None) -> None:
        """Set the clusters that a topic is replicated between; None: those of its namespace."""
        path = f"{topic_path(topic)}/replication"
        self._http.request("DELETE" if clusters is None else "POST", path, None if clusters is None else list(clusters))

    def set_topic_deduplication(self, topic: str, enabled: bool) -> None:
        """Switch deduplication for one topic; its stats' ``deduplication_status`` follows later."""
        self._http.request("POST", f"{topic_path(topic)}/deduplicationEnabled", enabled)

    def topic_deduplication(self, topic: str) -> bool | None:
        """A topic's own policy on deduplication, as far as the broker has loaded it; None without one."""
        answer = self._http.request("GET", f"{topic_path(topic)}/deduplicationEnabled").data
        return msgspec.json.decode(answer, type=bool | None) if answer else None

    def clear_topic_deduplication(self, topic: str) -> None:
        """Remove the topic's policy on deduplication."""
        self._http.request("DELETE", f"{topic_path(topic)}/deduplicationEnabled")

    def set_topic_deduplication_snapshot_interval(self, topic: str, entries: int) -> None:
        """Set after how many entries of the topic a deduplication snapshot is taken."""
        self._http.request("POST", f"{topic_path(topic)}/deduplicationSnapshotInterval", entries)

    def set_topic_ttl(self, topic: str, seconds: int | None) -> None:
        """Set a topic's own message TTL, or, with None, remove it."""
        query = None if seconds is None else {"messageTTL": str(seconds)}
        self._http.request("DELETE" if seconds is None else "POST", f"{topic_path(topic)}/messageTTL", query=query)

    # --------------------------------------------------------------------------------------------------- namespaces

    def create_namespace(self, namespace: str, policies: NamespacePolicies | None = None) -> None:
        """Create a namespace, with the broker's defaults for other policies."""
        self._http.request("PUT", f"namespaces/{namespace}", policies or NamespacePolicies())

    def delete_namespace(self, namespace: str, *, force: bool = False) -> None:
        """Delete a namespace; ``force`` also with topics in it."""
        self._http.request("DELETE", f"namespaces/{namespace}", query={"force": str(force).lower()})

    def namespaces(self, tenant: str) -> Sequence[str]:
        return self._http.get(f"namespaces/{tenant}", list[str])

    def topics(self, namespace: str, *, domain: Domain = "persistent", with_system: bool = False) -> Sequence[str]:
        """A namespace's topics of one domain, each partition separately, with or without system topics."""
        query = {"includeSystemTopic": str(with_system).lower()}
        return self._http.call("GET", f"{domain}/{namespace}", list[str], query=query)

    def partitioned_topics(self, namespace: str, *, domain: Domain = "persistent") -> Sequence[str]:
        """A namespace's partitioned topics, without their partitions."""
        return self._http.get(f"{domain}/{namespace}/partitioned", list[str])

    def namespace_properties(self, namespace: str) -> Mapping[str, str]:
        """A namespace's properties; an error of status 404 or 405 on releases without them."""
        return self._http.get(f"namespaces/{namespace}/properties", dict[str, str])

    def set_namespace_properties(self, namespace: str, properties: Mapping[str, str]) -> None:
        """Add properties to a namespace; errors as for :meth:`namespace_properties`."""
        self._http.request("PUT", f"namespaces/{namespace}/properties", properties)

    def set_retention(self, namespace: str, *, size_mb: int = -1, time_minutes: int = -1) -> None:
        """Set the retention of acknowledged messages; -1 is infinite."""
        body = Retention(size_mb=size_mb, time_minutes=time_minutes)
        self._http.request("POST", f"namespaces/{namespace}/retention", body)

    def set_inactive_after(self, namespace: str, *, idle_s: int, is_deleted: bool = True) -> None:
        """Set how long inactive topics are kept, unless retention keeps them; forever unless ``is_deleted``."""
        body = InactiveTopics(idle_s=idle_s, is_deleted=is_deleted)
        self._http.request("POST", f"namespaces/{namespace}/inactiveTopicPolicies", body)

    def set_persistence(self, namespace: str, persistence: Persistence) -> None:
        """Set a namespace's quorums and the rate of persisting cursors."""
        self._http.request("POST", f"namespaces/{namespace}/persistence", persistence)

    def set_max_consumers(self, namespace: str, consumers: int) -> None:
        """Limit the consumers of a subscription; 0: no limit."""
        self._http.request("POST", f"namespaces/{namespace}/maxConsumersPerSubscription", consumers)

    def set_max_unacknowledged(self, namespace: str, messages: int) -> None:
        """Limit the unacknowledged messages of a consumer; 0: no limit."""
        self._http.request("POST", f"namespaces/{namespace}/maxUnackedMessagesPerConsumer", messages)

    def set_max_unacknowledged_in_all(self, namespace: str, messages: int) -> None:
        """Limit the unacknowledged messages of a subscription; 0: no limit."""
        self._http.request("POST", f"namespaces/{namespace}/maxUnackedMessagesPerSubscription", messages)

    def set_namespace_deduplication(self, namespace: str, enabled: bool) -> None:
        """Switch deduplication for a namespace's topics."""
        self._http.request("POST", f"namespaces/{namespace}/deduplication", enabled)

    def set_namespace_ttl(self, namespace: str, seconds: int | None) -> None:
        """Set a namespace's message TTL, or, with None, remove it."""
        self._http.request("DELETE" if seconds is None else "POST", f"namespaces/{namespace}/messageTTL", seconds)

    def set_deduplication_snapshot_interval(self, namespace: str, interval_s: int) -> None:
        """Set the interval of deduplication snapshots of topics with new messages."""
        self._http.request("POST", f"namespaces/{namespace}/deduplicationSnapshotInterval", interval_s)

    def set_replication_clusters(self, namespace: str, clusters: Sequence[str]) -> None:
        """Set the clusters that a namespace is replicated between."""
        self._http.request("POST", f"namespaces/{namespace}/replication", list(clusters))

    # ----------------------------------------------------------------------------------------- tenants and clusters

    def create_tenant(self, tenant: str, *, clusters: Sequence[str], admin_roles: Sequence[str] = ()) -> None:
        """Create a tenant that may use these clusters; these roles administer it."""
        body = {"adminRoles": list(admin_roles), "allowedClusters": list(clusters)}
        self._http.request("PUT", f"tenants/{tenant}", body)

    def delete_tenant(self, tenant: str) -> None:
        """Delete a tenant; an error of status 409 if it has namespaces."""
        self._http.request("DELETE", f"tenants/{tenant}")

    def tenants(self) -> Sequence[str]:
        return self._http.get("tenants", list[str])

    def create_cluster(self, cluster: str, *, admin_url: str, service_url: str) -> None:
        """Register another cluster."""
        body = {"serviceUrl": admin_url, "brokerServiceUrl": service_url}
        self._http.request("PUT", f"clusters/{cluster}", body)

    def clusters(self) -> Sequence[str]:
        """The names of all registered clusters, including this one."""
        return self._http.get("clusters", list[str])

    # ------------------------------------------------------------------------------------------------------ brokers

    def broker_version(self) -> str:
        """The broker's version."""
        return self._http.request("GET", "brokers/version").data.decode().strip().strip('"')

    def is_healthy(self) -> bool:
        """Whether the broker's health check succeeds; False without an answer."""
        try:
            return self._http.request("GET", "brokers/health").data.strip() == b"ok"
        except (AdminError, ConnectionLost, NoAnswer):
            return False

    def metric(self, name: str) -> float:
        """The sum of a metric over all its labels, by its name with or without ``_total``; 0 if there is none."""
        text = self._http.request("GET", "../../metrics/").data.decode()  # next to the REST API, not within it
        samples = (line.rpartition(" ") for line in text.splitlines() if line.startswith(name))
        names = (name, f"{name}_total")
        return sum(float(value) for label, _, value in samples if label.partition("{")[0] in names)

    def runtime_configuration(self) -> Mapping[str, str]:
        """The broker's settings in force."""
        return self._http.get("brokers/configuration/runtime", dict[str, str])

    def dynamic_configuration(self) -> Mapping[str, str]:
        """The dynamic settings that were changed."""
        return self._http.get("brokers/configuration/values", dict[str, str])

    def set_dynamic_configuration(self, name: str, value: str) -> None:
        """Change a dynamic setting; an error of status 412 for another one."""
        self._http.request("POST", f"brokers/configuration/{quote(name, safe='')}/{quote(value, safe='')}")

    def clear_dynamic_configuration(self, name: str) -> None:
        """Remove the change of a dynamic setting."""
        self._http.request("DELETE", f"brokers/configuration/{quote(name, safe='')}")

    def _entry(self, path: str, query: Mapping[str, str] | None = None) -> RestEntry:
        response = self._http.request("GET", path, query=query)
        try:
            return RestEntry.of(response.headers, response.data)
        except (KeyError, ValueError):
            raise HarnessError(f"GET {path}: not an entry, or one without a position") from None


class _StatsFields(msgspec.Struct):
    """The names of fields in a topic's stats."""

    publishers: tuple[Mapping[str, object], ...] = ()
    subscriptions: Mapping[str, Mapping[str, object]] = {}


def _policies_path(at: str) -> str:
    """Of a topic, or of a namespace."""
    return topic_path(at) if "://" in at else f"namespaces/{at}"


def _subscription_path(topic: str, subscription: str) -> str:
    return f"{topic_path(topic)}/subscription/{quote(subscription, safe='')}"
