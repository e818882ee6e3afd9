"""The admin interface: what the suite sets up and changes through it, and what it reads back.

Every method raises :class:`AdminError` where the broker says no, :class:`ConnectionLost` where nobody answers, and
:class:`NoAnswer` after its deadline. Topics go by their full names, ``persistent://tenant/namespace/topic``, namespaces
by ``tenant/namespace``. Nothing is waited for here: some policies become effective later.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from http import HTTPStatus
from types import TracebackType
from typing import Final, Literal, Self
from urllib.parse import quote

import msgspec

from conformance.clients.admin.http import DEFAULT_TIMEOUT_S, AdminError, AdminHttp, topic_path
from conformance.clients.admin.types import (
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
from model.log import Position

__all__ = ["Admin", "AdminError"]

Domain = Literal["persistent", "non-persistent"]

NO_SUCH_REQUEST: Final = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED)
"""How a broker answers a request that its release does not have."""

_EARLIEST: Final = {"ledgerId": -1, "entryId": -1}
_LATEST: Final = {"ledgerId": 2**63 - 1, "entryId": 2**63 - 1}


WHOLE_BUNDLE: Final = "0x00000000_0xffffffff"
"""The only bundle of a namespace that has one."""


class Admin:
    """The admin interface of one cluster."""

    def __init__(
        self,
        service: Service | str,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        on_error: Callable[[AdminError], None] | None = None,
    ) -> None:
        """``service``: of an admin address, ``http://host:port``; ``timeout_s`` bounds every request.

        ``on_error`` is shown every error that is answered, whatever its caller makes of it.
        """
        self._http = AdminHttp(service, timeout_s=timeout_s, on_error=on_error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that are kept."""
        self._http.close()

    def ask_at(self, service: Service) -> None:
        """Make all later requests at other addresses of the cluster."""
        self._http.ask_at(service)

    # ------------------------------------------------------------------------------------------------------- topics

    def create_topic(self, topic: str, *, partitions: int | None = None) -> None:
        """Create a topic, partitioned where a number of partitions is given."""
        if partitions is None:
            self._http.request("PUT", topic_path(topic))
        else:
            self._http.request("PUT", f"{topic_path(topic)}/partitions", partitions)

    def ensure_topic(self, topic: str) -> None:
        """Create a topic without partitions unless it is there: where it is replicated, another cluster may have."""
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
        """Close a topic in good order; it is loaded again by whoever asks for it next."""
        self._http.request("PUT", f"{topic_path(topic)}/unload")

    def unload_namespace(self, namespace: str, *, to: str | None = None) -> None:
        """Close all topics of a namespace that has one bundle; ``to``: the broker that is to have them, as its release
        names it."""
        query = None if to is None else {"destinationBroker": to}
        self._http.request("PUT", f"namespaces/{namespace}/{WHOLE_BUNDLE}/unload", query=query)

    def terminate(self, topic: str) -> Position:
        """Let nothing more be written to a topic, and give its last position."""
        return self._http.call("POST", f"{topic_path(topic)}/terminate", StoredPosition).position

    def trim(self, topic: str) -> None:
        """Have the ledgers deleted that may be; answered when that is done."""
        self._http.request("POST", f"{topic_path(topic)}/trim")

    def partitions(self, topic: str) -> int:
        """Give a topic's number of partitions, 0 for one without."""
        return self._http.get(f"{topic_path(topic)}/partitions", PartitionedMetadata).partitions

    def stats(self, topic: str) -> TopicStats:
        return self._http.get(f"{topic_path(topic)}/stats", TopicStats)

    def stats_fields(self, topic: str) -> Mapping[str, Collection[str]]:
        """Name the fields that a topic's stats have of its first publisher and of its first subscription."""
        answer = self._http.get(f"{topic_path(topic)}/stats", _StatsFields)
        parts = {"publishers": answer.publishers, "subscriptions": tuple(answer.subscriptions.values())}
        return {part: tuple(ones[0]) for part, ones in parts.items() if ones}

    def has_request(self, topic: str, path: str) -> bool:
        """Whether the release has a request, by its path below that of a topic, whatever its method.

        Nothing is done to the topic. Of a path that there is, OPTIONS tells the methods; old releases fail at that.
        """
        try:
            self._http.request("OPTIONS", f"{topic_path(topic)}/{path}")
        except AdminError as error:
            return error.status not in NO_SUCH_REQUEST
        return True

    def internal_stats(self, topic: str) -> InternalStats:
        """Give the state of a topic's ledgers and cursors, as the broker has it in memory."""
        return self._http.get(f"{topic_path(topic)}/internalStats", InternalStats)

    def internal_info(self, topic: str) -> InternalInfo:
        """Give the same as the metadata store has it."""
        return self._http.get(f"{topic_path(topic)}/internal-info", InternalInfo)

    def last_message_id(self, topic: str) -> Position:
        """Give a topic's last position; its entry is -1 where there is none."""
        return self._http.get(f"{topic_path(topic)}/lastMessageId", StoredPosition).position

    def read_entry(self, topic: str, position: Position) -> RestEntry:
        """Read one entry of the log, whoever acknowledged it; an error of status 404 (2.11: 500) if there is none."""
        return self._entry(f"{topic_path(topic)}/ledger/{position.ledger}/entry/{position.entry}")

    # ------------------------------------------------------------------------------------------------ subscriptions

    def create_subscription(self, topic: str, subscription: str, *, earliest: bool, replicated: bool = False) -> None:
        """Create a subscription at a topic's beginning or at its end; ``replicated``: with its state."""
        start = _EARLIEST if earliest else _LATEST
        query = {"replicated": "true"} if replicated else None
        self._http.request("PUT", _subscription_path(topic, subscription), start, query=query)

    def delete_subscription(self, topic: str, subscription: str, *, force: bool = False) -> None:
        """Delete a subscription; ``force`` also with consumers on it."""
        path = _subscription_path(topic, subscription)
        self._http.request("DELETE", path, query={"force": str(force).lower()})

    def peek(self, topic: str, subscription: str, nth: int) -> RestEntry:
        """Read the ``nth`` entry of a subscription's backlog, from 1, without a change to it."""
        return self._entry(f"{_subscription_path(topic, subscription)}/position/{nth}")

    def skip(self, topic: str, subscription: str, count: int) -> None:
        """Acknowledge the next ``count`` entries of a subscription."""
        self._http.request("POST", f"{_subscription_path(topic, subscription)}/skip/{count}")

    def skip_all(self, topic: str, subscription: str) -> None:
        """Acknowledge all of a subscription's backlog."""
        self._http.request("POST", f"{_subscription_path(topic, subscription)}/skip_all")

    def expire(self, topic: str, subscription: str, *, older_than_s: int) -> None:
        """Have what is older than that acknowledged; it happens in the background."""
        self._http.request("POST", f"{_subscription_path(topic, subscription)}/expireMessages/{older_than_s}")

    def expire_up_to(self, topic: str, subscription: str, position: Position) -> None:
        """Have everything up to a position, with it, acknowledged; in the background; 409 for one behind the end."""
        body = {"ledgerId": position.ledger, "entryId": position.entry, "partitionIndex": -1, "isExcluded": False}
        self._http.request("POST", f"{_subscription_path(topic, subscription)}/expireMessages", body)

    def reset_cursor(self, topic: str, subscription: str, position: Position) -> None:
        """Set a subscription back (or forward) to a position, which is then the next one to be delivered."""
        body = {"ledgerId": position.ledger, "entryId": position.entry}
        self._http.request("POST", f"{_subscription_path(topic, subscription)}/resetcursor", body)

    def reset_cursor_to_time(self, topic: str, subscription: str, publish_time_ms: int) -> None:
        """Set a subscription back (or forward) to the first message that was published at this time or later."""
        self._http.request("POST", f"{_subscription_path(topic, subscription)}/resetcursor/{publish_time_ms}")

    # ----------------------------------------------------------------------------------------------- topic policies

    def set_topic_deduplication(self, topic: str, enabled: bool) -> None:
        """Switch deduplication for one topic; it follows its stats' ``deduplication_status`` later."""
        self._http.request("POST", f"{topic_path(topic)}/deduplicationEnabled", enabled)

    def topic_deduplication(self, topic: str) -> bool | None:
        """Give what a topic's own policy says of deduplication, as far as the broker has learnt it; None: nothing."""
        answer = self._http.request("GET", f"{topic_path(topic)}/deduplicationEnabled").data
        return msgspec.json.decode(answer, type=bool | None) if answer else None

    def clear_topic_deduplication(self, topic: str) -> None:
        """Let the topic follow its namespace again."""
        self._http.request("DELETE", f"{topic_path(topic)}/deduplicationEnabled")

    def set_topic_deduplication_snapshot_interval(self, topic: str, entries: int) -> None:
        """Have a deduplication snapshot taken after this many entries of the topic."""
        self._http.request("POST", f"{topic_path(topic)}/deduplicationSnapshotInterval", entries)

    # --------------------------------------------------------------------------------------------------- namespaces

    def create_namespace(self, namespace: str, policies: NamespacePolicies | None = None) -> None:
        """Create a namespace, with the broker's defaults for what ``policies`` leaves open."""
        self._http.request("PUT", f"namespaces/{namespace}", policies or NamespacePolicies())

    def delete_namespace(self, namespace: str, *, force: bool = False) -> None:
        """Delete a namespace; ``force`` with the topics in it."""
        self._http.request("DELETE", f"namespaces/{namespace}", query={"force": str(force).lower()})

    def namespaces(self, tenant: str) -> Sequence[str]:
        return self._http.get(f"namespaces/{tenant}", list[str])

    def topics(self, namespace: str, *, domain: Domain = "persistent", with_system: bool = False) -> Sequence[str]:
        """Name a namespace's topics of one domain, partitions one by one; those of the system if asked for."""
        query = {"includeSystemTopic": str(with_system).lower()}
        return self._http.call("GET", f"{domain}/{namespace}", list[str], query=query)

    def partitioned_topics(self, namespace: str, *, domain: Domain = "persistent") -> Sequence[str]:
        """Name a namespace's topics that are partitioned, without their partitions."""
        return self._http.get(f"{domain}/{namespace}/partitioned", list[str])

    def namespace_properties(self, namespace: str) -> Mapping[str, str]:
        """Give what was written down with a namespace; an error of status 404 or 405 on releases that cannot."""
        return self._http.get(f"namespaces/{namespace}/properties", dict[str, str])

    def set_namespace_properties(self, namespace: str, properties: Mapping[str, str]) -> None:
        """Write something down with a namespace, beside what is there; errors as for :meth:`namespace_properties`."""
        self._http.request("PUT", f"namespaces/{namespace}/properties", properties)

    def set_retention(self, namespace: str, *, size_mb: int = -1, time_minutes: int = -1) -> None:
        """Say how long acknowledged messages are kept; -1 is for ever."""
        body = Retention(size_mb=size_mb, time_minutes=time_minutes)
        self._http.request("POST", f"namespaces/{namespace}/retention", body)

    def set_inactive_after(self, namespace: str, *, idle_s: int, is_deleted: bool = True) -> None:
        """Say for how long topics without subscriptions and producers are kept, where retention does not keep them;
        for ever unless ``is_deleted``."""
        body = InactiveTopics(idle_s=idle_s, is_deleted=is_deleted)
        self._http.request("POST", f"namespaces/{namespace}/inactiveTopicPolicies", body)

    def set_persistence(self, namespace: str, persistence: Persistence) -> None:
        """Say how a namespace's topics are stored, and how often their cursors may be."""
        self._http.request("POST", f"namespaces/{namespace}/persistence", persistence)

    def set_max_consumers(self, namespace: str, consumers: int) -> None:
        """Let a subscription have at most so many consumers at a time; 0: any number."""
        self._http.request("POST", f"namespaces/{namespace}/maxConsumersPerSubscription", consumers)

    def set_max_unacknowledged(self, namespace: str, messages: int) -> None:
        """Let a consumer have at most so many unacknowledged messages; 0: any number."""
        self._http.request("POST", f"namespaces/{namespace}/maxUnackedMessagesPerConsumer", messages)

    def set_max_unacknowledged_in_all(self, namespace: str, messages: int) -> None:
        """Let a subscription have at most so many unacknowledged messages; 0: any number."""
        self._http.request("POST", f"namespaces/{namespace}/maxUnackedMessagesPerSubscription", messages)

    def set_namespace_deduplication(self, namespace: str, enabled: bool) -> None:
        """Switch deduplication for a namespace's topics."""
        self._http.request("POST", f"namespaces/{namespace}/deduplication", enabled)

    def set_deduplication_snapshot_interval(self, namespace: str, interval_s: int) -> None:
        """Have deduplication snapshots taken at least that often where something was written."""
        self._http.request("POST", f"namespaces/{namespace}/deduplicationSnapshotInterval", interval_s)

    def set_replication_clusters(self, namespace: str, clusters: Sequence[str]) -> None:
        """Say between which clusters a namespace is replicated."""
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
        """Make another cluster known to this one."""
        body = {"serviceUrl": admin_url, "brokerServiceUrl": service_url}
        self._http.request("PUT", f"clusters/{cluster}", body)

    def clusters(self) -> Sequence[str]:
        """Name the clusters that this one knows, itself among them."""
        return self._http.get("clusters", list[str])

    # ------------------------------------------------------------------------------------------------------ brokers

    def broker_version(self) -> str:
        """Give the release that the broker says it is."""
        return self._http.request("GET", "brokers/version").data.decode().strip().strip('"')

    def is_healthy(self) -> bool:
        """Whether the broker says that it can write and read a message; False if it does not answer."""
        try:
            return self._http.request("GET", "brokers/health").data.strip() == b"ok"
        except (AdminError, ConnectionLost, NoAnswer):
            return False

    def metric(self, name: str) -> float:
        """Give the sum of a metric over all its labels, by its name with or without ``_total``; 0 if there is none."""
        text = self._http.request("GET", "../../metrics/").data.decode()  # beside the REST interface, not within
        samples = (line.rpartition(" ") for line in text.splitlines() if line.startswith(name))
        names = (name, f"{name}_total")
        return sum(float(value) for label, _, value in samples if label.partition("{")[0] in names)

    def runtime_configuration(self) -> Mapping[str, str]:
        """Give the settings that the broker runs with."""
        return self._http.get("brokers/configuration/runtime", dict[str, str])

    def dynamic_configuration(self) -> Mapping[str, str]:
        """Give the settings that were changed while it ran."""
        return self._http.get("brokers/configuration/values", dict[str, str])

    def set_dynamic_configuration(self, name: str, value: str) -> None:
        """Change a setting of a running broker; an error of status 412 for one that cannot be."""
        self._http.request("POST", f"brokers/configuration/{quote(name, safe='')}/{quote(value, safe='')}")

    def clear_dynamic_configuration(self, name: str) -> None:
        """Let a setting be again what the broker was started with."""
        self._http.request("DELETE", f"brokers/configuration/{quote(name, safe='')}")

    def _entry(self, path: str) -> RestEntry:
        response = self._http.request("GET", path)
        try:
            return RestEntry.of(response.headers, response.data)
        except (KeyError, ValueError):
            raise HarnessError(f"GET {path}: not an entry, or one without a position") from None


class _StatsFields(msgspec.Struct):
    """A topic's stats as far as the names of fields go."""

    publishers: tuple[Mapping[str, object], ...] = ()
    subscriptions: Mapping[str, Mapping[str, object]] = {}


def _subscription_path(topic: str, subscription: str) -> str:
    return f"{topic_path(topic)}/subscription/{quote(subscription, safe='')}"
