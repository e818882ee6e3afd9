"""The outcomes of requests to a broker, the same for both clients.

The outcome of a send is a closed type, :data:`SendOutcome`. All other requests succeed or raise one of the errors
here. Machines record these as observations; in any other caller they are harness errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from conformance.clients import protocol_pb2 as pb
from conformance.harness_error import HarnessError
from model.log import Position


class ServerRefused(HarnessError):
    """The broker answered with an error: the request had no effect."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"the broker refused: {code}: {message}")
        self.code = code
        """The error's name in the protocol, e.g. ``ProducerBusy``."""
        self.message = message
        """The broker's message."""

    @property
    def may_pass(self) -> bool:
        """Whether a client should look the topic up and retry."""
        return self.code in _MAY_PASS


class ConnectionLost(HarnessError):
    """The connection, or the producer's or consumer's place on it, is gone: what was asked may have taken effect."""

    interface: Literal["binary", "admin"] = "binary"
    """What was asked: the binary protocol, or the admin API."""


class NoAnswer(HarnessError):
    """The broker did not answer in time: the request may still take effect."""

    interface: Literal["binary", "admin"] = "binary"
    """What was asked: the binary protocol, or the admin API."""


CLIENT_ERRORS: Final = (ServerRefused, ConnectionLost, NoAnswer)
"""The errors of both clients."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The broker confirmed a send.

    ``position``: that of the entry; None for a duplicate (DEDUP-03).
    ``highest_sequence_id`` is a confirmed batch's last one; for a single message a broker says 0, or -1.
    """

    sequence_id: int
    highest_sequence_id: int
    position: Position | None
    batch_index: int = -1
    """The message's batch index, from pulsar-client."""


@dataclass(frozen=True, slots=True)
class SendError:
    """The broker or the client refused a send; ``code``: the error's name."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Lost:
    """The connection or the producer was closed before an answer. The send may have taken effect."""

    reason: str = ""


SendOutcome = Receipt | SendError | Lost
"""The outcomes of a send."""


def error_name(code: int) -> str:
    """A server error's name in the protocol; the number of an unknown one."""
    return _ERROR_NAMES.get(code, f"ServerError{code}")


def position_of(message_id: pb.MessageIdData) -> Position | None:
    """Read a position from the wire, where -1 is the largest unsigned number; None for -1:-1."""
    ledger, entry = signed(message_id.ledger_id), signed(message_id.entry_id)
    return None if ledger < 0 and entry < 0 else Position(ledger, entry)


def message_id_of(position: Position, *, batch_index: int = -1) -> pb.MessageIdData:
    """A position as on the wire."""
    return pb.MessageIdData(
        ledger_id=position.ledger % _TWO_TO_64, entry_id=position.entry % _TWO_TO_64, batch_index=batch_index
    )


_MAY_PASS: Final = frozenset({"MetadataError", "PersistenceError", "ServiceNotReady", "TooManyRequests"})
"""The topic is being loaded: release 2.11 answers PersistenceError where later ones answer ServiceNotReady."""

_ERROR_NAMES: Final[dict[int, str]] = {number: name for name, number in pb.ServerError.items()}
_TWO_TO_64: Final = 2**64


def signed(number: int) -> int:
    """Read an unsigned number of the protocol that the broker means as signed: it writes -1 for none."""
    return number - _TWO_TO_64 if number >= 2**63 else number
