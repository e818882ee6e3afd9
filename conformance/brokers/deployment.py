"""A deployment of a release on this machine: a ZooKeeper, bookies and brokers, a process each.

The deployment has the interface of one broker, for any number of brokers: a kill or restart applies to all of them.
Each broker can also be killed, frozen and restarted alone, while the others run. ``conformance.faults`` switches
defects on through the agents.
"""

from __future__ import annotations

import itertools
import signal
import threading
from collections.abc import Mapping, Sequence
from typing import Final, assert_never

from packaging.version import Version

from conformance.brokers.interface import OF_ONE_BROKER, Addresses, AgentAddress, Broker, Capability
from conformance.brokers.processes.bookie import BookieProcess
from conformance.brokers.processes.broker import SHIPPED, BrokerProcess
from conformance.brokers.processes.members import DeploymentProcesses
from conformance.brokers.processes.preparation import Preparation
from conformance.brokers.processes.zookeeper import ZooKeeperProcess
from conformance.brokers.release import Release
from conformance.brokers.settings import ROLLBACK, Base, suite_settings
from conformance.brokers.settings.known import known_settings
from conformance.brokers.size import SMALLEST, Size
from conformance.brokers.startup.agent import ATTACHABLE
from conformance.brokers.startup.ports import HOST
from conformance.brokers.together import await_all, end_all
from conformance.harness_error import HarnessError
from model.operations import Loss, OfTwo


class _ClusterNames:
    """Names for the clusters that run in this process: as few as there are at once, as each has metadata of its own."""

    def __init__(self) -> None:
        self._in_use: set[str] = set()
        self._lock = threading.Lock()

    def take(self) -> str:
        with self._lock:
            numbered = (f"conformance-{number}" for number in itertools.count(1))
            name = next(name for name in numbered if name not in self._in_use)
            self._in_use.add(name)
            return name

    def give_back(self, name: str) -> None:
        with self._lock:
            self._in_use.discard(name)


_NAMES: Final = _ClusterNames()

ENOUGH_BOOKIES: Final = 3
"""With so many bookies, one can be lost, and ledgers with two copies continue on another one."""


