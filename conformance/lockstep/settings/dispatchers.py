"""Which implementation of Key_Shared a topic has: the one with draining hashes, or the classic one.

There are three kinds of releases, and the stats of a subscription show which one it is: before 4.0 there is only the
classic implementation; 4.0 to 4.2 have both, and a setting to switch; later ones have draining hashes only. The brokers
of a rolling upgrade may be of different kinds. The owner of a topic decides.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import count
from typing import Final

from conformance.brokers.deployment import deployment_of
from conformance.brokers.interface import Broker, Capability
from conformance.brokers.select import each_release
from conformance.brokers.startup.probe import Probe
from conformance.clients.admin.client import Admin
from conformance.clients.admin.http import AdminError, namespace_of
from conformance.clients.security.transport import address, addresses_of
from conformance.lockstep.answers import LateForStats, LateToReturn
from conformance.tenancy.cluster_settings import CLASSIC, ClusterSettings
from conformance.wait import Deadline, retry, wait_until

DRAINING_FIELD: Final = "drainingHashesCount"
"""A field of a subscription's stats, in releases with draining hashes, whatever implementation it has."""
OWNER_TIMEOUT_S: Final = 30.0
"""How long a topic may be without an owner after its broker has gone."""
SETTING_TIMEOUT_S: Final = 10.0
"""How long a dynamic setting may take to be in force."""
_PAUSE_S: Final = 0.05


class KeySharedImplementation:
    """The implementation of the topics that are loaded on brokers that are alike, and how to change it."""

    def __init__(
        self, admin: Admin, settings: ClusterSettings, *, shows_draining: bool, has_switch: bool, is_classic: bool
    ) -> None:
        """``shows_draining``: the stats have fields of draining hashes. ``is_classic``: topics do not use them now."""
        self._admin = admin
        self._settings = settings
        self.is_switchable: Final = shows_draining and has_switch
        """Whether the release has both implementations, and the switch can be read."""
        self._can_switch = self.is_switchable and settings.may_change
        self._is_usually_classic = is_classic or not shows_draining
        self._is_classic = self._is_usually_classic

    @property
    def can_be_classic(self) -> bool:
        """Whether topics can have the classic implementation."""
        return self._can_switch or self._is_classic

    @property
    def can_drain(self) -> bool:
        """Whether topics can have draining hashes."""
        return self._can_switch or not self._is_classic

    @property
    def has_draining_hashes(self) -> bool:
        """Whether topics that are loaded now have draining hashes."""
        return not self._is_classic

    def use_classic(self, on: bool) -> bool:
        """Switch the implementation for topics that are loaded from now on; whether the broker can."""
        if on == self._is_classic:
            return True
        value = str(on).lower()
        if not self._can_switch or not self._settings.change(CLASSIC, value):
            return False
        if not wait_until(lambda: self._admin.runtime_configuration().get(CLASSIC) == value, SETTING_TIMEOUT_S):
            raise LateForStats(f"the broker does not follow its setting {CLASSIC}")
        self._is_classic = on
        return True

    def restore(self) -> None:
        """Undo the switch."""
        self.use_classic(self._is_usually_classic)


class Dispatchers:
    """The brokers of a run, of one release or several: who owns a topic, with which implementation of Key_Shared."""

    def __init__(self, broker: Broker, namespace: Callable[[], str]) -> None:
        """Ask nobody yet. ``namespace``: has topics of nobody else, and is moved from broker to broker."""
        self._broker = broker
        self._namespace = namespace
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
    def are_of_one_release(self) -> bool:
        """Whether all brokers are named, and report to be, of the same release."""
        urls = _each(self._broker.addresses.admin.url)
        are_named_alike = len(set(each_release(self._broker.name))) == 1
        return are_named_alike and (len(urls) == 1 or len({self._version_at(url) for url in urls}) == 1)

    def _version_at(self, url: str) -> str:
        with Admin(self._broker.addresses.admin.at(url)) as admin:
            return admin.broker_version()

    @cached_property
    def _draining(self) -> Mapping[str, bool]:
        """By release, whether its brokers show draining hashes. Of brokers of several releases, each is asked: it is
        made the owner of a topic with a subscription, where the role may do that."""
        found: dict[str, bool] = {}
        each = {} if self.are_of_one_release else self._admin_urls
        for number, (owner, url) in enumerate(each.items()):
            topic = f"persistent://{self._namespace()}/of-broker-{number}"
            with suppress(AdminError):
                found[self._version_at(url)] = self._shows_draining(topic, owner, name=url.partition("://")[2])
        return found

    def _shows_draining(self, topic: str, owner: str, *, name: str) -> bool:
        """What one broker shows, which owns the topic before it is asked and still after that."""
        with Admin(self._broker.addresses.admin) as admin:
            attempts = count()

            def fields_by_owner() -> Collection[str] | None:
                if self._owner_of(topic) != owner:
                    admin.unload_namespace(namespace_of(topic), to=name)
                admin.ensure_topic(topic)
                admin.create_subscription(topic, f"s-{next(attempts)}", earliest=True)
                fields = admin.stats_fields(topic)
                return fields["subscriptions"] if self._owner_of(topic) == owner else None

            deadline = Deadline.after(OWNER_TIMEOUT_S)
            shown = wait_until(lambda: retry(fields_by_owner, deadline, pause_s=_PAUSE_S), deadline, pause_s=_PAUSE_S)
        if shown is None:
            raise LateToReturn(f"{owner} does not own {topic} within {OWNER_TIMEOUT_S:g} s")
        return DRAINING_FIELD in shown

    @property
    def are_alike(self) -> bool:
        """Whether all brokers have the same implementation."""
        return self.are_of_one_release or (self._is_complete and len(set(self._draining.values())) == 1)

    @property
    def _is_complete(self) -> bool:
        return {self._version_at(url) for url in self._admin_urls.values()} <= self._draining.keys()

    @property
    def are_known(self) -> bool:
        """Whether the implementation of each topic is known: where brokers differ, only a deployment's owners are."""
        return self.are_alike or (self._are_ours and self._is_complete)

    def drains_on(self, topic: str) -> bool | None:
        """Whether the present owner of a topic has draining hashes; None if all brokers are alike.

        Raises :class:`LateToReturn` if no broker owns it in time.
        """
        if self.are_alike or not self.are_known:
            return None
        owner = self._version_at(self._admin_urls[self._owner_of(topic)])
        return self._draining[owner] and self._broker.configuration.get(CLASSIC) != "true"

    def spread(self, topic: str, admin: Admin) -> None:
        """In a rolling upgrade, have each broker own the topics of some namespaces, before this one is created.

        Left alone, a broker may own the topics of all. The namespace decides, so that a seed repeats the choice.
        """
        if not self._are_ours or self.are_of_one_release:
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
            return next(
                (url for url in urls if url is not None and (url in self._admin_urls or not self._are_ours)), None
            )

        owner = wait_until(asked, OWNER_TIMEOUT_S, pause_s=_PAUSE_S)
        if owner is None:
            raise LateToReturn(f"no broker owns {topic} within {OWNER_TIMEOUT_S:g} s")
        return owner


def _each(url: str) -> list[str]:
    """The addresses of an address with several hosts."""
    scheme = url.partition("://")[0]
    return [f"{scheme}://{address(*one)}" for one in addresses_of(url, (scheme,))]
