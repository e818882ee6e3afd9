"""A client process of a soak: ``python -m conformance.soak.client``, its plan and its orders on standard input.

All of it goes through proxies, so that its history says when the broker sent each message, and its links can fail. What
it writes is put down when it ends, also when whoever started it is gone.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, Final, assert_never

import msgspec

from conformance.history.recording import now_ns
from conformance.proxy.armed import Armed
from conformance.proxy.faults import Hold, Refuse, Which
from conformance.soak.consuming import Consuming
from conformance.soak.plan import ClientPlan
from conformance.soak.producing import Producing
from conformance.soak.seat import seats
from conformance.soak.tally import Tally
from conformance.soak.words import End, Failed, Heal, InjectNetworkFault, Quiet, Ready, Renew, Word, encode, order

TELL_EVERY_S: Final = 0.5


class Client:
    """All of a client process but its standard streams."""

    def __init__(self, plan: ClientPlan) -> None:
        self._seats = seats(plan)
        self._tally = Tally()
        self._healing, self._ending = threading.Event(), threading.Event()
        tally, healing = self._tally, self._healing
        self._producers = [Producing(one, self._seats[one.cluster], tally, healing=healing) for one in plan.produces]
        self._consumers = [
            Consuming(one, self._seats, tally, healing=healing, ending=self._ending) for one in plan.consumes
        ]

    def start(self) -> None:
        """Begin."""
        for thread in (*self._consumers, *self._producers):
            thread.start()

    def obey(self, told: InjectNetworkFault | Heal | Renew) -> None:
        """Do what the soak says."""
        match told:
            case InjectNetworkFault():
                threading.Thread(target=self._disturb, args=(told,), daemon=True).start()
            case Heal():
                for seat in self._seats.values():
                    seat.proxy.lift_all()
                self._healing.set()
            case Renew():
                for consumer in self._consumers:
                    if (consumer.plan.topic, consumer.plan.subscription) == (told.topic, told.subscription):
                        consumer.renew(told.cluster)

    def news(self) -> Iterator[Word]:
        """What there is to tell now."""
        threads: list[Producing | Consuming] = [*self._producers, *self._consumers]
        for failure in (one.failure for one in threads if one.failure is not None):
            yield Failed(sentence=failure)
        if all(one.is_ready for one in threads):
            yield Ready()
        events = sum(seat.recorder.recording.events for seat in self._seats.values())
        yield msgspec.structs.replace(self._tally.total, events=events)
        if all(one.is_quiet for one in self._producers):
            yield Quiet()

    def end(self) -> None:
        """Put down the history."""
        self._ending.set()
        for consumer in self._consumers:
            consumer.join(1.0)
        for seat in self._seats.values():
            seat.recorder.close()

    def _disturb(self, told: InjectNetworkFault) -> None:
        begun_ns = now_ns()
        proxies = [seat.proxy for seat in self._seats.values()]
        armed: list[Armed] = []
        match told.how:
            case "cut":
                pass
            case "refuse":
                armed = [proxy.inject(Refuse(for_s=told.lasts_s)) for proxy in proxies]
            case "hold":
                armed = [proxy.inject(Hold(which=Which(count=None))) for proxy in proxies]
            case _:
                assert_never(told.how)
        if told.how != "hold":
            for proxy in proxies:
                proxy.cut()
        if armed:
            self._healing.wait(told.lasts_s)
        for one in armed:
            one.lift()
        for seat in self._seats.values():
            seat.recorder.recording.fault(told.how, invoked_ns=begun_ns, completed_ns=now_ns())


def main() -> None:
    """Read the plan, then obey until told to end, or until whoever tells is gone."""
    words, out = sys.stdin.buffer, sys.stdout.buffer
    client = Client(msgspec.json.decode(words.readline(), type=ClientPlan))
    client.start()
    threading.Thread(target=_tell, args=(client, out), daemon=True).start()
    for line in words:
        told = order(line)
        if isinstance(told, End):
            break
        client.obey(told)
    client.end()
    _tell_once(client, out)
    os._exit(0)  # pulsar-client may take long to part from what is open; the broker is told by the connections' end


def _tell(client: Client, out: Any) -> None:
    while True:
        _tell_once(client, out)
        time.sleep(TELL_EVERY_S)


def _tell_once(client: Client, out: Any) -> None:
    with contextlib.suppress(OSError):  # nobody listens any more; the end of the orders says so, too
        out.write(b"".join(encode(word) for word in client.news()))
        out.flush()


if __name__ == "__main__":
    main()
