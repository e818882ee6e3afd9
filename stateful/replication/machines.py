"""The machines of document 001: messages and subscriptions in several clusters whose links are cut and healed.

A machine knows what it published, but not what was delivered: the ack of a message that was not delivered is skipped.
"""

from __future__ import annotations

from itertools import permutations
from typing import ClassVar, Literal

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from model.cluster_operations import (
    AwaitAnswered,
    AwaitIdle,
    AwaitMessage,
    AwaitTimedOut,
    CatchUp,
    CutLink,
    HealLink,
    HoldLink,
    LoseCluster,
    ReadClusters,
    RecoverCluster,
    ReleaseLink,
    SetLink,
    SlowLink,
)
from model.operations import Kill, Restart, Unload
from model.replication.tracked import REPLICATORS_ADD_BYTES
from model.subscription_operations import AckById, Receive
from stateful.chunking.plan import ROOM_BYTES
from stateful.replication.administrators import FIRST_ACTS, AdministratorsAtClusters
from stateful.replication.base import CLUSTERS, COUNTS, PLACES, SUBSCRIPTIONS, TOPIC

ROOMS = st.sampled_from([0, 20, 40, REPLICATORS_ADD_BYTES])
"""How much smaller than may be a message is that is nearly as large; the last ones may not be any more."""
LAGS = st.sampled_from([1, 1, 0, 8])
"""How many messages a consumer leaves unacknowledged all the while: fewer than snapshots are cached (REPL-19), none, or
more."""
MOST_PERIODS, MOST_PERIODS_OF_LAG = 300, 150
"""After so many snapshot periods every other cluster has followed, on a busy machine too."""
ONE_WAY = {
    2: st.sampled_from([(("A", "B"),), (("B", "A"),)]),
    3: st.sampled_from(
        [
            (("A", "B"), ("A", "C")),
            (("A", "B"), ("B", "C")),
            (("A", "B"), ("B", "A"), ("A", "C")),
            (("A", "B"), ("B", "A"), ("C", "A")),
            (("A", "B"), ("B", "A"), ("B", "C"), ("C", "B")),
        ]
    ),
}
"""By the number of clusters: the directions of replication, not all of which there are (REPL-20)."""
Returns = Literal["", "empty", "reached early", "late"]
HOW_LOST: st.SearchStrategy[Literal["kill", "freeze"]] = st.sampled_from(["kill", "kill", "freeze"])
RETURNS: st.SearchStrategy[Returns] = st.sampled_from(["", "empty", "reached early", "late"])
"""How a cluster that was killed returns: on its data, empty if it can, empty and reached before it has its namespaces,
or only at the end of the example."""
LAST = st.lists(st.integers(0, 9), min_size=1, max_size=5, unique=True).map(tuple)
"""Which of the messages that were published last: 0 is the last one."""


