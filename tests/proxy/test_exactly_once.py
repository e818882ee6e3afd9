"""All network faults together: pulsar-client and a broker with deduplication store every message once, in order.

That is DEDUP-13. It also shows that faults can be drawn as values, and that none of them leaves a client hanging.
"""

from __future__ import annotations

import uuid

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from conformance.brokers.interface import Broker
from conformance.clients.admin.client import Admin
from conformance.clients.driver.client import OfficialClient
from conformance.clients.outcomes import Receipt
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.read_log import read_log
from conformance.proxy.faults import Cut, CutAfterBytes, DelayFrames, Fault, HoldFrames, Lose, Refuse, Repeat, Which
from conformance.proxy.proxy import Proxy

TIMEOUT_S = 30.0
MESSAGES = 12

sends = st.builds(Which, kind=st.just("SEND"), nth=st.integers(1, MESSAGES))
receipts = st.builds(
    Which, kind=st.just("SEND_RECEIPT"), nth=st.integers(1, MESSAGES // 2), count=st.integers(1, MESSAGES // 3)
)
anything = st.builds(
    Which,
    kind=st.sampled_from(["SEND", "SEND_RECEIPT", "PRODUCER", "PRODUCER_SUCCESS", "LOOKUP_RESPONSE"]),
    nth=st.integers(1, 3),
)
WHERE = st.sampled_from(["before", "within", "after"])
faults = st.one_of(
    st.builds(
        Cut,
        which=anything | sends,
        where=st.sampled_from(["before", "within", "after"]),
        within_bytes=st.integers(1, 60),
    ),
    st.builds(CutAfterBytes, direction=st.sampled_from(["to-broker", "to-client"]), size_bytes=st.integers(1, 1500)),
    st.builds(Lose, which=receipts, then_cut=st.just(True)),
    st.builds(DelayFrames, which=anything, delay_s=st.sampled_from([0.01, 0.05])),
    st.builds(HoldFrames, which=sends | receipts),
    st.builds(Refuse, connections=st.integers(1, 2)),
    st.builds(Repeat, which=receipts),
)


@settings(max_examples=20, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(chosen=st.lists(faults, min_size=1, max_size=3))
def test_every_message_is_stored_once_and_in_order(
    broker: Broker, admin: Admin, namespace: str, chosen: list[Fault]
) -> None:
    topic = f"persistent://{namespace}/{uuid.uuid4().hex[:8]}"
    admin.create_topic(topic)
    service_url = broker.addresses.service_url
    with Proxy(service_url) as proxy, OfficialClient(proxy.url, timeout_s=TIMEOUT_S) as official:
        producer = official.open_producer(topic, name="p")
        for fault in chosen:
            proxy.inject(fault)
        proxy.cut()
        tickets = [producer.send(i, b"%d" % i) for i in range(1, MESSAGES + 1)]
        tickets[MESSAGES // 2].wait(0.2)  # delayed commands, and those after them, stay until the faults are cleared
        proxy.lift_all()
        outcomes = [producer.answer(ticket, timeout_s=TIMEOUT_S) for ticket in tickets]
        proxy.stop()  # before the client: after a reconnect it may take 20 s to shut down otherwise
        assert all(isinstance(outcome, Receipt) for outcome in outcomes)
    reader = WireClient.connect(service_url, timeout_s=TIMEOUT_S)
    assert [entry.sequence_id for entry in read_log(reader, topic, timeout_s=TIMEOUT_S)] == [*range(1, MESSAGES + 1)]
    reader.abort()
