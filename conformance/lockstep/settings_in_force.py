"""The settings of running brokers, which only super users may read, and what differs between brokers.

The brokers of a rolling upgrade to draining hashes have different implementations of Key_Shared. The owner of a topic
decides. A deployment can be asked for owners; on a running cluster, nobody is.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from http import HTTPStatus
from typing import Final

from conformance.brokers.deployment import deployment_of
from conformance.brokers.interface import Broker
from conformance.clients.admin.client import Admin
from conformance.clients.admin.http import AdminError
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
    """The implementations of Key_Shared at one broker or several."""

    def __init__(self, broker: Broker) -> None:
        """Ask nobody yet."""
        self._broker = broker
        self._deployment = deployment_of(broker)

    @cached_property
    def _have_setting(self) -> Mapping[str, bool]:
        """By admin address, whether a broker has the setting of the classic implementation, and so draining hashes."""
        service = self._broker.addresses.admin
        scheme, _, hosts = service.url.partition("://")
        urls = [f"{scheme}://{host}" for host in hosts.split(",")]
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
        return self.are_alike or self._deployment is not None

    def drains_on(self, topic: str) -> bool | None:
        """Whether the present owner of a topic has draining hashes; None if all brokers are alike.

        Raises :class:`LateToReturn` if no broker owns it in time.
        """
        deployment = self._deployment
        if self.are_alike or deployment is None:
            return None
        owner = wait_until(lambda: deployment.owner_of(topic), OWNER_TIMEOUT_S, pause_s=_PAUSE_S)
        if owner is None:
            raise LateToReturn(f"no broker owns {topic} within {OWNER_TIMEOUT_S:g} s")
        return self._have_setting[owner.addresses.admin_url]
