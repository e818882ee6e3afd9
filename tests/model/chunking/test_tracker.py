"""What the observer of chunked messages accepts, and which rule it names otherwise, in small histories."""

from __future__ import annotations

from dataclasses import replace

import pytest

from model.chunking import dispatch, producers, sends, stored_chunks
from model.chunking.deliveries import (
    BUFFERS_SURVIVE,
    CLIENTS,
    REPEATED_DISCARDS,
    compared,
    fresh,
    have_payloads,
    is_explained,
    met,
)
from model.chunking.state import (
    Chunking,
    ChunkingProducer,
    ChunkSubscription,
    ChunkTopic,
    Reloaded,
    SentMessage,
)
from model.chunking.variants import DOCUMENT, ChunksVariant
from model.deviations import DEVIATIONS, chunk_logs
from model.events import Answer, Done, Duplicate, Refused, Sent, Stored, Unknown
from model.example import Example
from model.explain import judge
from model.judgement import Allowed, Broken
from model.operations import Send, Unload
from model.sessions import Session
from model.traffic import (
    CommandAck,
    CommandMessage,
    CommandRedeliver,
    CommandSubscribe,
    ConsumerCommand,
    LoggedPart,
    Part,
)
from model.vocabulary import Entry, Message
from tests.model.chunking.histories import (
    SUBSCRIPTION_ID,
    allowed,
    at,
    broken,
    consumer,
    digests,
    dispatched,
    example,
    given,
    joined,
    life,
    logged,
    longer,
    looked,
    part,
    passed,
    subscribed,
)

PLAIN, DEDUPLICATING = ChunkTopic(100, deduplication=False), ChunkTopic(100, deduplication=True)
ALL = "a0/2 a1/2"
IN_PARALLEL = "redelivery-reads-in-parallel"
ONLY_LAST, EACH = "chunk-only-last-deduplicated", "chunk-each-deduplicated"
RECOVERY = "chunk-recovery-counts-unfinished"


KINDS = {"": DOCUMENT, ONLY_LAST: chunk_logs.ONLY_LAST, RECOVERY: chunk_logs.RECOVERY_COUNTS, EACH: chunk_logs.EACH}


def explanation(topic: ChunkTopic, log: str, *acts: object) -> str:
    """The deviation of the first broker that explains a log, none if it is the documented one, or the broken rule."""
    producer = ChunkingProducer(acts=acts)  # type: ignore[arg-type]
    topic, own = replace(topic, producers={"p": producer}), logged(log)
    judged = stored_chunks.judged(topic, "p", own)
    explaining = [name for name, kind in KINDS.items() if stored_chunks.is_explained(topic, "p", own, kind)]
    if isinstance(judged, Allowed):
        return ""
    return explaining[0] if explaining and topic.deduplication else judged.rule


@pytest.mark.parametrize(
    ("log", "acts", "found"),
    [
        (f"{ALL} x", [life(f"{ALL} x", [0, 1, 2])], ""),
        ("a0/2", [life(ALL, [0])], ""),
        ("", [life(ALL, [])], ""),
        (f"a0/2 {ALL}", [life("a0/2", []), life(ALL, [1, 2])], ""),
        (ALL, [life("a0/2", []), life(ALL, [0, 1])], ""),
        ("a1/2 a0/2", [life(ALL, [1, 0])], "CHUNK-03"),
        ("a0/2", [life(ALL, [0, 1])], "CHUNK-03"),
        (f"{ALL} x", [life(ALL, [0, 1])], "CHUNK-03"),
        ("a1/2", [life(ALL, [])], "CHUNK-03"),
    ],
)
def test_a_log_without_deduplication_has_the_sent_chunks_in_order(log: str, acts: list[object], found: str) -> None:
    assert explanation(PLAIN, log, *acts) == found


