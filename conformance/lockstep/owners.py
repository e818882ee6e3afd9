"""The owners of one example's topics in a deployment of several brokers: how they lose topics, and what zombies do.

A broker loses its topics when it is killed, shut down, frozen, or asked to unload them. Its session in the metadata
store is ended at once, without waiting for the timeout. The example continues after another broker owns the topics. If
the owner is frozen, the others have loaded the topics by then and closed its ledgers. A killed broker restarts at once,
a frozen one continues when it is thawed. Until then, wire sessions to it are kept here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, assert_never

from msgspec.structs import replace

from conformance.brokers.deployment import DeploymentBroker, deployment_of
from conformance.brokers.release import Release
from conformance.clients.admin.client import NO_SUCH_REQUEST
from conformance.clients.admin.http import AdminError, namespace_of
from conformance.lockstep.answers import Answers, LateToReturn, expected_back
from conformance.lockstep.bookies import Bookies
from conformance.lockstep.cursors.consumers import WireMember, chosen
from conformance.lockstep.sessions import ANSWER_TIMEOUT_S, WireSession
from conformance.lockstep.world import World
from conformance.wait import Deadline, wait_until
from model.events import Acknowledged, AnyOutcome, Done, FormerAnswer, Skipped, TakenOver, Thawed
from model.operations import (
    AcknowledgeAtFrozen,
    Departure,
    Disturbance,
    DisturbMetadataStore,
    FreezeOwner,
    Isolation,
    LoseBookie,
    OfTwo,
    RestoreBookies,
    SendToFrozen,
    TakeOver,
    ThawOwners,
)
from model.service.unexpected import NOT_REGISTERED, STALE_OWNER
from model.vocabulary import Entry

TAKEOVER_TIMEOUT_S: Final = 30.0
"""How long a takeover may take."""
RETURN_TIMEOUT_S: Final = 30.0
"""How long a thawed broker may take to notice that its session expired and to have another: 1 to 3 s were measured."""
STAYS_S: Final = 3.0
"""How long it must be registered in one session. If requests of its former session fail late, the broker considers the
metadata store unavailable until its next check, 2 s later with the shipped session timeout. Its ledgers do not roll
over meanwhile. A broker that considers its next session lost, too, is not registered by then."""
_PAUSE_S: Final = 0.02

_ANOTHER_STORE: Final = Skipped("the suite did not start its metadata store")
_SEVERAL_BROKERS: Final = Skipped("another broker might take the topics over")
_ENDS_WITH_SESSION: Final = Skipped("a broker of this release ends with its session, as it is shipped")
_ONE_BROKER: Final = Skipped("this deployment has one broker")
_NOT_AT_FROZEN: Final = Skipped("it is not connected to a frozen broker")


class Owners:
    """The brokers of one example's topics."""

    def __init__(self, world: World, topics: Mapping[str, str], answers: Answers) -> None:
        """``topics`` maps a history's names to real ones and grows during the example."""
        self._world = world
        self._topics = topics
        self._answers = answers
        self._deployment = deployment_of(world.broker)
        self._frozen: dict[DeploymentBroker, tuple[str, ...]] = {}
        """The frozen brokers, and the real names of the topics that each lost."""
        self._sessions: dict[str, WireSession] = {}
        self._members: dict[str, WireMember] = {}
        self._bookies = Bookies(world)
        self._is_store_disturbed = False
        self._to_start_again: tuple[DeploymentBroker, ...] = ()

    # ------------------------------------------------------------------------------------------------------- leaving

    def leave(self, operation: TakeOver | FreezeOwner) -> TakenOver | Skipped:
        """Have the owner of a topic lose it."""
        name, deployment = self._topics.get(operation.topic), self._deployment
        if deployment is None or deployment.size.brokers < 2:
            return _ONE_BROKER
        if name is None:
            return Skipped("there is no such topic")
        if self._frozen:
            return Skipped("a broker is frozen")
        if self._world.failpoints is not None:
            self._world.failpoints.clear()
        owners = self._owners_now()
        owner = owners[operation.topic]
        closed: tuple[str, ...] = ()
        wanted = operation.release if isinstance(operation, TakeOver) else None
        if operation.how != "unload" and self._prepare(owner, wanted):
            closed = tuple(topic for topic, one in owners.items() if one is not owner)
            owners = self._owners_now()
        lost = {topic: self._topics[topic] for topic, one in owners.items() if one is owner}
        if isinstance(operation, FreezeOwner):
            self._freeze(owner, operation.how, lost)
            taken = TakenOver(tuple(lost))
        elif operation.how == "unload":
            taken = self._unload(owner, operation.topic, lost, wanted)
        else:
            self._end(owner, operation.how, lost)
            taken = TakenOver(tuple(dict.fromkeys((*lost, *closed))))
        if deployment.two_releases is None:
            return taken
        present = self._owner_of(name)
        return replace(taken, releases=(owner.release.version, present.release.version))

    def _owners_now(self) -> dict[str, DeploymentBroker]:
        return {topic: self._owner_of(real) for topic, real in self._topics.items()}

    def _prepare(self, owner: DeploymentBroker, wanted: OfTwo | None) -> bool:
        """Have a broker beside the owner that is of the wanted release, by a restart if necessary; whether it was."""
        release, others = self._release(wanted), self._others(owner)
        if release is None or any(one.release == release for one in others):
            return False
        self._change_release(others[0], release)
        return True

    def _release(self, wanted: OfTwo | None) -> Release | None:
        """The wanted one of two releases; None if the brokers are of one, or any is wanted."""
        two = None if self._deployment is None else self._deployment.two_releases
        return None if two is None or wanted is None else two[wanted]

    def _change_release(self, broker: DeploymentBroker, release: Release) -> None:
        with expected_back():
            broker.change_release(release)
        self._world.broker_came_back(broker)

    def _end(self, owner: DeploymentBroker, how: Departure, lost: Mapping[str, str]) -> None:
        if how == "kill":
            owner.kill()
        else:
            owner.shut_down()
        owner.end_session()
        self._await_takeover(owner, lost)
        with expected_back():
            owner.start()
        self._world.broker_came_back(owner)

    def _freeze(self, owner: DeploymentBroker, how: Isolation, lost: Mapping[str, str]) -> None:
        if how == "freeze":
            owner.pause()
        else:
            owner.cut_off()
        self._frozen[owner] = tuple(lost.values())
        owner.end_session()
        self._world.look_elsewhere()
        self._await_takeover(owner, lost)
        for real in lost.values():
            self._answers.retry(
                lambda real=real: self._world.admin.internal_stats(real),  # type: ignore[misc]
                TAKEOVER_TIMEOUT_S,
                what="loading a topic",
                topic=real,
            )

    def _unload(self, owner: DeploymentBroker, topic: str, lost: Mapping[str, str], wanted: OfTwo | None) -> TakenOver:
        """Have the owner unload a topic's namespace, to another broker if the release can.

        If only the owner is of the wanted release, it loads the topics again.
        """
        namespace = namespace_of(lost[topic])
        here = {name: real for name, real in lost.items() if namespace_of(real) == namespace}
        release = self._release(wanted)
        (other, *_) = [one for one in self._others(owner) if release in (None, one.release)] or [owner]
        try:
            self._world.admin.unload_namespace(namespace, to=other.lookup_address)
        except AdminError as error:
            if error.status not in NO_SUCH_REQUEST:
                raise
            self._world.admin.unload_namespace(namespace)
        owners = {self._owner_of(real) for real in here.values()}
        self._world.forget_reader()
        return TakenOver(tuple(here), is_elsewhere=owner not in owners)

    def _await_takeover(self, owner: DeploymentBroker, lost: Mapping[str, str]) -> None:
        """Wait until the other brokers own the lost topics."""
        others = self._others(owner)
        urls = {one.addresses.service_url for one in others}

        def are_elsewhere() -> bool:
            return all(others[0].process.probe.owner(real) in urls for real in lost.values())

        self._world.forget_reader()
        if not wait_until(are_elsewhere, TAKEOVER_TIMEOUT_S, pause_s=_PAUSE_S):
            self._to_start_again = (owner, *others)
            raise LateToReturn(f"no other broker takes over {', '.join(lost)} within {TAKEOVER_TIMEOUT_S:g} s")

    def _others(self, owner: DeploymentBroker) -> list[DeploymentBroker]:
        assert self._deployment is not None
        return [one for one in self._deployment.brokers if one is not owner]

    def _owner_of(self, topic: str) -> DeploymentBroker:
        assert self._deployment is not None
        deployment = self._deployment
        owner = wait_until(lambda: deployment.owner_of(topic), TAKEOVER_TIMEOUT_S, pause_s=_PAUSE_S)
        if owner is None:
            self._world.assert_carried()
            raise LateToReturn(f"no broker owns {topic} within {TAKEOVER_TIMEOUT_S:g} s")
        return owner

    # -------------------------------------------------------------------------------------------------------- frozen

    def keep(self, sessions: Mapping[str, WireSession], members: Mapping[str, WireMember]) -> None:
        """Keep sessions and consumers that are connected to a frozen broker."""
        self._sessions.update(sessions)
        self._members.update(members)

    def perform(
        self,
        operation: SendToFrozen | AcknowledgeAtFrozen | ThawOwners | LoseBookie | RestoreBookies | DisturbMetadataStore,
    ) -> AnyOutcome:
        """Carry out one operation on a frozen broker, a bookie or the metadata store, and return the outcome."""
        match operation:
            case SendToFrozen(session, entries):
                return _sent(live, entries) if (live := self._sessions.get(session)) else _NOT_AT_FROZEN
            case AcknowledgeAtFrozen(consumer, nth):
                return _acknowledged(member, nth) if (member := self._members.get(consumer)) else _NOT_AT_FROZEN
            case ThawOwners():
                return self._thaw() if self._frozen else Skipped("no broker is frozen")
            case LoseBookie() | RestoreBookies():
                return self._bookies.perform(operation)
            case DisturbMetadataStore(how):
                return self._disturb(how)
            case _:
                assert_never(operation)

    def _thaw(self) -> Thawed:
        for broker in self._frozen:
            broker.resume()
        answers = tuple(self._last_answers())
        self._let_go()
        late = [why for broker, lost in self._frozen.items() if (why := self._late_return(broker, lost)) is not None]
        self._frozen.clear()
        self._world.look_elsewhere()
        if late:
            raise LateToReturn(f"{RETURN_TIMEOUT_S:g} s after it was thawed, a broker that lost its session {late[0]}")
        return Thawed(answers)

    def _last_answers(self) -> Iterator[FormerAnswer]:
        deadline = Deadline.after(ANSWER_TIMEOUT_S)
        for session, live in self._sessions.items():
            for entry, answer in live.last_answers(deadline):
                yield FormerAnswer(session, entry, answer)

    def _late_return(self, broker: DeploymentBroker, lost: Sequence[str] = ()) -> str | None:
        """Wait until a thawed broker is registered again; if it is not in time, start it again and say what is missing.

        Depending on the release, a broker that lost its session shuts down or reconnects. Until it has noticed that it
        lost its topics, too, it sends clients to itself, and answers for a topic that has changed since.
        """
        registered, own_url = _Steady(lambda: broker.process.session()), broker.addresses.service_url

        def missing() -> str | None:
            if not registered.is_steady():
                return registered.missing
            if not broker.is_alive():
                return "is registered again, but does not answer"
            wrong = {broker.process.probe.owner(topic) for topic in lost} & {None, own_url}
            return f"is registered again, but takes {wrong.pop() or 'nobody'} {STALE_OWNER}" if wrong else None

        came_back = wait_until(
            lambda: not broker.process.is_running or missing() is None, RETURN_TIMEOUT_S, pause_s=_PAUSE_S
        )
        why = None if came_back else missing() or "was not registered again"
        if not came_back or not broker.process.is_running:
            self._start_again(broker)
        broker.process.must_run()
        return why

    def _start_again(self, broker: DeploymentBroker) -> None:
        if broker.process.is_running:
            broker.kill()
        with expected_back():
            broker.start()
        self._world.broker_came_back(broker)

    def _disturb(self, how: Disturbance) -> Done | Skipped:
        """Disturb the metadata store, which comes back while the example goes on."""
        deployment = self._deployment
        if deployment is None:
            return _ANOTHER_STORE
        for member in (*deployment.members.bookies, *deployment.members.brokers):
            member.may_end()
        match how:
            case "freeze":
                deployment.zookeeper.freeze()
            case "restart":
                deployment.zookeeper.restart()
            case "expire" if deployment.size.brokers > 1:
                return _SEVERAL_BROKERS
            case "expire" if not deployment.outlives_sessions:
                return _ENDS_WITH_SESSION
            case "expire":
                deployment.end_sessions()
            case _:
                assert_never(how)
        self._is_store_disturbed = self._world.is_storage_disturbed = True
        return Done()

    def close(self) -> None:
        """Thaw all brokers, restore all bookies, releases and the store, and end connections to frozen brokers.

        Brokers between which a takeover failed start again here: before that, the example notices what they closed.
        """
        for broker in self._to_start_again:
            self._start_again(broker)
        self._to_start_again = ()
        if self._is_store_disturbed and self._deployment is not None:
            self._deployment.zookeeper.await_return()
            for broker in self._deployment.brokers:
                self._late_return(broker)  # so that no broker takes the store for unavailable in the next example
            for bookie in self._deployment.members.bookies:
                bookie.must_run()
            self._is_store_disturbed = False
        self._bookies.close()
        self._let_go()
        for broker, lost in self._frozen.items():
            broker.resume()
            self._late_return(broker, lost)
        if self._frozen:
            self._frozen.clear()
            self._world.look_elsewhere()
        if self._deployment is not None:
            for broker in self._deployment.brokers:
                if broker.release != broker.first_release:
                    self._change_release(broker, broker.first_release)

    def _let_go(self) -> None:
        for session in self._sessions.values():
            session.crash()
        for member in self._members.values():
            member.crash()
        self._sessions.clear()
        self._members.clear()


class _Steady:
    """A polled value that is steady once it has been present and unchanged for long enough."""

    def __init__(self, ask: Callable[[], int | None]) -> None:
        self._ask = ask
        self._last: int | None = None
        self._since = Deadline.after(STAYS_S)

    def is_steady(self) -> bool:
        value = self._ask()
        if value is None or value != self._last:
            self._last, self._since = value, Deadline.after(STAYS_S)
        return value is not None and self._since.passed

    @property
    def missing(self) -> str | None:
        """Why the value was not steady when it was last asked for; None if it was."""
        if self._last is None:
            return f"{NOT_REGISTERED} again"
        return None if self._since.passed else f"{NOT_REGISTERED} for {STAYS_S:g} s in one session"


def _sent(session: WireSession, entries: Sequence[Entry]) -> Done:
    session.send(entries)
    return Done()


def _acknowledged(member: WireMember, nth: tuple[int, ...]) -> Acknowledged | Skipped:
    messages = chosen(member, nth)
    return member.acknowledge_without_receipt(messages) if messages else Skipped("it has received nothing")