class ClustersMachine(AdministratorsAtClusters):
    """Publish, consume and acknowledge at any cluster, fail over, break links, move topics."""

    numbers_of_clusters: ClassVar = st.sampled_from([2, 2, 3])

    @initialize(
        data=st.data(),
        is_one_way=st.sampled_from([False] * 3 + [True]),
        deduplication=st.sampled_from([False, False, True]),
        is_replicated=st.sampled_from([True] * 5 + [False]),
        are_subscriptions=st.sampled_from([True] * 5 + [False]),
        first=COUNTS,
        is_restricted=st.sampled_from([False, False, True]),
        is_late=st.sampled_from([False] * 5 + [True]),
        is_by_topic=st.booleans(),
    )
    def begin(
        self,
        data: st.DataObject,
        is_by_topic: bool,
        is_one_way: bool,
        deduplication: bool,
        is_replicated: bool,
        are_subscriptions: bool,
        first: int,
        is_restricted: bool,
        is_late: bool,
    ) -> None:
        """A topic in two or three clusters, a consumer at the first one, and in a few examples responses too late."""
        self.are_subscriptions_replicated = are_subscriptions
        self.is_by_topic = is_by_topic and is_replicated
        clusters = data.draw(self.numbers_of_clusters)
        if is_one_way and is_replicated:
            self.links = data.draw(ONE_WAY[clusters])
        self.create(clusters, deduplication=deduplication, is_replicated=is_replicated)
        self.subscribe("A", "s0")
        self.publish_at("A", first)
        if is_restricted:
            self.publish_at("A", 1, only_to=("B",))
        if is_late:
            self.outlast(0, 1, first)
        if self.links is not None and data.draw(st.booleans()):
            self.change_link(0, 1, first)
        if self.is_by_topic and data.draw(st.booleans()):
            self.reload_while_cut(0, 1, first, data.draw(st.booleans()))
        for act in data.draw(FIRST_ACTS):
            self.administer(data.draw(PLACES), 0, "s0", act, first)
        self.begun(data)

    def begun(self, data: st.DataObject) -> None:
        """The example has begun."""

    @rule(place=PLACES, count=COUNTS)
    def publish(self, place: int, count: int) -> None:
        """Messages are published at a cluster."""
        self.publish_at(self.at(place), count)

    @rule(place=PLACES, room_bytes=ROOMS)
    def publish_nearly_full(self, place: int, room_bytes: int) -> None:
        """A message of nearly the maximum size, and one after it."""
        self.publish_at(self.at(place), 1, size_bytes=ROOM_BYTES - room_bytes)
        self.publish_at(self.at(place), 1)

    @rule(place=PLACES, count=COUNTS, only_to=st.sets(PLACES, max_size=2))
    def publish_restricted(self, place: int, count: int, only_to: set[int]) -> None:
        """Publish messages that are restricted to some clusters, and one for all clusters."""
        self.publish_at(self.at(place), count, only_to=tuple(sorted({self.at(one) for one in only_to})))
        self.publish_at(self.at(place), 1)

    @rule(subscription=SUBSCRIPTIONS, place=PLACES, count=COUNTS)
    def receive(self, subscription: str, place: int, count: int) -> None:
        """A consumer receives some messages, and acknowledges none."""
        self.do(Receive(self.consumer(subscription, place), count))

    @rule(subscription=SUBSCRIPTIONS, place=PLACES, last=LAST, is_cumulative=st.sampled_from([False, False, True]))
    def acknowledge(self, subscription: str, place: int, last: tuple[int, ...], is_cumulative: bool) -> None:
        """A consumer receives everything, and acknowledges some of it: individually, or cumulatively."""
        consumer = self.consumer(subscription, place)
        self.do(Receive(consumer, 100))
        picked = last[:1] if is_cumulative else last
        messages = tuple(self.published[-1 - nth] for nth in picked if nth < len(self.published))
        if messages:
            self.do(AckById(consumer, messages, cumulative=is_cumulative))

    @rule(subscription=SUBSCRIPTIONS, place=PLACES)
    def acknowledge_all(self, subscription: str, place: int) -> None:
        """A consumer receives and acknowledges everything."""
        consumer = self.consumer(subscription, place)
        self.do(Receive(consumer, 100))
        self.do(AckById(consumer, tuple(self.published)))

    @rule(here=PLACES, there=PLACES, count=COUNTS, is_read_first=st.booleans())
    def fail_over(self, here: int, there: int, count: int, is_read_first: bool) -> None:
        """A consumer acknowledges some messages, closes, and fails over to another cluster."""
        consumer = self.consumer("s0", here)
        self.do(Receive(consumer, 100))
        if is_read_first:
            self.do(ReadClusters(TOPIC))
        first = len(self.published)
        self.publish_at(self.at(here), count + 1)
        self.do(Receive(consumer, 100))
        self.do(AckById(consumer, tuple(self.published[first : first + count]), cumulative=True))
        self.leave("s0", here)
        self.leave("s0", there)
        self.do(ReadClusters(TOPIC))
        self.do(Receive(self.consumer("s0", there), 100))

    @rule(place=PLACES)
    def consume_what_is_not_replicated(self, place: int) -> None:
        """Consume from a subscription that is not replicated."""
        if ("own", self.at(place)) not in self.consumers:
            self.subscribe(self.at(place), "own", is_replicated=False)
        self.do(Receive(self.consumers["own", self.at(place)], 100))

    @rule(here=PLACES, there=PLACES, count=COUNTS)
    def share_a_name(self, here: int, there: int, count: int) -> None:
        """Two clusters have a subscription of one name, and only one of them has it replicated."""
        if self.at(here) == self.at(there):
            return
        if ("shared", self.at(there)) not in self.consumers:
            self.subscribe(self.at(there), "shared", is_replicated=False)
        consumer = self.consumer("shared", here)
        self.do(Receive(consumer, 100))
        self.do(ReadClusters(TOPIC))
        self.publish_at(self.at(here), count)
        self.do(Receive(consumer, 100))
        self.do(AckById(consumer, tuple(self.published)))
        self.do(ReadClusters(TOPIC))

    @rule(here=PLACES, there=PLACES)
    def cut(self, here: int, there: int) -> None:
        """A link is cut, in one direction."""
        if self.at(here) != self.at(there):
            self.do(CutLink(self.at(here), self.at(there)))

    @rule(here=PLACES, there=PLACES)
    def heal(self, here: int, there: int) -> None:
        """A link heals, if it was cut, and is as fast as it was."""
        if self.at(here) != self.at(there):
            self.do(HealLink(self.at(here), self.at(there)))
            self.do(ReleaseLink(self.at(here), self.at(there)))

    @rule(here=PLACES, there=PLACES, delay_ms=st.sampled_from([20, 100, 400]))
    def slow(self, here: int, there: int, delay_ms: int) -> None:
        """A link is slow from now on, in one direction; then a message has to come over it."""
        if self.at(here) != self.at(there):
            self.do(SlowLink(self.at(here), self.at(there), delay_ms))
            self.publish_at(self.at(here), 1)

    @rule(here=PLACES, there=PLACES, count=COUNTS)
    def outlast(self, here: int, there: int, count: int) -> None:
        """Delay a cluster's responses until the snapshot has timed out and a later message shows that."""
        if self.at(here) != self.at(there) and self.are_subscriptions_replicated:
            self.consumer("s0", here)  # without a subscription there is no snapshot
            self.do(CutLink(self.at(there), self.at(here)))
            self.publish_at(self.at(here), count)
            self.do(AwaitTimedOut(self.at(here)))
            self.publish_at(self.at(here), 1)
            self.do(HealLink(self.at(there), self.at(here)))

    @rule(place=PLACES, count=COUNTS, is_cumulative=st.booleans())
    def fall_behind(self, place: int, count: int, is_cumulative: bool) -> None:
        """A consumer receives everything several times, and acknowledges only some of the first messages.

        It does so at once, or message by message, so that some acks pass no snapshot.
        """
        consumer = self.consumer("s0", place)
        first = len(self.published)
        for _ in range(6):
            self.publish_at(self.at(place), 1)
            self.do(Receive(consumer, 100))
        acknowledged = tuple(self.published[first : first + count])
        for messages in (acknowledged,) if is_cumulative else zip(acknowledged, strict=True):
            self.do(AckById(consumer, messages, cumulative=is_cumulative))
        self.do(ReadClusters(TOPIC))

    @precondition(lambda self: self.links is not None or self.is_by_topic)
    @rule(here=PLACES, there=PLACES, count=COUNTS)
    def change_link(self, here: int, there: int, count: int) -> None:
        """A cluster no longer replicates the topic to another one, or does so again, or for the first time."""
        link = self.at(here), self.at(there)
        if link[0] != link[1]:
            self.publish_at(link[0], count)
            links = tuple(permutations(self.clusters, 2)) if self.links is None else self.links
            is_on = link not in links
            self.links = (*links, link) if is_on else tuple(one for one in links if one != link)
            self.do(SetLink(*link, TOPIC, on=is_on))
            self.publish_at(link[0], count)

    @rule(place=PLACES)
    def unload(self, place: int) -> None:
        """The topic is unloaded at a cluster."""
        self.do(Unload(TOPIC, cluster=self.at(place)))
        self.gone(self.at(place))

    @rule(here=PLACES, there=PLACES, count=COUNTS, is_healed_first=st.booleans())
    def reload_while_cut(self, here: int, there: int, count: int, is_healed_first: bool) -> None:
        """Messages are published while a link is cut, the topic is reloaded, and the link heals before or after that.

        A client has the topic reloaded.
        """
        if self.at(here) == self.at(there):
            return
        self.do(CutLink(self.at(here), self.at(there)))
        self.publish_at(self.at(here), count)
        self.unload(here)
        if not is_healed_first:
            self.publish_at(self.at(here), 1)
        self.do(HealLink(self.at(here), self.at(there)))
        self.publish_at(self.at(here), 1)

    @precondition(lambda self: len(self.clusters) == len(CLUSTERS) and self.links is None)
    @rule(order=st.permutations(CLUSTERS))
    def answer_again(self, order: list[str]) -> None:
        """Of two clusters that are asked, one answers early, publishes, and sends its answer again in the second round;
        the other one has that message when it answers, and the one that asks has it only after the snapshot."""
        asking, late, early = order
        consumer = self.consumer("s0", self.clusters.index(asking))
        for link in permutations(self.clusters, 2):
            self.do(HealLink(*link))
        self.do(HoldLink(asking, late))
        self.do(HoldLink(early, asking, "receipts"))
        self.publish_at(asking, 1)
        asked = self.published[-1]
        self.do(Receive(consumer, 100))
        self.do(AwaitAnswered(asking, TOPIC, (early,), after=asked))
        self.do(CutLink(early, asking))
        self.do(HoldLink(asking, early))  # without its answers, no other snapshot drives this one out of the cache
        self.publish_at(early, 1)
        unseen = self.published[-1]
        self.do(AwaitMessage(late, TOPIC, unseen))
        self.do(ReleaseLink(asking, late))
        self.do(AwaitAnswered(asking, TOPIC, (early, late, late), after=asked))
        self.do(HealLink(early, asking, is_awaited=True))
        self.do(AwaitAnswered(asking, TOPIC, (early, early, late, late), after=asked))
        self.do(AwaitMessage(asking, TOPIC, unseen))
        self.do(Receive(consumer, 100))
        self.do(AckById(consumer, tuple(self.published[:-1])))
        self.do(ReleaseLink(asking, early))
        self.do(ReadClusters(TOPIC))

    @precondition(lambda self: not self.has_just_read)
    @rule()
    def read(self) -> None:
        """Read everything back, but not twice in a row, which an example without choices would do all the time."""
        self.do(ReadClusters(TOPIC))

    @precondition(lambda self: not self.has_just_read)
    @rule(place=PLACES, lag=LAGS)
    def catch_up(self, place: int, lag: int) -> None:
        """All links heal, and the other clusters catch up with one, also while its consumer lags."""
        for link in permutations(self.clusters, 2):
            self.do(HealLink(*link))
        self.caught_up += 1
        most_periods = MOST_PERIODS_OF_LAG if lag else MOST_PERIODS
        prefix = f"c{self.caught_up}-"
        self.do(CatchUp(self.consumer("s0", place), prefix=prefix, most_periods=most_periods, lag=lag))
        self.do(ReadClusters(TOPIC))

    @property
    def has_just_read(self) -> bool:
        """Whether nothing was done since everything was read."""
        return isinstance(self.last, ReadClusters)


