"""The settings of a running broker; only super users may read them."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from conformance.clients.admin.client import Admin
from conformance.clients.admin.http import AdminError
from conformance.tenancy.cluster_settings import CLASSIC

_REFUSED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_SHIPPED: Final = {
    "acknowledgmentAtBatchIndexLevelEnabled": "false",
    "brokerDeduplicationEnabled": "false",
    "delayedDeliveryEnabled": "true",
    "managedLedgerDefaultMarkDeleteRateLimit": "0.1",
}
"""The settings that all releases ship with a value other than the code's default."""


def settings_in_force(admin: Admin) -> Mapping[str, str] | None:
    """The settings of the broker; None where the role may not read them."""
    try:
        return admin.runtime_configuration()
    except AdminError as error:
        if error.status in _REFUSED:
            return None
        raise


def shipped_settings(*, has_draining_hashes: bool) -> Mapping[str, str]:
    """The shipped settings. A release with draining hashes uses them."""
    return {**_SHIPPED, CLASSIC: "false"} if has_draining_hashes else _SHIPPED