class Deployment:
    """A ZooKeeper, bookies and brokers of an unpacked distribution.

    ``settings`` go on top of a base of :mod:`conformance.brokers.settings`, by their names in ``broker.conf`` and
    ``bookkeeper.conf``. ``others``: further releases; brokers are of each in turn, as in a rolling upgrade, until they
    are restarted with another one, and all else is of ``release``. ``with_agent``: whether brokers can load Byteman,
    which defects and failpoints need.
    """

    def __init__(
        self,
        release: Release,
        *,
        name: str | None = None,
        settings: Mapping[str, str] | None = None,
        base: Base = "quick",
        with_agent: bool = True,
        size: Size = SMALLEST,
        others: Sequence[Release] = (),
    ) -> None:
        """Nothing is started yet."""
        self.name: Final = name or release.version
        self.size: Final = size
        self.release: Final = release
        self.releases: Final = (release, *others)
        self.settings: Final = suite_settings(settings or {}, base)
        self.with_agent: Final = with_agent
        self.brokers: Final = tuple(DeploymentBroker(self, number) for number in range(size.brokers))
        self.changed: Mapping[str, str] = {}
        """Further settings of restarted brokers and bookies."""
        self.cluster: str | None = None
        self._members: DeploymentProcesses | None = None
        self._ports: tuple[int, ...] = ()
        self._settings_of_bookies: Mapping[str, str] | None = None

    @property
    def members(self) -> DeploymentProcesses:
        """Its processes, from its start until it is stopped. Raises HarnessError before that."""
        if self._members is None:
            raise HarnessError(f"The broker {self.name} has not been started.")
        return self._members

    @property
    def is_started(self) -> bool:
        """Whether it has processes."""
        return self._members is not None

    def prepare(self) -> Mapping[str, Preparation]:
        """Prepare releases once, so that no run waits for it; by version.

        Raises:
            HarnessError: there is no Java, or the metadata of a cluster cannot be made.
        """
        made = {release.version: Preparation(release, release.java()) for release in self.releases}
        for preparation in made.values():
            preparation.make()
        return made

    @property
    def version(self) -> str:
        """The version that its first broker reports."""
        return self.brokers[0].version

    @property
    def addresses(self) -> Addresses:
        """The addresses of its brokers, without frozen ones; no proxy is advertised."""
        each = [broker.addresses for broker in self._awake() or self.brokers]
        return Addresses(
            service_url=_joined([one.service_url for one in each]), admin_url=_joined([one.admin_url for one in each])
        )

    @property
    def configuration(self) -> Mapping[str, str]:
        """The settings that the suite gave it, without what a deployment needs and what differs from run to run."""
        return dict(self.settings)

    @property
    def capabilities(self) -> frozenset[Capability]:
        """All that its size allows; no defects without the agent."""
        able = OF_ONE_BROKER - (set() if self.with_agent else {Capability.DEFECTS}) | {Capability.METADATA_STORE}
        several = {Capability.TAKEOVER} if self.size.brokers > 1 else set()
        spare = {Capability.BOOKIES} if self.size.bookies >= ENOUGH_BOOKIES else set()
        synced = {Capability.POWER_FAILURE} if self._records_syncs else set()
        return able | several | spare | synced

    @property
    def _records_syncs(self) -> bool:
        """Whether it is known what a bookie loses in a power failure: its journal is synced, and it has the agent."""
        return self.with_agent and self.settings.get("journalSyncData", "true") == "true"

    @property
    def two_releases(self) -> Mapping[OfTwo, Release] | None:
        """The older and the newer one of a rolling upgrade; None if its brokers are of one release."""
        older, *_, newer = sorted((self.release, *self.releases), key=lambda one: Version(one.version))
        return {"older": older, "newer": newer} if older.version != newer.version else None

    def load_agents(self) -> tuple[AgentAddress, ...]:
        """Load Byteman into all of its brokers' processes that do not have it."""
        return tuple(agent for broker in self.brokers for agent in broker.load_agents())

    def load_bookie_agents(self) -> tuple[AgentAddress, ...]:
        """Load Byteman into all of its bookies that run and do not have it."""
        if not self.with_agent:
            raise HarnessError(f"The broker {self.name} was to have no agent inside.")
        awake = [bookie for bookie in self.members.bookies if bookie.is_running]
        for bookie in awake:
            bookie.load_agent()
        return tuple(AgentAddress(host=HOST, port=bookie.agent_port) for bookie in awake)

    def start(self) -> None:
        """Start all processes that do not run, and wait until all brokers are ready.

        Raises:
            HarnessError: all brokers run already; or a process ended, or was not ready in time: then the message has
                the end of its log. Of a new deployment nothing is left then; otherwise these brokers do not run, and
                their data and addresses stay for the next start.
        """
        is_new = self._members is None
        started: list[DeploymentBroker] = []
        try:
            if is_new:
                self._start_zookeeper()
                self._start_bookies()
            else:
                self.require_others()
            started += [broker for broker in self.brokers if not broker.process.is_running]
            if not started:
                raise HarnessError(f"The broker {self.name} runs already.")
            for broker in started:
                broker.start_process()
            for bookie in self.members.bookies:
                self._await_bookie(bookie)
            await_all(started)
        except BaseException:
            if is_new:
                self.stop()
            else:
                end_all(started)
            raise

    def start_empty(self) -> None:
        """Kill all processes, remove their data, and start it again without any, with its name and addresses."""
        self._ports = self.members.ports
        self.members.close()
        self._members = None
        self.start()

    def restart(self, settings: Mapping[str, str] | None = None) -> None:
        """Stop all brokers with SIGTERM, one after the other, and start them again with these settings."""
        self.require_others()  # without the others a broker does not end gracefully
        for broker in self.brokers:
            broker.shut_down()
        if settings is not None:
            self.follow(settings)
        self.start()

    def kill(self) -> None:
        """Kill all brokers with SIGKILL; their data stays for the next start."""
        for broker in self.brokers:
            broker.process.send_signal(signal.SIGKILL)
        for broker in self.brokers:
            broker.process.await_end()

    def pause(self) -> None:
        """Freeze all brokers; their connections stay open."""
        for broker in self.brokers:
            broker.pause()

    def resume(self) -> None:
        """Continue all frozen brokers."""
        for broker in self.brokers:
            broker.resume()

    def is_alive(self) -> bool:
        """Whether ZooKeeper, a bookie and all brokers run, and the brokers that are not frozen answer."""
        awake = self._awake()
        return bool(awake) and all(broker.is_alive() for broker in awake)

    def ended_with(self) -> int | None:
        """The exit status of the first broker whose process has ended."""
        return next((status for broker in self.brokers if (status := broker.ended_with()) is not None), None)

    def log_tail(self, *, lines: int = 50) -> str:
        """Return the last lines of each broker's log, until the deployment is stopped."""
        return "\n".join(f"{broker.label}:\n{broker.log_tail(lines=lines)}" for broker in self.brokers)

    def stop(self) -> None:
        """Kill all processes and remove their run folder with data and logs. Safe to call twice."""
        if self._members is not None:
            self._members.close()
            self._members = self._settings_of_bookies = None
        if self.cluster is not None:
            _NAMES.give_back(self.cluster)
            self.cluster = None

    def owner_of(self, topic: str) -> DeploymentBroker | None:
        """Look up the owner of a topic, which assigns one if necessary; None while there is none.

        The first broker that answers does the look-up. A dead owner is returned until its session has ended.
        """
        for asked in self._awake():
            url = asked.process.probe.owner(topic)
            if url is not None:
                return next((one for one in self.brokers if one.addresses.service_url == url), None)
        return None

    def follow(self, settings: Mapping[str, str]) -> None:
        """Change the settings on top; bookies with other settings are restarted one after the other."""
        self.changed = settings
        if self._of_bookies() != self._settings_of_bookies:
            for bookie in self.members.bookies:
                bookie.end(signal.SIGTERM)
                bookie.start(self._of_bookies())
                self._await_bookie(bookie)
            self._settings_of_bookies = self._of_bookies()

    def lose_bookie(self, number: int, how: Loss) -> None:
        """Have a bookie be away and end its session, so that no new ledger uses it."""
        bookie = self.members.bookies[number]
        match how:
            case "kill":
                bookie.end(signal.SIGKILL)
            case "freeze":
                bookie.send_signal(signal.SIGSTOP)
            case "power-failure":
                bookie.lose_power()
            case _:
                assert_never(how)
        bookie.end_session()

    def fail_power(self) -> None:
        """Have all bookies, whose brokers were killed, lose what they did not sync, and start them again."""
        for bookie in self.members.bookies:
            bookie.lose_power()
        for bookie in self.members.bookies:
            bookie.start(self._of_bookies())
        for bookie in self.members.bookies:
            self._await_bookie(bookie)

    def restore_bookie(self, number: int) -> None:
        """Restore a lost bookie on its data, and wait until it is registered.

        A frozen one may register again, at once or after its session timeout, or shut down because it lost its session.
        It is restarted instead of waiting for the timeout.
        """
        bookie = self.members.bookies[number]
        if bookie.is_running:
            bookie.send_signal(signal.SIGCONT)
            if not bookie.registers_soon() and bookie.is_running:
                bookie.end(signal.SIGKILL)
        if not bookie.is_running:
            bookie.start(self._of_bookies())
        self._await_bookie(bookie)

    @property
    def outlives_sessions(self) -> bool:
        """Whether a broker whose session expires goes on with another one, and does not end."""
        return "zookeeperSessionExpiredPolicy=reconnect" in self.release.shipped(SHIPPED).splitlines()

    @property
    def zookeeper(self) -> ZooKeeperProcess:
        """Its metadata store."""
        return self.members.zookeeper

    def end_sessions(self) -> None:
        """Have the sessions of all brokers in ZooKeeper expire now."""
        for broker in self.brokers:
            broker.end_session()

    def _awake(self) -> tuple[DeploymentBroker, ...]:
        """The brokers that are not frozen."""
        return tuple(broker for broker in self.brokers if not broker.is_frozen)

    def require_others(self) -> None:
        """Raise HarnessError unless ZooKeeper, if need be after it has returned, and a bookie run."""
        self.zookeeper.await_return()
        self.zookeeper.require_running()
        if not any(bookie.is_running for bookie in self.members.bookies):
            self.members.bookies[0].require_running()

    def of_brokers(self) -> Mapping[str, str]:
        """The settings for the brokers, without those of bookies only."""
        return {name: value for name, value in self._all().items() if name not in self._of_bookies()}

    def for_rollback(self, release: Release) -> Mapping[str, str]:
        """The settings with which brokers of a release store only what the older one reads."""
        two = self.two_releases
        if two is None or release != two["newer"]:
            return {}
        older, newer = known_settings(two["older"].folder).broker, known_settings(release.folder).broker
        return {name: one.value for name, one in ROLLBACK.items() if name in newer and name not in older}

    def _of_bookies(self) -> Mapping[str, str]:
        known = known_settings(self.release.folder)
        return {name: value for name, value in self._all().items() if name in known.bookie}

    def _all(self) -> Mapping[str, str]:
        return {**self.settings, **self.changed}

    def _await_bookie(self, bookie: BookieProcess) -> None:
        """Wait until a bookie is registered, and record what it syncs from then on."""
        bookie.await_ready()
        if self._records_syncs:
            bookie.load_agent()

    def _start_zookeeper(self) -> None:
        made = self.prepare()
        of_first = made[self.release.version]
        self.cluster = self.cluster or self.settings.get("clusterName") or _NAMES.take()
        metadata = of_first.metadata(self.cluster)
        self._members = DeploymentProcesses(
            self.releases,
            [made[release.version].java for release in self.releases],
            name=self.name,
            options=lambda release, kind: (*ATTACHABLE, *made[release.version].archive(kind)),
            size=self.size,
            ports=self._ports,
        )
        self._members.zookeeper.start(metadata)

    def _start_bookies(self) -> None:
        self._settings_of_bookies = self._of_bookies()
        for bookie in self.members.bookies:
            bookie.start(self._settings_of_bookies)