class ClustersKillsMachine(ClustersMachine):
    """In addition, clusters are lost and recover, in half of the examples at the beginning."""

    numbers_of_clusters = st.sampled_from([2, 3, 3])  # only a third cluster can come back empty

    def begun(self, data: st.DataObject) -> None:
        """Lose a cluster at the beginning, mostly the last one, which may recover without data."""
        if data.draw(st.booleans()):
            place = data.draw(st.sampled_from([-1, -1, 0]))
            self.lose(place, data.draw(HOW_LOST), 1, data.draw(st.booleans()), data.draw(RETURNS))

    @rule(place=PLACES, is_kill=st.booleans())
    def bounce(self, place: int, is_kill: bool) -> None:
        """A cluster's broker is killed, or stopped, and started again."""
        cluster = self.at(place)
        self.do(Kill(cluster=cluster) if is_kill else Restart(cluster=cluster))
        self.gone(cluster)

    @rule(
        place=PLACES,
        how=HOW_LOST,
        count=COUNTS,
        moves=st.booleans(),
        returns=RETURNS,
    )
    def lose(self, place: int, how: Literal["kill", "freeze"], count: int, moves: bool, returns: Returns) -> None:
        """Kill a cluster, or freeze it for a moment, while the others go on; in some examples to the end.

        A cluster that was killed may recover without data.
        """
        lost = self.at(place)
        self.do(LoseCluster(lost, how))
        self.gone(lost)
        for cluster in self.clusters:
            if cluster != lost:
                self.publish_at(cluster, count)
                consumer = self.consumer("s0", self.clusters.index(cluster))
                self.do(Receive(consumer, 100))
                self.do(AckById(consumer, tuple(self.published[-count:])))
                if moves:
                    self.do(Unload(TOPIC, cluster=cluster))
                    self.gone(cluster)
        self.do(ReadClusters(TOPIC))
        if returns in ("empty", "reached early") and how == "kill":
            is_reached_early = returns == "reached early"
            if is_reached_early:
                self.leave_all()
            self.do(RecoverCluster(lost, is_empty=True, is_reached_early=is_reached_early))
        if returns != "late" or how == "freeze":
            self.do(RecoverCluster(lost))  # unless it is back


class ClustersIdleMachine(ClustersMachine):
    """The topic is idle everywhere but at the first cluster when that makes its first snapshots."""

    @initialize(
        clusters=st.sampled_from([2, 3]),
        deduplication=st.booleans(),
        is_replicated=st.just(True),
        are_subscriptions=st.just(True),
        first=COUNTS,
    )
    def begin(
        self, clusters: int, deduplication: bool, is_replicated: bool, are_subscriptions: bool, first: int
    ) -> None:
        """A topic whose replicators are closed at all clusters but the first one, which asks them."""
        self.are_subscriptions_replicated = are_subscriptions
        self.create(clusters, deduplication=deduplication, is_replicated=is_replicated)
        for cluster in self.clusters[1:]:
            self.do(AwaitIdle(cluster, TOPIC))
        self.subscribe("A", "s0")
        self.publish_at("A", first)
        self.do(AwaitAnswered("A", TOPIC, tuple(self.clusters[1:])))
        self.do(ReadClusters(TOPIC))