@pytest.mark.parametrize(
    ("log", "acts", "found"),
    [
        (ALL, [life(ALL, [0, 1]), life(ALL, [None, None])], ""),
        (ALL, [life("a0/2", [0]), life(ALL, [None, 1])], ""),
        (ALL, [life("a0/2", [0]), Reloaded(), life(ALL, [None, 1])], ""),
        (f"a0/2 {ALL}", [life("a0/2", [0]), life(ALL, [1, 2])], ONLY_LAST),
        (f"{ALL} a0/2", [life(ALL, [0, 1]), life(ALL, [2, None])], ONLY_LAST),
        (
            "a0/2 a0/2",
            [life("a0/2", [0]), Reloaded(), life(ALL, [1, None])],
            RECOVERY,
        ),
        (
            f"a0/2 {ALL} b0/2 b0/2",
            [life("a0/2", [0]), Reloaded(), life(f"{ALL} b0/2", [1, 2, 3]), Reloaded(), life("b0/2 b1/2", [4, None])],
            RECOVERY,
        ),
        ("a0/2", [life(ALL, [0, None])], EACH),
        (f"{ALL} a0/2 a1/2", [life(ALL, [0, 1]), life(ALL, [2, 3])], "CHUNK-13"),
        ("a0/2 a0/2", [life("a0/2", [0]), life(ALL, [1, None])], "CHUNK-13"),
    ],
)
def test_with_deduplication_each_chunk_is_stored_once_or_a_deviation_is_named(
    log: str, acts: list[object], found: str
) -> None:
    assert explanation(DEDUPLICATING, log, *acts) == found


@pytest.mark.parametrize(
    ("log", "whole"),
    [
        ("a0/2 b0/2 x a1/2 b1/2", ["x", "a", "b"]),
        ("a0/2 a0/2 a1/2", ["a"]),
        ("a0/3 a2/3", []),
        ("a1/2", []),
        ("a0/2 a1/2 a1/2 a0/2 a1/2", ["a", "a"]),
    ],
)
def test_a_message_is_complete_from_its_last_first_chunk_to_its_last_chunk(log: str, whole: list[str]) -> None:
    assert [chr(one[0].part.sequence_id) for one in stored_chunks.wholes(logged(log))] == whole


# ----------------------------------------------------------------------------------------------- the sending client


def whole(sizes: list[int], *, total: int | None = None, metadata_bytes: int = 10) -> list[LoggedPart]:
    said = sum(sizes) if total is None else total
    uuid = "u" if len(sizes) > 1 else None
    return [
        LoggedPart(at(n), "p", Part(7, str(n), uuid, n, len(sizes), said), size, metadata_bytes)
        for n, size in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    ("sizes", "rule"),
    [([90], None), ([90, 1], None), ([45, 45], "CHUNK-01"), ([91], "CHUNK-01"), ([80, 80], "CHUNK-02")],
)
def test_a_payload_is_split_by_the_room_that_its_metadata_leaves(sizes: list[int], rule: str | None) -> None:
    asked = SentMessage(sequence_id=7, digest="0", size_bytes=sum(sizes))
    broken = sends.stored(PLAIN, "p", ChunkingProducer(asked=(asked,)), whole(sizes))
    assert (broken and broken.rule) == rule
    assert broken is None or broken.side == "client"


def test_chunks_with_a_wrong_total_or_wrong_bytes_break_their_rule() -> None:
    asked = SentMessage(sequence_id=7, digest="0", size_bytes=91)
    wrong_total = sends.stored(PLAIN, "p", ChunkingProducer(asked=(asked,)), whole([90, 1], total=92))
    assert wrong_total is not None
    assert wrong_total.rule == "CHUNK-02"
    too_short = sends.stored(PLAIN, "p", ChunkingProducer(asked=(replace(asked, size_bytes=92),)), whole([90, 1]))
    assert too_short is not None
    assert too_short.rule == "CHUNK-02"


@pytest.mark.parametrize(
    ("lives", "rule"),
    [
        (["a0/2 a1/2 x"], None),
        (["a0/2", "a0/2 a1/2"], None),
        (["a0/2", "a1/2"], None),
        (["a1/2 a0/2"], "CHUNK-03"),
        (["a0/3 a2/3"], "CHUNK-03"),
        (["a0/2 x"], "CHUNK-03"),
    ],
)
def test_the_chunks_of_one_producer_are_sent_one_message_after_the_other(lives: list[str], rule: str | None) -> None:
    broken = sends.passed("p", [life(sent, []) for sent in lives])
    assert (broken and broken.rule) == rule


