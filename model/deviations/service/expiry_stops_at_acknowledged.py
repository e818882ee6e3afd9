from __future__ import annotations

from dataclasses import replace

from model.deviation import Deviation, Shadow
from model.example.expiry import NotExpired
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Allowed, Broken
from model.subscription_operations import Expire
from model.subscriptions import administration
from model.vocabulary import SubscriptionId

ENTRY = Deviation(
    name="expiry-stops-at-acknowledged",
    rule="SERVE-04",
    also=("ACK-17",),
    statement="If all messages from some position to the end of the topic are acknowledged, expiring messages up to a position may expire fewer of them than the request asked for, often only the first one.",
    cause="OpFindNewest searches for the position in halves. Before it reads an entry, ManagedCursorImpl.hasMoreEntries counts the unacknowledged entries from there on. If there are none, the search takes this for the end of the topic, and returns what it found so far. A seek by time searches without the cursor since apache/pulsar#20568, an expiry does not. Releases with apache/pulsar#24622 search only in the open ledger. Read in 2.6.0, 2.11.0, 3.3.6, 4.0.8 and 4.2.4.",
    upstream=("apache/pulsar#20368",),
    side="broker",
    releases=(">=2.11,<=5.0.1",),
    seen=("4.2.4", "4.0.8", "3.3.6", "2.11.0", "5.0.1"),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_an_expiry_ends_early_only_where_everything_behind_is_acknowledged",
        by="small history",
        statement="Messages do not expire although the last one of the topic is unacknowledged, or fewer expire than the search finds.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case Expire(topic, subscription, up_to=up_to):
            one = SubscriptionId(topic, subscription)
            return broken.passing() if administration.stopping_early(state.consumption, one, str(up_to)) else None
        case NotExpired(subscription, last):

            def stopped(after: Example) -> Judgement:
                consumption = administration.stopped_early(after.consumption, subscription, last, step.at)
                consumption = administration.stopped_early_again(consumption, subscription, last)
                return Allowed(replace(after, consumption=consumption))

            is_early = administration.stopping_before(state.consumption, subscription, last)
            return broken.passing().then(stopped) if is_early else None
        case _:
            return None
