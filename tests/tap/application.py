"""An application that knows nothing of the suite: it sends, receives, nacks and acknowledges with pulsar-client.

It runs in a process of its own, like any application: ``python -m tests.tap.application SERVICE TOPIC TYPE OPTION…``.
"""

from __future__ import annotations

import os
import sys

import pulsar

MESSAGES = 60
MISSES_AT_MOST = 50
"""How often nothing may be there before it ends; a defect may prevent that everything arrives."""
TYPES = {
    "Exclusive": pulsar.ConsumerType.Exclusive,
    "Failover": pulsar.ConsumerType.Failover,
    "Shared": pulsar.ConsumerType.Shared,
    "Key_Shared": pulsar.ConsumerType.KeyShared,
}


def received_by(consumer: pulsar.Consumer) -> tuple[pulsar.Consumer, pulsar.Message] | None:
    """A consumer and the message that it receives, if one is there."""
    try:
        return consumer, consumer.receive(100)
    except pulsar.Timeout:
        return None


def main(service_url: str, topic: str, type_: str, *options: str) -> None:
    """Send messages and acknowledge each of them; nack some once, unless dispatches have an order or chunks.

    Options: ``chunks`` sends some in chunks; ``batches`` sends in batches by key, compressed.
    """
    quiet = pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)
    clients = [pulsar.Client(service_url, logger=quiet) for _ in range(1 if type_ in ("Exclusive", "Failover") else 2)]
    consumers = [client.subscribe(topic, "s", TYPES[type_], negative_ack_redelivery_delay_ms=100) for client in clients]
    batched = {
        "batching_enabled": True,
        "batching_type": pulsar.BatchingType.KeyBased,
        "batching_max_messages": 10,
        "compression_type": pulsar.CompressionType.LZ4,
    }
    producer = clients[0].create_producer(
        topic,
        chunking_enabled="chunks" in options,
        **(batched if "batches" in options else {}),
    )
    for number in range(MESSAGES):
        size = 3000 if "chunks" in options and number % 4 == 0 else 1
        producer.send_async(b"%9d " % number * size, lambda _result, _id: None, partition_key=f"k{number % 7}")
    producer.flush()
    nacks = type_ == "Shared" and "chunks" not in options
    left, misses = MESSAGES, 0
    while left and misses < MISSES_AT_MOST:
        received = [message for message in map(received_by, consumers) if message is not None]
        misses = 0 if received else misses + 1
        for consumer, message in received:
            if nacks and message.redelivery_count() == 0 and left % 10 == 0:
                consumer.negative_acknowledge(message)
            else:
                consumer.acknowledge(message)
                left -= 1
    for client in clients:
        client.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
