"""One broker with TLS, authentication and authorization for all of these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.security.secured_broker import SecuredBroker, secured_broker


@pytest.fixture(scope="package")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """The broker."""
    with secured_broker(tmp_path_factory.mktemp("secured")) as broker:
        yield broker
