from __future__ import annotations

from functools import cache

from model.deviation import Deviation, Shadow
from model.deviations.clusters import explaining, full_chunks, lost_from_home, nearly_too_large, passed_without_having
from model.example.remote import NotAsPublished
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.replication.evidence import Findings, NotInOrder, NotReplicated

ENTRY = Deviation(
    name="too-large-to-replicate",
    rule="REPL-01",
    statement="A message of nearly maxMessageSize is confirmed but never replicated, and the replicator reports no backlog. An update then makes the source acknowledge a message that no consumer received.",
    cause="GeoPersistentReplicator.replicateEntries adds its cluster (replicated_from) and its position (a property) to each message. Its producer of the Java client rejects messages larger than maxMessageSize with their headers (since PIP-132, apache/pulsar#14007). PersistentReplicator.ProducerSendCallback.sendComplete acknowledges the entry after an InvalidMessageException, as after a success (4.0.8, lines 398 to 415). With 10,240 bytes this affects messages of more than some 10,160, and all chunks of a chunked message but the last.",
    upstream=("apache/pulsar#14007",),
    side="broker",
    releases=(">=2.11.0,<=5.0.1",),
    seen=("4.0.8", "3.3.6", "2.11.0", "4.2.4", "5.0.0-M1", "5.0.1"),
    shadow=Shadow(
        name="test_a_large_message_excuses_no_other_missing_message_and_no_other_ack",
        by="small history",
        statement="A smaller message that is missing is found, and so is an ack of a large message that no update explains.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    @cache
    def large(topic: str) -> frozenset[str]:
        return nearly_too_large(state, topic)

    def is_explained(found: Findings, about: object) -> bool:
        match about:
            case NotReplicated(message):
                return message in large(found.name)
            case NotInOrder(own, arrived):
                lost = large(found.name).difference(arrived)
                may_be_there = tuple(message for message in own if message not in lost)
                return arrived == may_be_there[: len(arrived)]
            case _:
                return False

    def missed(found: Findings, _: str, subscription: str) -> frozenset[str]:
        lacking = {label: large(found.name).difference(log.messages()) for label, log in found.logs.items()}
        return passed_without_having(found.logs, subscription, lacking)

    if isinstance(broken.evidence, NotAsPublished):
        full = full_chunks(state, step.operation.topic or "")
        return lost_from_home(broken, lambda one: full.issuperset(one.ids))
    return explaining(ENTRY, broken, is_explained, missed=missed)
