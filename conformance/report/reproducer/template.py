"""@text@"""

from __future__ import annotations

import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pulsar

SETTINGS: dict[str, str] = {}
TRIES = 1
TIMEOUT_S = 10.0

SERVICE_URL = sys.argv[1] if len(sys.argv) > 2 else "pulsar://localhost:6650"
ADMIN_URL = sys.argv[2] if len(sys.argv) > 2 else "http://localhost:8080"

namespaces: list[str] = []
topics: dict[str, str] = {}
clients: dict[str, pulsar.Client] = {}
handles: dict[str, Any] = {}
batching: set[str] = set()
ids: dict[str, pulsar.MessageId] = {}
received: dict[str, dict[str, pulsar.Message]] = {}


class Found(Exception):
    """The broker or the client does not do what the documentation says."""


class Refused(Exception):
    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


def steps() -> None:
    pass  # @steps@


def main() -> int:
    for _ in range(TRIES):
        try:
            steps()
        except Found as found:
            print(f"It is there: {found}.")
            return 1
        except Exception as error:
            print(f"The steps could not be performed: {type(error).__name__}: {error}")
            return 2
        finally:
            clean_up()
    print("It is not there.")
    actual = json.loads(admin("GET", "brokers/configuration/runtime"))
    for name, value in SETTINGS.items():
        if actual.get(name, value) != value:
            print(f"The broker has {name}={actual[name]}; it was found with {value}.")
    return 0