def test_a_message_that_is_too_large_is_refused_and_not_sent() -> None:
    large = SentMessage(sequence_id=ord("a"), digest="", size_bytes=200, is_split_allowed=False)
    unrefused = sends.answered("p", [large], [], limit_bytes=100)
    refused = replace(large, error=sends.TOO_LARGE)
    assert isinstance(sends.answered("p", [refused], [], limit_bytes=100), Allowed)
    sent = sends.answered("p", [refused], [life("a0/2", [])], limit_bytes=100)
    split_refused = sends.answered("p", [replace(refused, is_split_allowed=True)], [], limit_bytes=100)
    for one in (unrefused, sent, split_refused):
        assert isinstance(one, Broken)
        assert one.rule == "CHUNK-01"


def test_a_full_queue_refuses_a_message_only_after_one_that_was_too_large() -> None:
    name = "too-large-keeps-queue-place"
    refused, full, unanswered = Refused(sends.TOO_LARGE), Refused("ProducerQueueIsFull"), Unknown("no receipt")
    state = Example(
        chunking=Chunking({"t": ChunkTopic(100, deduplication=False, producers={"p": ChunkingProducer()})}),
        sessions={"p": Session("t", "p", "official")},
    )
    answers: tuple[tuple[tuple[Answer, ...], str | None], ...] = (
        ((refused, refused, full), name),
        ((full, refused), None),
        ((refused, unanswered), None),
    )
    for each, deviation in answers:
        messages = (Message(number, "a", size_bytes=200, content="noise") for number in range(len(each)))
        sending, outcome = Send("p", tuple(Entry((one,)) for one in messages)), Sent(each)
        broken = judge(state.with_known(frozenset(DEVIATIONS) - {name}), sending, outcome)
        assert isinstance(broken, Broken)
        assert (broken.rule, broken.deviation) == ("CHUNK-01", deviation)
        known = judge(state.with_known(frozenset(DEVIATIONS)), sending, outcome)
        assert isinstance(known, Allowed) is (deviation is not None)


def test_a_confirmed_message_is_complete_in_the_log() -> None:
    asked = SentMessage(sequence_id=ord("a"), digest="", size_bytes=2, is_confirmed=True)
    producers = {"p": ChunkingProducer(asked=(asked,))}
    assert isinstance(sends.confirmed_are_whole(replace(PLAIN, producers=producers), "p", logged(ALL)), Allowed)
    broken = sends.confirmed_are_whole(replace(DEDUPLICATING, producers=producers), "p", logged("a0/2"))
    assert isinstance(broken, Broken)
    assert (broken.rule, broken.side) == ("CHUNK-13", "client")


# --------------------------------------------------------------------------------------------- the receiving client


def received(passed: tuple[ConsumerCommand, ...], got: str, *, pending: int = 0) -> ChunksVariant | str:
    """The first client that explains what was received, given what was sent, or the rule that is broken."""
    clients = [met(fresh(pending=pending, acks_discarded=False, variant=one), passed) for one in CLIENTS]
    explaining = [client.variant for client in clients if is_explained(client, given(got))]
    found = compared("c", replace(consumer(), client=clients[0]), given(got))
    if not isinstance(found, Broken):
        payloads = have_payloads("c", found[1], digests("abcx"))
        return payloads.rule if isinstance(payloads, Broken) else DOCUMENT
    return explaining[0] if explaining and found.evidence is not None else found.rule


