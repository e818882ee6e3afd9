"""The network faults that machines choose from."""

from __future__ import annotations

from hypothesis import strategies as st

from model.vocabulary import CutAfter, CutAt, Delay, Hold, LoseThenCut, NetworkFault, RefuseConnections

WHERE = st.sampled_from(["before", "within", "after"])
NTH = st.integers(1, 6)

AT_SENDS: st.SearchStrategy[NetworkFault] = st.one_of(
    st.builds(CutAt, kind=st.just("SEND"), nth=NTH, where=WHERE),
    st.builds(CutAt, kind=st.just("SEND_RECEIPT"), nth=NTH, where=WHERE),
    st.builds(LoseThenCut, kind=st.just("SEND_RECEIPT"), nth=NTH, count=st.integers(1, 3)),
    st.builds(CutAfter, size_bytes=st.integers(1, 800), to_broker=st.booleans()),
)
"""Faults after which a producer does not know what became of what it sent."""
LATE: st.SearchStrategy[NetworkFault] = st.one_of(
    st.builds(Delay, kind=st.sampled_from(["SEND", "SEND_RECEIPT"]), nth=NTH, delay_ms=st.sampled_from([5, 50])),
    st.builds(Hold, kind=st.sampled_from(["SEND", "SEND_RECEIPT"]), nth=NTH),
)
"""Faults after which all is as it was, only later."""
AT_OPENING: st.SearchStrategy[NetworkFault] = st.one_of(
    st.builds(CutAt, kind=st.sampled_from(["PRODUCER", "PRODUCER_SUCCESS"]), where=WHERE),
    st.builds(LoseThenCut, kind=st.just("PRODUCER_SUCCESS")),
    st.builds(RefuseConnections, for_ms=st.sampled_from([5, 50, 300])),
)
"""Faults that keep a producer from coming (back) for a while."""
ConsumerFault = CutAt | CutAfter | LoseThenCut
"""What may happen to a consumer's connection."""

AT_RECEIVING: st.SearchStrategy[ConsumerFault] = st.one_of(
    st.builds(CutAt, kind=st.just("MESSAGE"), nth=NTH, where=WHERE),
    st.builds(CutAt, kind=st.just("FLOW"), where=WHERE),
    st.builds(CutAfter, size_bytes=st.integers(1, 800), to_broker=st.just(False)),
)
AT_ACKNOWLEDGING: st.SearchStrategy[ConsumerFault] = st.one_of(
    st.builds(CutAt, kind=st.sampled_from(["ACK", "ACK_RESPONSE"]), where=WHERE),
    st.builds(LoseThenCut, kind=st.sampled_from(["ACK", "ACK_RESPONSE"])),
)
FAULTS = st.one_of(AT_SENDS, AT_SENDS, AT_SENDS, LATE, AT_OPENING)