def admin(method: str, path: str, body: Any = None) -> bytes:
    """A request to the admin API; again while the broker answers that it could not."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{ADMIN_URL}/admin/v2/{path}", data, method=method)
    request.add_header("Content-Type", "application/json")
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            reason = error.read().decode(errors="replace").strip().partition("\n")[0]
            if error.code < 500 or time.monotonic() > deadline:
                raise Refused(error.code, f"{method} {path} is answered with {error.code}: {reason}") from None
            time.sleep(0.2)


def path(topic: str) -> str:
    return topics[topic].replace("://", "/")


def namespace_of(topic: str) -> str:
    return "/".join(topics[topic].split("/")[2:4])


def create_topic(topic: str, deduplication: bool | None, is_trimmed: bool, partitions: int) -> None:
    """Create a topic in a namespace of its own."""
    namespace = f"public/reproducer-{time.time_ns() // 1_000_000}-{topic}"
    admin("PUT", f"namespaces/{namespace}")
    namespaces.append(namespace)
    kept = 0 if is_trimmed else -1
    admin("POST", f"namespaces/{namespace}/retention", {"retentionSizeInMB": kept, "retentionTimeInMinutes": kept})
    if deduplication is not None:
        admin("POST", f"namespaces/{namespace}/deduplication", deduplication)
    topics[topic] = f"persistent://{namespace}/{topic}"
    if partitions:
        admin("PUT", f"{path(topic)}/partitions", partitions)
    else:
        admin("PUT", path(topic))
    for number in range(partitions):
        topics[f"{topic}-partition-{number}"] = f"{topics[topic]}-partition-{number}"


def set_persistence(topic: str, most_per_s: float) -> None:
    """How often a cursor is persisted at most; 0: with every ack."""
    quorum = {"bookkeeperEnsemble": 1, "bookkeeperWriteQuorum": 1, "bookkeeperAckQuorum": 1}
    admin(
        "POST",
        f"namespaces/{namespace_of(topic)}/persistence",
        {**quorum, "managedLedgerMaxMarkDeleteRate": most_per_s},
    )


def set_limits(topic: str, consumers: int, unacknowledged: int, in_all: int) -> None:
    admin("POST", f"namespaces/{namespace_of(topic)}/maxConsumersPerSubscription", consumers)
    admin("POST", f"namespaces/{namespace_of(topic)}/maxUnackedMessagesPerConsumer", unacknowledged)
    admin("POST", f"namespaces/{namespace_of(topic)}/maxUnackedMessagesPerSubscription", in_all)


def set_namespace_deduplication(topic: str, is_on: bool) -> None:
    admin("POST", f"namespaces/{namespace_of(topic)}/deduplication", is_on)


def set_topic_deduplication(topic: str, is_on: bool) -> None:
    admin("POST", f"{path(topic)}/deduplicationEnabled", is_on)


def unload(topic: str) -> None:
    admin("PUT", f"{path(topic)}/unload")


def terminate(topic: str) -> None:
    admin("POST", f"{path(topic)}/terminate")


def trim(topic: str) -> None:
    admin("POST", f"{path(topic)}/trim")


def create_subscription(topic: str, subscription: str, start: str) -> None:
    at = {"ledgerId": -1, "entryId": -1} if start == "earliest" else {"ledgerId": 2**63 - 1, "entryId": 2**63 - 1}
    admin("PUT", f"{path(topic)}/subscription/{subscription}", {**at, "partitionIndex": -1})


def delete_subscription(topic: str, subscription: str, by_force: bool) -> None:
    admin("DELETE", f"{path(topic)}/subscription/{subscription}?force={str(by_force).lower()}")


def skip(topic: str, subscription: str, count: int) -> None:
    admin("POST", f"{path(topic)}/subscription/{subscription}/skip/{count}")


def skip_all(topic: str, subscription: str) -> None:
    admin("POST", f"{path(topic)}/subscription/{subscription}/skip_all")


def expire_up_to(topic: str, subscription: str, message: str) -> None:
    admin("POST", f"{path(topic)}/subscription/{subscription}/expireMessages", position(message))


def expire_older(topic: str, subscription: str, seconds: int) -> None:
    admin("POST", f"{path(topic)}/subscription/{subscription}/expireMessages/{seconds}")


def expire_older_of_all(topic: str, seconds: int) -> None:
    admin("POST", f"{path(topic)}/all_subscription/expireMessages/{seconds}")


def set_ttl(topic: str, seconds: int) -> None:
    admin("POST", f"{path(topic)}/messageTTL?messageTTL={seconds}")


def reset_cursor(topic: str, subscription: str, message: str, is_after: bool) -> None:
    """Reset to a message, or, without a name, to the earliest."""
    to = position(message) if message else {"ledgerId": -1, "entryId": -1, "partitionIndex": -1}
    admin("POST", f"{path(topic)}/subscription/{subscription}/resetcursor", {**to, "isExcluded": is_after})


def peek(topic: str, subscription: str, nth: int) -> None:
    admin("GET", f"{path(topic)}/subscription/{subscription}/position/{nth}")


def analyze_backlog(topic: str, subscription: str) -> None:
    admin("POST", f"{path(topic)}/subscription/{subscription}/analyzeBacklog")


def examine(topic: str, nth: int, from_end: bool) -> None:
    start = "latest" if from_end else "earliest"
    admin("GET", f"{path(topic)}/examinemessage?initialPosition={start}&messagePosition={nth}")


def read_message(topic: str, message: str, later: int) -> None:
    """Read the entry of a message, or one that is later in its ledger by so many."""
    at = ids[message]
    admin("GET", f"{path(topic)}/ledger/{at.ledger_id()}/entry/{at.entry_id() + later}")


def position(message: str) -> dict[str, int | bool]:
    at = ids[message]
    return {"ledgerId": at.ledger_id(), "entryId": at.entry_id(), "partitionIndex": -1, "isExcluded": False}


def stats(topic: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(admin("GET", f"{path(topic)}/stats"))
    return answer


def client(name: str) -> pulsar.Client:
    """A client for each producer, consumer and reader, so that each has a connection of its own."""
    clients[name] = pulsar.Client(SERVICE_URL, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    return clients[name]


def open_producer(session: str, topic: str, name: str, is_batching: bool, access: str) -> None:
    if is_batching:
        batching.add(session)
    handles[session] = client(session).create_producer(
        topics[topic],
        producer_name=name,
        batching_enabled=is_batching,
        batching_max_publish_delay_ms=60_000,
        access_mode=getattr(pulsar.ProducerAccessMode, access),
    )


def message(
    name: str, sequence_id: int, key: str | None = None, ordering_key: str | None = None, size: int = 0, delay: int = 0
) -> dict[str, Any]:
    options: dict[str, Any] = {"content": name.ljust(size).encode(), "sequence_id": sequence_id}
    if key is not None:
        options["partition_key"] = key
    if ordering_key is not None:
        options["ordering_key"] = ordering_key
    if delay:
        options["deliver_after"] = timedelta(milliseconds=delay)
    return options


def entry(*messages: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """What becomes one entry of the log: a message, or a batch."""
    return messages


def send(session: str, *entries: tuple[dict[str, Any], ...]) -> None:
    """Send entries, all in flight at once."""
    failed: list[pulsar.Result] = []

    def sent(name: str) -> Callable[[pulsar.Result, pulsar.MessageId], None]:
        def keep(result: pulsar.Result, message_id: pulsar.MessageId) -> None:
            if result == pulsar.Result.Ok:
                ids.setdefault(name, message_id)
            else:
                failed.append(result)

        return keep

    for one in entries:
        for options in one:
            handles[session].send_async(callback=sent(options["content"].decode().strip()), **options)
        if session in batching:
            handles[session].flush()
    handles[session].flush()
    if failed:
        raise OSError(f"a send of {session} failed: {failed[0]}")


def subscribe(consumer: str, topic: str, subscription: str, kind: str, start: str, queue: int) -> None:
    received[consumer] = {}
    handles[consumer] = client(consumer).subscribe(
        topics[topic],
        subscription,
        consumer_type=pulsar.ConsumerType.KeyShared if kind == "Key_Shared" else getattr(pulsar.ConsumerType, kind),
        consumer_name=consumer,
        initial_position=getattr(pulsar.InitialPosition, start.capitalize()),
        receiver_queue_size=queue,
        negative_ack_redelivery_delay_ms=100,
        batch_index_ack_enabled=True,
    )


def receive(consumer: str, *messages: str) -> None:
    """Receive until the consumer has these messages."""
    missing, deadline = set(messages), time.monotonic() + TIMEOUT_S
    while missing:
        if (name := receive_one(consumer, deadline)) is None:
            raise OSError(f"{consumer} does not receive {', '.join(sorted(missing))}")
        missing.discard(name)


def receive_one(consumer: str, deadline: float) -> str | None:
    left_ms = int(1000 * (deadline - time.monotonic()))
    try:
        one = handles[consumer].receive(timeout_millis=max(1, left_ms))
    except pulsar.Timeout:
        return None
    name = str(one.data().decode().strip())
    received.setdefault(consumer, {})[name] = one
    return name


def acknowledge(consumer: str, *messages: str) -> None:
    """Acknowledge messages, and wait until the broker has each ack."""
    for name in messages:
        handles[consumer].acknowledge(received[consumer][name])
        await_ack(consumer)


def acknowledge_up_to(consumer: str, message: str) -> None:
    handles[consumer].acknowledge_cumulative(received[consumer][message])
    await_ack(consumer)


def await_ack(consumer: str) -> None:
    """The client groups acks for 0.1 s; a later request on the same connection is answered after they arrived."""
    time.sleep(0.5)
    handles[consumer].get_last_message_id()


def negatively_acknowledge(consumer: str, *messages: str) -> None:
    for name in messages:
        handles[consumer].negative_acknowledge(received[consumer][name])


def redeliver_unacknowledged(consumer: str) -> None:
    handles[consumer].redeliver_unacknowledged_messages()


def seek(consumer: str, message: str) -> None:
    """Seek to a message, or, without a name, to the earliest."""
    handles[consumer].seek(ids[message] if message else pulsar.MessageId.earliest)


def unsubscribe(consumer: str) -> None:
    handles[consumer].unsubscribe()


def close(name: str) -> None:
    handles.pop(name).close()
    clients.pop(name).close()


def crash(name: str) -> None:
    """End the connection without closing what uses it."""
    del handles[name]
    clients.pop(name).shutdown()


def open_reader(reader: str, topic: str, start: str, message: str, is_inclusive: bool, queue: int) -> None:
    """Open a reader at a message, or, without a name, at the earliest or latest."""
    handles[reader] = client(reader).create_reader(
        topics[topic],
        ids[message] if message else getattr(pulsar.MessageId, start),
        receiver_queue_size=queue,
        start_message_id_inclusive=is_inclusive,
    )


def read(reader: str, *messages: str) -> None:
    """Read so many messages, which are these."""
    for name in messages:
        one = handles[reader].read_next(timeout_millis=int(1000 * TIMEOUT_S)).data().decode().strip()
        if one != name:
            raise OSError(f"{reader} reads {one} instead of {name}")


def wait(seconds: int) -> None:
    time.sleep(seconds)


def becomes(condition: Callable[[], bool]) -> bool:
    """Whether something is so, in the end."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def backlog(topic: str, subscription: str) -> int:
    return int(stats(topic)["subscriptions"][subscription]["msgBacklog"])