@pytest.mark.parametrize(
    ("sent", "got", "found"),
    [
        ("a0/2 x a1/2", "x@1 a@2", DOCUMENT),
        ("a0/2 b0/2 a1/2 b1/2", "a@2 b@3", DOCUMENT),
        ("a0/3 a2/3 x", "x@2", DOCUMENT),
        ("a0/2 a0/2 a1/2", "a@2", DOCUMENT),
        ("a0/2 a0/2 a1/2 x", "x@3", REPEATED_DISCARDS),
        ("a0/2 x a1/2", "a@2 x@1", "CHUNK-05"),
        ("a0/2 x a1/2", "x@1", "CHUNK-09"),
        ("a0/2 a1/2 x", "x@2", "CHUNK-04"),
        ("a0/2 x", "a@0 x@1", "CHUNK-04"),
        ("a0/2 a1/2", "a@1 a@1", "CHUNK-04"),
        ("a0/2 a1/2", "b@1", "CHUNK-04"),
        ("a0/2 b0/2 a1/2 b1/2", "a@2", "CHUNK-06"),
        ("a0/2 x b0/2 b1/2", "x@1", "CHUNK-06"),
        ("a0/2 x", "", "CHUNK-09"),
    ],
)
def test_a_consumer_delivers_the_complete_messages_sent_to_it(sent: str, got: str, found: ChunksVariant | str) -> None:
    assert received(dispatched(sent), got) == found


def test_beyond_the_pending_limit_the_oldest_message_is_discarded_and_the_next_delivered() -> None:
    sent = dispatched("a0/2 b0/2 b1/2 x")
    assert received(sent, "b@2 x@3", pending=1) == DOCUMENT
    assert received(sent, "x@3", pending=1) == "CHUNK-08"
    assert received(dispatched("a0/2 b0/2 a1/2 b1/2"), "a@2 b@3", pending=1) == "CHUNK-04"


def test_redelivered_messages_may_be_delivered_again_and_incomplete_ones_start_again() -> None:
    again: tuple[ConsumerCommand, ...] = (*dispatched("a0/2"), CommandSubscribe(), *dispatched("a0/2 a1/2 x"))
    assert received(again, "a@1 x@2") == DOCUMENT
    assert received(again, "x@2") == BUFFERS_SURVIVE
    assert received((*dispatched("x"), CommandRedeliver(()), *dispatched("x")), "x@0") == DOCUMENT
    assert received((*dispatched("x"), CommandRedeliver(()), *dispatched("x")), "x@0 x@0") == DOCUMENT
    assert received((*dispatched("x"), CommandRedeliver(()), *dispatched("x")), "") == "CHUNK-04"


# ----------------------------------------------------------------------------------------------------------- the broker


def sent_by_broker(log: str, *commands: ConsumerCommand, acknowledged: tuple[int, ...] = ()) -> str | None:
    """The rule that is broken by what a broker sent to an ordered consumer."""
    state = subscribed(log).chunking
    acked = ChunkSubscription(acknowledged=frozenset(map(at, acknowledged)))
    judged = dispatch.met(state.with_subscription(SUBSCRIPTION_ID, acked), "c", commands, is_read=True)
    return judged.rule if isinstance(judged, Broken) else None


def entry(number: int, text: str) -> CommandMessage:
    return CommandMessage(at(number), "p", part(text))


@pytest.mark.parametrize(
    ("passed", "acknowledged", "rule"),
    [
        ([entry(0, "a0/2"), entry(1, "x"), entry(2, "a1/2")], (), None),
        ([entry(1, "x"), entry(2, "a1/2")], (0,), None),
        ([entry(1, "x")], (), "CHUNK-07"),
        ([entry(0, "a0/2"), entry(2, "a1/2")], (), "CHUNK-05"),
        ([entry(0, "a0/2"), entry(0, "a0/2")], (), "CHUNK-05"),
        ([entry(0, "a0/2"), CommandRedeliver(()), entry(0, "a0/2")], (), None),
        ([entry(0, "a0/2"), CommandRedeliver(()), entry(1, "x"), entry(0, "a0/2")], (), None),
        ([entry(0, "a0/2"), CommandAck((at(0),)), CommandSubscribe(), entry(1, "x")], (), None),
        ([entry(0, "a0/2"), CommandSubscribe(), entry(1, "x")], (), "CHUNK-07"),
        (
            [
                entry(0, "a0/2"),
                entry(1, "x"),
                entry(2, "a1/2"),
                CommandRedeliver(()),
                entry(0, "a0/2"),
                entry(0, "a0/2"),
            ],
            (),
            "CHUNK-05",
        ),
        ([entry(0, "b0/2")], (), "CHUNK-03"),
        ([entry(3, "x")], (), "CHUNK-03"),
    ],
)
def test_a_broker_sends_the_log_in_order_and_from_its_start_after_a_redelivery_request(
    passed: list[ConsumerCommand], acknowledged: tuple[int, ...], rule: str | None
) -> None:
    assert sent_by_broker("a0/2 x a1/2", *passed, acknowledged=acknowledged) == rule