class DeploymentBroker:
    """One of the brokers of a deployment; the start of the first one starts all."""

    def __init__(self, deployment: Deployment, number: int) -> None:
        """Nothing is started yet."""
        self.deployment: Final = deployment
        self._number: Final = number
        self._version: str | None = None
        self.is_frozen = False
        """Whether nobody is to ask it who owns a topic."""

    @property
    def name(self) -> str:
        """The version, or ``dist:PATH``."""
        return self.deployment.name

    @property
    def label(self) -> str:
        """Its name in its deployment."""
        return f"broker {self._number + 1}"

    @property
    def lookup_address(self) -> str:
        """Its name for other brokers: the address that it is registered with."""
        return f"{HOST}:{self.process.ports.admin}"

    @property
    def release(self) -> Release:
        """That of its process, or of its next one."""
        return self.process.site.release

    @property
    def first_release(self) -> Release:
        """The release that it has when its deployment starts."""
        return self.deployment.releases[self._number % len(self.deployment.releases)]

    @property
    def process(self) -> BrokerProcess:
        """Its process, running or not. Raises HarnessError before the deployment is started."""
        return self.deployment.members.brokers[self._number]

    @property
    def version(self) -> str:
        """The version that the running broker reports, or else that of its jars."""
        if self._version is None:
            raise HarnessError(f"The broker {self.name} has not been started.")
        return self._version

    @property
    def addresses(self) -> Addresses:
        """Its addresses, from its first start until it is stopped."""
        ports = self.process.ports
        return Addresses(
            service_url=f"pulsar://{HOST}:{ports.service}",
            admin_url=f"http://{HOST}:{ports.admin}",
            proxy_port=ports.proxy,
        )

    @property
    def configuration(self) -> Mapping[str, str]:
        """The settings that the suite gave it, without what a deployment needs and what differs from run to run."""
        return dict(self.deployment.settings)

    @property
    def capabilities(self) -> frozenset[Capability]:
        """All, except for defects without the agent."""
        return self.deployment.capabilities

    def load_agents(self) -> tuple[AgentAddress, ...]:
        """Load Byteman into the broker's process, unless it has it."""
        if not self.deployment.with_agent:
            raise HarnessError(f"The broker {self.name} was to have no agent inside.")
        self.process.load_agent()
        return (AgentAddress(host=HOST, port=self.process.ports.agent),)

    def start(self) -> None:
        """Start the deployment, or after a kill this broker, on the data it has, and wait until it is ready.

        Raises:
            HarnessError: it runs already; or a process ended, or was not ready in time: then the message has the end of
                its log. Of a new deployment nothing is left then; otherwise this broker does not run, and its data and
                addresses stay for the next start.
        """
        if not self.deployment.is_started:
            self.deployment.start()
            return
        if self.process.is_running:
            raise HarnessError(f"The broker {self.name} runs already.")
        try:
            self.deployment.require_others()
            self.start_process()
            self.await_ready()
        except BaseException:
            end_all([self])
            raise

    def start_process(self) -> None:
        """Start its process; :meth:`await_ready` waits for it."""
        self.is_frozen = False
        if self.process.relay is not None:
            self.process.relay.heal()
        deployment = self.deployment
        assert deployment.cluster is not None
        self.process.start(
            {**deployment.for_rollback(self.release), **deployment.of_brokers()},
            cluster=deployment.cluster,
            size=deployment.size,
        )

    def await_ready(self) -> None:
        """Wait until it is ready, and read its version."""
        self.process.await_ready()
        reported, own = self.process.probe.version(), self.release.version
        # A candidate reports the release that it is for.
        self._version = own if reported is None or own.startswith(f"{reported}-") else reported

    def restart(self, settings: Mapping[str, str] | None = None) -> None:
        """Stop the broker with SIGTERM, on which it unloads its topics, and start it again with these settings."""
        self.deployment.require_others()  # without the others a broker does not end gracefully
        self.shut_down()
        if settings is not None:
            self.deployment.follow(settings)
        self.start()

    def change_release(self, release: Release) -> None:
        """Stop the broker with SIGTERM, and start it again with another release of its deployment, on the same data."""
        self.deployment.require_others()
        self.shut_down()
        self.process.site = self.deployment.members.sites[release.version]
        self.start()

    def shut_down(self) -> None:
        """Stop the broker with SIGTERM, on which it unloads its topics; ``start`` starts it again."""
        self.process.end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the broker with SIGKILL; its data stays for the next start."""
        self.process.end(signal.SIGKILL)

    def end_session(self) -> bool:
        """Expire its session in ZooKeeper now, in any state of the broker; whether it had one.

        Another broker may then own its topics.
        """
        return self.process.end_session()

    def pause(self) -> None:
        """Freeze the broker; its connections stay open."""
        self.process.send_signal(signal.SIGSTOP)
        self.is_frozen = True

    def cut_off(self) -> None:
        """Cut the broker of several off from ZooKeeper; its clients still reach it."""
        assert self.process.relay is not None
        self.process.may_end()
        self.process.relay.cut()
        self.is_frozen = True

    def resume(self) -> None:
        """Continue a frozen broker, or let one that is cut off reach ZooKeeper again."""
        self.is_frozen = False
        relay = self.process.relay
        if relay is not None and relay.is_cut:
            relay.heal()
        else:
            self.process.send_signal(signal.SIGCONT)

    def is_alive(self) -> bool:
        """Whether ZooKeeper, a bookie and the broker run, and the broker answers; a frozen one does not."""
        if not self.deployment.is_started:
            return False
        self.deployment.members.zookeeper.await_return()
        return self._is_storage_running and self.process.is_running and self.process.probe.clusters() is not None

    def ended_with(self) -> int | None:
        """The exit status of its process, if that has ended while the others run."""
        if not self.deployment.is_started or not self._is_storage_running:
            return None
        return self.process.process.exit_status()

    @property
    def _is_storage_running(self) -> bool:
        """Whether ZooKeeper and a bookie run."""
        members = self.deployment.members
        return members.zookeeper.is_running and any(one.is_running for one in members.bookies)

    def stop(self) -> None:
        """Stop the whole deployment, and remove its run folder with data and logs."""
        self.deployment.stop()

    def log_tail(self, *, lines: int = 50) -> str:
        """Return the last lines of the broker's log, until it is stopped."""
        return self.process.process.last_lines(lines) if self.deployment.is_started else ""


def deployment_of(broker: Broker) -> Deployment | None:
    """The deployment of a broker; None for brokers of another kind."""
    match broker:
        case Deployment():
            return broker
        case DeploymentBroker(deployment=deployment):
            return deployment
        case _:
            return None


def has_others(broker: Broker) -> bool:
    """Whether a broker is one of several of its deployment."""
    deployment = deployment_of(broker)
    return deployment is not None and deployment.size.brokers > 1


def _joined(urls: Sequence[str]) -> str:
    """One address for all of these, ``scheme://host:port,host:port``."""
    scheme, _, first = urls[0].partition("://")
    return f"{scheme}://{','.join([first, *(url.partition('://')[2] for url in urls[1:])])}"