def await_backlog(topic: str, subscription: str, expected: int) -> None:
    if not becomes(lambda: backlog(topic, subscription) == expected):
        raise OSError(f"{subscription} has a backlog of {backlog(topic, subscription)} entries instead of {expected}")


def expect_backlog(topic: str, subscription: str, expected: int) -> None:
    if not becomes(lambda: backlog(topic, subscription) == expected):
        shown = backlog(topic, subscription)
        raise Found(f"subscription {subscription} has a backlog of {shown} entries, and {expected} are unacknowledged")


def unacknowledged_by_stats(topic: str, subscription: str, consumer: str) -> int:
    shown = stats(topic)["subscriptions"][subscription]
    if not consumer:
        return int(shown["unackedMessages"])
    return sum(int(one["unackedMessages"]) for one in shown["consumers"] if one["consumerName"] == consumer)


def expect_unacknowledged(topic: str, subscription: str, consumer: str, expected: int) -> None:
    """The count of unacknowledged messages at a consumer, or, without a name, at all of them."""
    if not becomes(lambda: unacknowledged_by_stats(topic, subscription, consumer) == expected):
        shown = unacknowledged_by_stats(topic, subscription, consumer)
        raise Found(
            f"by the stats {shown} messages are unacknowledged at {consumer or subscription}, and {expected} are"
        )


