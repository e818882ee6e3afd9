"""The settings of running brokers, which only super users may read, and what differs between brokers.

The brokers of a rolling upgrade to draining hashes have different implementations of Key_Shared. The owner of a topic
decides. The brokers of a deployment are asked for it; on a running cluster, nobody is.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from http import HTTPStatus
from typing import Final

from conformance.brokers.deployment import deployment_of
from conformance.brokers.interface import Broker, Capability
from conformance.brokers.select import each_release
from conformance.brokers.startup.probe import Probe
from conformance.clients.admin.client import Admin
from conformance.clients.admin.http import AdminError, namespace_of
from conformance.clients.security.transport import address, addresses_of
from conformance.lockstep.answers import LateToReturn
from conformance.tenancy.cluster_settings import CLASSIC
from conformance.wait import wait_until

OWNER_TIMEOUT_S: Final = 30.0
"""How long a topic may be without an owner after its broker has gone."""
_PAUSE_S: Final = 0.05
_REFUSED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_SHIPPED: Final = {
    "acknowledgmentAtBatchIndexLevelEnabled": "false",
    "brokerDeduplicationEnabled": "false",
    "delayedDeliveryEnabled": "true",
    "managedLedgerDefaultMarkDeleteRateLimit": "0.1",
}
"""The settings that all releases ship with a value other than the code's default."""


def settings_in_force(admin: Admin) -> Mapping[str, str] | None:
    """The settings of the broker; None where the role may not read them."""
    try:
        return admin.runtime_configuration()
    except AdminError as error:
        if error.status in _REFUSED:
            return None
        raise


def shipped_settings(*, has_draining_hashes: bool) -> Mapping[str, str]:
    """The shipped settings. A release with draining hashes uses them."""
    return {**_SHIPPED, CLASSIC: "false"} if has_draining_hashes else _SHIPPED


class Dispatchers:
    """The brokers of a run, of one release or several: who owns a topic, with which implementation of Key_Shared."""

    def __init__(self, broker: Broker) -> None:
        """Ask nobody yet."""
        self._broker = broker
        self._are_ours = Capability.TAKEOVER in broker.capabilities
        """The brokers are known to each other by the addresses that the suite has."""

    @cached_property
    def _admin_urls(self) -> Mapping[str, str]:
        """By service address, the admin address of each broker."""
        addresses = self._broker.addresses
        return dict(zip(_each(addresses.service_url), _each(addresses.admin_url), strict=False))

    @cached_property
    def _probes(self) -> Sequence[Probe]:
        return [Probe(url) for url in self._admin_urls.values()]

    @cached_property
    def _have_setting(self) -> Mapping[str, bool]:
        """By admin address, whether a broker has the setting of the classic implementation, and so draining hashes."""
        service = self._broker.addresses.admin
        urls = _each(service.url)
        if len(urls) == 1:
            return {}
        each = {url: settings_in_force(Admin(service.at(url))) for url in urls}
        return {url: CLASSIC in settings for url, settings in each.items() if settings is not None}

    @property
    def are_alike(self) -> bool:
        """Whether all brokers have the same implementation."""
        return len(set(self._have_setting.values())) <= 1

    @property
    def are_known(self) -> bool:
        """Whether the implementation of each topic is known."""
        return self.are_alike or self._are_ours

    def drains_on(self, topic: str) -> bool | None:
        """Whether the present owner of a topic has draining hashes; None if all brokers are alike.

        Raises :class:`LateToReturn` if no broker owns it in time.
        """
        if self.are_alike or not self._are_ours:
            return None
        return self._have_setting[self._admin_urls[self._owner_of(topic)]]

    def spread(self, topic: str, admin: Admin) -> None:
        """In a rolling upgrade, have each broker own the topics of some namespaces, before this one is created.

        Left alone, a broker may own the topics of all. The namespace decides, so that a seed repeats the choice.
        """
        if not self._are_ours or len(set(each_release(self._broker.name))) == 1:
            return
        namespace, urls = namespace_of(topic), list(self._admin_urls)
        wanted = urls[zlib.crc32(namespace.rpartition("/")[2].encode()) % len(urls)]
        if self._owner_of(topic) != wanted:
            admin.unload_namespace(namespace, to=self._admin_urls[wanted].partition("://")[2])
        self._await_agreement(topic)

    def _await_agreement(self, topic: str) -> None:
        """Wait until each broker knows the owner. Until then, one may try to become the owner for a request, and answer
        500 (1 in 20 after a kill, measured with 3.3.6 and 4.0.8).
        """

        def is_settled() -> bool:
            owner = self._owner_of(topic)
            return all(probe.known_owner(topic) == owner for probe in self._probes)

        if not wait_until(is_settled, OWNER_TIMEOUT_S, pause_s=_PAUSE_S):
            raise LateToReturn(f"not all brokers know the owner of {topic} within {OWNER_TIMEOUT_S:g} s")

    def _owner_of(self, topic: str) -> str:
        """The service address of a topic's owner; the first broker that answers does the look-up."""
        deployment = deployment_of(self._broker)

        def asked() -> str | None:
            if deployment is not None:
                broker = deployment.owner_of(topic)
                return None if broker is None else broker.addresses.service_url
            urls = (probe.owner(topic) for probe in self._probes)
            return next((url for url in urls if url in self._admin_urls), None)

        owner = wait_until(asked, OWNER_TIMEOUT_S, pause_s=_PAUSE_S)
        if owner is None:
            raise LateToReturn(f"no broker owns {topic} within {OWNER_TIMEOUT_S:g} s")
        return owner


def _each(url: str) -> list[str]:
    """The addresses of an address with several hosts."""
    scheme = url.partition("://")[0]
    return [f"{scheme}://{address(*one)}" for one in addresses_of(url, (scheme,))]
