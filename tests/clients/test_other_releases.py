"""Other releases of pulsar-client: options that they lack are omitted, and a batch is sent as one entry."""

from __future__ import annotations

import subprocess
import sys

import pytest

from conformance.brokers.interface import Broker
from conformance.clients.admin.client import Admin
from conformance.clients.driver.features import OptionsOf, start_flushing, told_by
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.read_log import read_log
from conformance.drivers.environment import python_with_client
from conformance.harness_error import HarnessError

TIMEOUT_S = 10.0
RELEASES = ["3.1.0", "3.3.0", "3.13.0"]
"""The oldest one; one without ordering keys and asynchronous flushes; one that has everything."""

CONSUMES_A_BATCH = """
import sys
from conformance.clients.driver.client import OfficialClient
from conformance.clients.handles import OfficialConsumerHandle, SubscriptionConfig
from conformance.lockstep.settings.traits import Traits
url, topic = sys.argv[1:]
traits = Traits.of({"acknowledgmentAtBatchIndexLevelEnabled": "true"}).of_released(None)
wanted = SubscriptionConfig(topic=topic, name="s", kind="Shared", acks_parts=traits.acknowledges_parts)
with OfficialClient(url, timeout_s=10) as client:
    consumer = OfficialConsumerHandle(url, wanted, timeout_s=10)
    producer = client.open_producer(topic, name="p", batching=True)
    tickets = producer.send_batch([(1, b"a"), (2, b"b")])
    for ticket in tickets:
        producer.answer(ticket, timeout_s=10)
    received = [consumer.receive(timeout_s=10) for _ in tickets]
    consumer.ack(received)
    print(*(message.payload.decode() + (message.key or "") for message in received))
    producer.close()
    consumer.close()
"""


def old(content: bytes, partition_key: str | None = None) -> tuple[bytes, str | None]:
    return content, partition_key


def test_an_option_that_a_client_lacks_is_omitted_unless_it_has_a_value() -> None:
    options = OptionsOf(old)
    assert options.accepted(partition_key="k", ordering_key=None) == {"partition_key": "k"}
    assert options.accepted(partition_key=None, ordering_key="") == {"partition_key": None}
    with pytest.raises(HarnessError, match="has no option ordering_key"):
        options.accepted(partition_key="k", ordering_key="o")


def test_a_message_property_is_none_if_its_client_lacks_the_method() -> None:
    class WithOrderingKey:
        def ordering_key(self) -> str:
            return "o"

    assert told_by(WithOrderingKey(), "ordering_key") == "o"
    assert told_by(object(), "ordering_key") == ""


def test_a_failed_flush_without_async_support_is_left_to_the_send_callbacks() -> None:
    class FailingFlush:
        asked = 0

        def flush(self) -> None:
            self.asked += 1
            raise RuntimeError("AlreadyClosed")

    producer = FailingFlush()
    start_flushing(producer)
    assert producer.asked == 1


@pytest.mark.parametrize("release", RELEASES)
def test_each_client_sends_a_batch_as_one_entry_and_acknowledges_it(
    release: str, broker: Broker, admin: Admin, client: WireClient, topic: str
) -> None:
    python = python_with_client(release, lambda line: print(line, file=sys.stderr))
    ran = subprocess.run(
        [str(python), "-c", CONSUMES_A_BATCH, broker.addresses.service_url, topic],
        capture_output=True,
        text=True,
        timeout=6 * TIMEOUT_S,
        check=False,
    )
    assert (ran.returncode, ran.stdout.split()) == (0, ["a", "b"]), ran.stderr
    assert admin.stats(topic).subscriptions["s"].backlog == 0
    (entry,) = read_log(client, topic, timeout_s=TIMEOUT_S)
    assert [payload for _, payload in entry.messages] == [b"a", b"b"]
