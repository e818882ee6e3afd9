"""What a released client lacks for an operation, in a sentence."""

from __future__ import annotations

from conformance.clients.driver.connect import ClientInfo, client_info
from conformance.clients.driver.protocol import Feature
from model.events import Skipped
from model.subscription_operations import Acknowledge, Nack


def without(client: ClientInfo, feature: Feature) -> str:
    return f"{client.name} {client.version} does not have {feature}"


def lacking(operation: Acknowledge | Nack, library: str | None) -> Skipped | None:
    """Why a client cannot perform it; None if it can."""
    feature: Feature | None
    match operation:
        case Acknowledge(cumulative=is_cumulative):
            feature = "cumulative-ack" if is_cumulative else None
        case Nack(nth=nth):
            feature = "redeliver" if nth is None else "nack"
    client = client_info(library)
    return None if feature is None or feature in client.features else Skipped(without(client, feature))