def needed(*commands: ConsumerCommand) -> str | None:
    """The deviation that a broker needs to send this to an ordered consumer of three entries."""
    state = subscribed("a0/2 x a1/2")
    judged = passed(state.with_known(state.known - {IN_PARALLEL}), "c", *commands)
    return judged.deviation if isinstance(judged, Broken) else None


def test_a_parallel_redelivery_read_is_a_deviation_only_if_there_were_entries_to_read() -> None:
    first, second, third = entry(0, "a0/2"), entry(1, "x"), entry(2, "a1/2")
    assert needed(first, CommandRedeliver(()), second, first, first) == IN_PARALLEL
    assert needed(first, CommandRedeliver(()), first, first) == IN_PARALLEL
    assert needed(first, CommandRedeliver(()), first, third) == IN_PARALLEL
    assert needed(first, second, third, CommandRedeliver(()), first, first) is None
    assert needed(first, first) is None
    assert needed(first, second, CommandRedeliver(()), first, CommandSubscribe(), first, first) is None


def test_a_cursor_as_it_was_created_begins_behind_the_first_entries_by_a_deviation() -> None:
    log, name = "a0/2 x a1/2", "created-cursor-persisted-at-latest"
    created = subscribed(log)
    unloaded = allowed(judge(created, Unload("t"), Done())).state
    behind: list[ConsumerCommand] = [CommandSubscribe(), entry(1, "x"), entry(2, "a1/2")]
    assert allowed(looked(unloaded, c=behind)).deviations == (name,)
    assert allowed(looked(unloaded, c=[CommandSubscribe()])).deviations == (name,), "all of it is skipped"
    assert broken(looked(created, c=behind))[1] is None, "it was not reloaded"
    acked = allowed(passed(created, "c", entry(0, "a0/2"), entry(1, "x"), CommandAck((at(1),)))).state
    unloaded = allowed(judge(acked, Unload("t"), Done())).state
    assert broken(looked(unloaded, c=[CommandSubscribe(), entry(2, "a1/2")]))[1] is None, "an ack was persisted"


@pytest.mark.parametrize(
    ("requests", "restarts", "is_allowed"), [(2, 2, True), (2, 1, True), (2, 3, False), (1, 2, False)]
)
def test_a_broker_begins_again_at_most_once_for_each_redelivery_request(
    requests: int, restarts: int, *, is_allowed: bool
) -> None:
    everything = (entry(0, "a0/2"), entry(1, "x"), entry(2, "a1/2"))
    partly = everything[:2] * (restarts - 1)
    assert (
        sent_by_broker("a0/2 x a1/2", *everything, *[CommandRedeliver(())] * requests, *partly, *everything) is None
    ) is (is_allowed)


