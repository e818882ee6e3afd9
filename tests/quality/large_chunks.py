"""How much memory the checks of document 002 take with large messages: each is sent, split, stored, read and received.

``python -m tests.quality.large_chunks [SIZE_MB] [MESSAGES]`` starts a broker with the largest entries that are shipped
and says, message by message, the seconds that it took and the memory of this process, pulsar-client's included.
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path

from conformance.brokers.select import parse_broker
from conformance.lockstep.lockstep import Lockstep
from conformance.lockstep.real import RealPerformer
from conformance.lockstep.world import World
from conformance.tenancy.place import RunPlace
from model.deviations import DEVIATIONS
from model.example import Example
from model.operations import CreateTopic, OpenProducer, Send
from model.subscription_operations import Acknowledge, ReceiveDue, Subscribe
from model.vocabulary import Entry, Message

SETTINGS = {"maxMessageSize": str(5 * 1024 * 1024)}
MB = 1 << 20


def resident_mb() -> float:
    """What this process has in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / MB


def peak_mb() -> float:
    """The most that it had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(world: World, size_mb: int, messages: int) -> None:
    """Send and receive the messages one by one, each judged."""
    lockstep = Lockstep(RealPerformer(world), Example(known=frozenset(DEVIATIONS)))
    lockstep.do(CreateTopic("t0", "namespace-off", is_chunked=True))
    lockstep.do(OpenProducer("p1", "t0", "p", "official", is_chunking=True))
    lockstep.do(Subscribe("c1", "t0", "s0", "Exclusive", "official", queue=1))
    for number in range(messages + 1):
        began_s = time.monotonic()
        size_bytes = size_mb * MB if number else 1
        message = Message(number + 1, f"p{number}", size_bytes=size_bytes, content="noise")
        lockstep.do(Send("p1", (Entry((message,)),)))
        sent_s, sent_mb = time.monotonic() - began_s, peak_mb()
        lockstep.do(ReceiveDue("t0", "s0"))
        lockstep.do(Acknowledge("c1", (-1,)))
        whole_s = time.monotonic() - began_s
        times = f"{size_bytes / MB:6.1f} MB: sent in {sent_s:.1f} s, through in {whole_s:.1f} s"
        memory = f"{resident_mb():.0f} MB resident, at most {sent_mb:.0f} MB when sent, {peak_mb():.0f} MB when through"
        print(f"{times}; {memory}", flush=True)
    lockstep.performer.close()


def main() -> None:
    """Measure."""
    size_mb, messages = (*map(int, sys.argv[1:]), *(100, 3)[len(sys.argv) - 1 :])
    broker = parse_broker("4.0.8", settings=SETTINGS)
    broker.start()
    world = World(broker, place=RunPlace(broker))
    try:
        measure(world, size_mb, messages)
    finally:
        world.close()
        broker.stop()


if __name__ == "__main__":
    main()