def expect_received(consumer: str, *messages: str) -> None:
    missing, deadline = set(messages), time.monotonic() + TIMEOUT_S
    while missing and (name := receive_one(consumer, deadline)) is not None:
        missing.discard(name)
    if missing:
        raise Found(f"{consumer} does not receive {', '.join(sorted(missing))}, which no consumer has")


def expect_all_received(topic: str, subscription: str, kind: str, *messages: str) -> None:
    """A new consumer receives exactly these messages, once the others are closed."""
    for name in [one for one in handles if one in received]:
        close(name)
    subscribe("last", topic, subscription, kind, "earliest", 1000)
    missing, deadline = set(messages), time.monotonic() + TIMEOUT_S
    while (one := receive_one("last", deadline)) is not None:
        if one not in messages:
            raise Found(f"{one} is delivered again, although it was acknowledged")
        missing.discard(one)
        deadline = min(deadline, time.monotonic() + TIMEOUT_S / (1 if missing else 5))
    if missing:
        raise Found(f"{', '.join(sorted(missing))} is not delivered, although nobody acknowledged it")


def expect_next(reader: str, *messages: str) -> None:
    for name in messages:
        one = handles[reader].read_next(timeout_millis=int(1000 * TIMEOUT_S)).data().decode().strip()
        if one != name:
            raise Found(f"{reader} reads {one}, and passes {name} over")


def expect_message_available(reader: str) -> None:
    if not handles[reader].has_message_available():
        raise Found(f"{reader} has no message available, although there is one")


def log(topic: str) -> list[str]:
    """The names of all messages that are stored."""
    reader = client(f"reader of {topic}").create_reader(topics[topic], pulsar.MessageId.earliest)
    stored = []
    while True:
        try:
            stored.append(reader.read_next(timeout_millis=2000).data().decode().strip())
        except pulsar.Timeout:
            return stored


def expect_stored(topic: str, *messages: str) -> None:
    stored = log(topic)
    for name in messages:
        if name not in stored:
            raise Found(f"{name} was confirmed and is not stored")


def expect_stored_once(topic: str, *messages: str) -> None:
    stored = log(topic)
    for name in messages:
        if stored.count(name) > 1:
            raise Found(f"{name} is stored {stored.count(name)} times")


def expect_last_sequence_id(session: str, expected: int) -> None:
    if (shown := handles[session].last_sequence_id()) != expected:
        raise Found(f"the last sequence id of the producer is {shown}, and {expected} is the highest that is confirmed")


def expect_deduplication(topic: str, expected: str) -> None:
    if not becomes(lambda: stats(topic)["deduplicationStatus"] == expected):
        raise Found(
            f"deduplication of {topic} stays {stats(topic)['deduplicationStatus']}, and {expected} was asked for"
        )


def expect_answer(request: Callable[[], None]) -> None:
    """The broker answers with success, or with an error that is documented."""
    try:
        request()
    except Exception as error:
        if not isinstance(error, Refused) or error.code >= 500 or error.code == 412:
            raise Found(f"a legal request fails: {error}") from error


def expect_any_answer(request: Callable[[], None]) -> None:
    try:
        request()
    except Refused:
        return
    except OSError as error:
        raise Found(f"a request is not answered: {error}") from error


def expect_refused(request: Callable[[], None]) -> None:
    try:
        request()
    except Exception:
        return
    raise Found("what must be refused is done")


def attempt(request: Callable[[], None]) -> None:
    """What was refused when it was found."""
    try:
        request()
    except Exception as error:
        print(f"(refused: {error})")


def clean_up() -> None:
    for name in list(clients):
        clients.pop(name).shutdown()
    handles.clear()
    received.clear()
    ids.clear()
    for namespace in namespaces:
        try:
            for partitioned in json.loads(admin("GET", f"persistent/{namespace}/partitioned")):
                admin("DELETE", f"{partitioned.replace('://', '/')}/partitions?force=true")
            for topic in json.loads(admin("GET", f"persistent/{namespace}")):
                admin("DELETE", f"{topic.replace('://', '/')}?force=true")
            admin("DELETE", f"namespaces/{namespace}")
        except (Refused, OSError) as error:
            print(f"{namespace} is left: {error}")
    namespaces.clear()


if __name__ == "__main__":
    sys.exit(main())
