"""What can come of asking a broker for something, in the same words for both clients.

The outcome of a send is a closed type, :data:`SendOutcome`. Everything else either succeeds or raises one of the errors
here; a caller that does not handle them fails with a harness error; a machine records them as observations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from conformance.clients import protocol_pb2 as pb
from conformance.harness_error import HarnessError
from model.log import Position


class ServerRefused(HarnessError):
    """The broker answered with an error: what was asked did not take effect."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"the broker refused: {code}: {message}")
        self.code = code
        """The error's name in the protocol, e.g. ``ProducerBusy``."""
        self.message = message
        """What the broker says of it."""

    @property
    def may_pass(self) -> bool:
        """Whether a client is to look the topic up and try again."""
        return self.code in _MAY_PASS


class ConnectionLost(HarnessError):
    """The connection, or the producer's or consumer's place on it, is gone: what was asked may have taken effect."""

    interface: Literal["binary", "admin"] = "binary"
    """What was asked: the binary protocol, or the admin API."""


class NoAnswer(HarnessError):
    """The broker did not answer in time: what was asked may take effect still."""

    interface: Literal["binary", "admin"] = "binary"
    """What was asked: the binary protocol, or the admin API."""


CLIENT_ERRORS: Final = (ServerRefused, ConnectionLost, NoAnswer)
"""All that either client raises where it cannot do what it is asked."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The broker confirmed a send.

    ``position`` is where the entry is stored; None says that the broker took it for a duplicate (DEDUP-03).
    ``highest_sequence_id`` is a confirmed batch's last one; for a single message a broker says 0, or -1.
    """

    sequence_id: int
    highest_sequence_id: int
    position: Position | None
    batch_index: int = -1
    """The message's place in its batch, where pulsar-client names it."""


@dataclass(frozen=True, slots=True)
class SendError:
    """The broker, or the client on its own, refused a send; ``code`` is the error's name."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Lost:
    """Nobody will answer any more: the connection or the producer was closed. The send may have taken effect."""

    reason: str = ""


SendOutcome = Receipt | SendError | Lost
"""All that can be known of a send once waiting for it is over."""


def error_name(code: int) -> str:
    """Give a server error's name in the protocol; an error that is not known is named by its number."""
    return _ERROR_NAMES.get(code, f"ServerError{code}")


def position_of(message_id: pb.MessageIdData) -> Position | None:
    """Read a position as it is on the wire, where -1 is the largest unsigned number; None for -1:-1."""
    ledger, entry = signed(message_id.ledger_id), signed(message_id.entry_id)
    return None if ledger < 0 and entry < 0 else Position(ledger, entry)


def message_id_of(position: Position, *, batch_index: int = -1) -> pb.MessageIdData:
    """Write a position as it is on the wire."""
    return pb.MessageIdData(
        ledger_id=position.ledger % _TWO_TO_64, entry_id=position.entry % _TWO_TO_64, batch_index=batch_index
    )


_MAY_PASS: Final = frozenset({"MetadataError", "PersistenceError", "ServiceNotReady", "TooManyRequests"})
"""The topic is being loaded: release 2.11 answers PersistenceError where later ones answer ServiceNotReady."""

_ERROR_NAMES: Final[dict[int, str]] = {number: name for name, number in pb.ServerError.items()}
_TWO_TO_64: Final = 2**64


def signed(number: int) -> int:
    """Read a number that the protocol has as unsigned and the broker as signed: it writes -1 for none."""
    return number - _TWO_TO_64 if number >= 2**63 else number
