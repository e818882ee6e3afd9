"""What a history needs that a program of a released client cannot do."""

from __future__ import annotations

from conformance.harness_error import HarnessError


class Inexpressible(HarnessError):
    """``what``: a noun phrase."""

    def __init__(self, what: str) -> None:
        super().__init__(f"this history needs {what}, which a script of pulsar-client cannot do; `replay` performs it")
