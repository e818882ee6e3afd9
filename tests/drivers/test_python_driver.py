"""The driver of pulsar-client answers each request once, also one that it cannot perform."""

from __future__ import annotations

import io

from conformance.clients.driver.protocol import Error, Flush, read_line, write
from conformance.drivers.python import Driver


def test_a_flush_of_an_unknown_producer_is_one_error() -> None:
    out = io.BytesIO()
    Driver(out).take(write(Flush(id=7, producer="nobody")))
    (line,) = out.getvalue().splitlines()
    assert isinstance(answer := read_line(line), Error)
    assert answer.id == 7