@pytest.mark.parametrize(
    ("log", "before", "then", "is_explained"),
    [
        ("a0/2 x a1/2", [entry(0, "a0/2"), CommandRedeliver(())], [entry(0, "a0/2"), entry(0, "a0/2")], True),
        ("a0/2", [entry(0, "a0/2"), CommandRedeliver(())], [entry(0, "a0/2"), entry(0, "a0/2")], False),
        ("a0/2 x a1/2", [entry(0, "a0/2"), CommandRedeliver(()), entry(0, "a0/2")], [entry(2, "a1/2")], True),
        ("a0/2", [entry(0, "a0/2"), CommandRedeliver(()), entry(0, "a0/2")], [entry(2, "a1/2")], False),
        ("a0/2 x a1/2", [entry(0, "a0/2"), entry(1, "x")], [entry(1, "x")], False),
    ],
    ids=["twice", "twice, stored later", "skipped", "skipped, stored later", "not requested"],
)
def test_a_redelivery_request_after_everything_was_read_starts_no_second_read(
    log: str, before: list[ConsumerCommand], then: list[ConsumerCommand], *, is_explained: bool
) -> None:
    """The last two entries may be stored only after the request."""
    first = allowed(passed(subscribed(log), "c", *before)).state
    judged = passed(longer(first, "a0/2 x a1/2"), "c", *then)
    if is_explained:
        assert allowed(judged).deviations == (IN_PARALLEL,)
    else:
        assert broken(judged)[:2] == ("CHUNK-05", None)


def test_the_reads_have_ended_once_everything_came_in_order() -> None:
    first, second = entry(0, "x"), entry(1, "y")
    asked = allowed(passed(subscribed("x y"), "c", first, CommandRedeliver(()))).state
    assert isinstance(passed(asked, "c", first, first), Allowed)
    seen = allowed(looked(asked, c=[first, second])).state
    assert broken(passed(seen, "c", first))[:2] == ("CHUNK-05", None)


def test_sends_without_an_answer_may_be_read_when_redelivery_is_requested() -> None:
    producer = ChunkingProducer(acts=(life("a0/2 x", [0]),))
    state = joined(example(replace(PLAIN, producers={"p": producer}, log=logged("a0/2"))), "c")
    asked = allowed(passed(state, "c", entry(0, "a0/2"), CommandRedeliver(()))).state
    judged = passed(longer(asked, "a0/2 x"), "c", entry(0, "a0/2"), entry(0, "a0/2"))
    assert allowed(judged).deviations == (IN_PARALLEL,)


def test_what_the_first_of_parallel_reads_brings_before_the_second_does_is_not_sent_again() -> None:
    first, last = entry(0, "a0/2"), entry(1, "a1/2")
    assert allowed(looked(subscribed("a0/2 a1/2"), c=(first, CommandRedeliver(()), last, first))).deviations == (
        IN_PARALLEL,
    )
    assert broken(looked(subscribed("a0/2 a1/2"), c=(first, last, CommandRedeliver(()), first)))[1] is None


def test_what_parallel_reads_skip_is_missing_until_redelivery_is_requested_again() -> None:
    first, last = entry(0, "a0/2"), entry(2, "a1/2")
    skipping = (first, CommandRedeliver(()), first, last)
    skipped = allowed(looked(subscribed("a0/2 x a1/2"), c=skipping))
    assert set(skipped.deviations) == {IN_PARALLEL}
    assert allowed(looked(skipped.state)).deviations == (IN_PARALLEL,), "it stays missing"
    again: list[ConsumerCommand] = [CommandRedeliver(()), first]
    assert isinstance(looked(skipped.state, c=[*again, entry(1, "x"), last]), Allowed)
    assert broken(looked(skipped.state, c=again))[:2] == ("CHUNK-03", None)
    assert isinstance(looked(skipped.state, c=[CommandSubscribe(), first, last]), Broken)


# --------------------------------------------------------------------------------------------------------- answers


@pytest.mark.parametrize(
    ("answer", "is_confirmed"),
    [(Stored(at(0)), True), (Duplicate(), True), (Refused("MessageTooBig"), False), (Unknown("w"), False)],
)
def test_a_message_is_confirmed_by_its_receipt_even_as_a_duplicate(answer: Answer, is_confirmed: bool) -> None:
    state = Chunking(topics={"t": ChunkTopic(100, deduplication=True, producers={"p": ChunkingProducer()})})
    session = Session("t", "p", "official", is_chunking=True)
    judged = producers.sent(
        state, session, (Entry((Message(1, "a", size_bytes=7, content="noise"),)),), Sent((answer,))
    )
    asked = judged.state.topics["t"].producers["p"].of(1) if isinstance(judged, Allowed) else None
    assert (asked is not None and asked.is_confirmed) == is_confirmed
