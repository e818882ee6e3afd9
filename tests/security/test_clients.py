"""All clients authenticate with TLS, with each method, on a real broker with authorization."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.brokers.startup.ports import free_ports
from conformance.clients.admin.client import Admin, AdminError
from conformance.clients.driver.client import OfficialClient
from conformance.clients.outcomes import ConnectionLost, Receipt, ServerRefused
from conformance.clients.security.service import OAuth2, Secret, Security, Service
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.read_log import read_log
from conformance.harness_error import HarnessError
from conformance.proxy.event_buffer import EventBuffer
from conformance.proxy.proxy import Proxy
from tests.security.issuer import credentials, issuer
from tests.security.secured_broker import OWNER, REFRESH_CHECK_S, TENANT, SecuredBroker
from tests.security.servers import HOST
from tests.security.tokens import token
from tests.waits import eventually

TIMEOUT_S = 15.0


@pytest.fixture(scope="module")
def namespace(secured: SecuredBroker) -> str:
    name = f"{TENANT}/clients"
    with Admin(secured.admin.at(secured.admin_url)) as admin:
        admin.create_namespace(name)
        admin.set_retention(name)  # nobody is subscribed: ledgers would be gone when they are full
    return name


@pytest.fixture
def topic(namespace: str) -> str:
    return f"persistent://{namespace}/{uuid.uuid4().hex[:8]}"


def use(service: Service, topic: str) -> None:
    """Send a message with each client, and read both back."""
    with contextlib.closing(WireClient.connect(service, timeout_s=TIMEOUT_S)) as wire:
        producer = wire.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
        assert isinstance(producer.answer(producer.send(1, b"w" * 9000), timeout_s=TIMEOUT_S), Receipt)
        with OfficialClient(service, timeout_s=TIMEOUT_S) as official:
            other = official.open_producer(topic, name="o")
            assert isinstance(other.answer(other.send(1, b"o"), timeout_s=TIMEOUT_S), Receipt)
            other.close()
        assert len(read_log(wire, topic, timeout_s=TIMEOUT_S)) == 2


@pytest.fixture(params=["text", "file", "certificate", "oauth2"])
def security(request: pytest.FixtureRequest, secured: SecuredBroker, tmp_path: Path) -> Iterator[Security]:
    """The role that owns the tenant, in each way to sign in."""
    trusting = Security(trust_certs_file=secured.authority.file)
    match request.param:
        case "text":
            yield replace(trusting, token=Secret(token(OWNER)))
        case "file":
            (tmp_path / "token").write_text(token(OWNER) + "\n")
            yield replace(trusting, token_file=str(tmp_path / "token"))
        case "certificate":
            pair = secured.authority.of_client(OWNER)
            yield replace(trusting, certificate_file=pair.certificate, key_file=pair.key)
        case _:
            with issuer(OWNER, secured.authority.of_server(HOST)) as made:
                asked = OAuth2(
                    issuer_url=made.url, credentials_file=credentials(tmp_path), audience="urn:pulsar", scope="all"
                )
                yield replace(trusting, oauth2=asked)
                (form,) = made.asked
                assert (form["grant_type"], form["audience"], form["scope"], form["client_id"]) == (
                    "client_credentials",
                    "urn:pulsar",
                    "all",
                    "suite",
                ), "one token serves all clients of a process"


def test_each_client_authenticates_with_each_method(
    secured: SecuredBroker, security: Security, namespace: str, topic: str
) -> None:
    service = Service(secured.service_url, security)
    use(service, topic)
    buffer = EventBuffer()
    with Proxy(service, record=buffer) as proxy:
        use(proxy.service, f"{topic}-proxied")
        assert buffer.commands("CONNECTED"), "nothing came through the proxy"
        assert len(proxy.ports) >= 3
    with Admin(Service(secured.admin_url, security)) as admin:
        assert f"{TENANT}/clients" in admin.namespaces(TENANT)
        assert len(admin.topics(namespace)) >= 2


def test_many_large_messages_pass_in_both_directions(secured: SecuredBroker, topic: str) -> None:
    """More than a socket takes at once, in either direction: records of TLS are cut in the middle."""
    with contextlib.closing(WireClient.connect(secured.service, timeout_s=TIMEOUT_S)) as wire:
        producer = wire.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
        payloads = [bytes([number % 256]) * 10_000 for number in range(300)]
        tickets = [producer.send(number, payload) for number, payload in enumerate(payloads, start=1)]
        assert all(isinstance(producer.answer(one, timeout_s=TIMEOUT_S), Receipt) for one in tickets)
        assert len(read_log(wire, topic, timeout_s=TIMEOUT_S)) == len(payloads)


def test_an_address_that_refuses_connections_is_skipped(secured: SecuredBroker, topic: str) -> None:
    (nobody,) = free_ports(1)
    service = Service(f"pulsar+ssl://{HOST}:{nobody},{HOST}:{secured.service_tls}", secured.security)
    use(service, topic)
    with Proxy(service) as proxy:
        use(proxy.service, f"{topic}-proxied")
    with Admin(f"http://{HOST}:{nobody}") as admin, pytest.raises(ConnectionLost, match="nothing listens at "):
        admin.broker_version()
    with Admin(Service(f"https://{HOST}:{nobody},{HOST}:{secured.admin_tls}", secured.security)) as admin:
        assert admin.namespaces(TENANT)
        assert admin.broker_version()


def test_without_a_valid_token_no_client_connects(secured: SecuredBroker, topic: str) -> None:
    stranger = Security(trust_certs_file=secured.authority.file)
    for security in (stranger, replace(stranger, token=Secret("bm90.YQ.dG9rZW4"))):
        service = Service(secured.service_url, security)
        with pytest.raises(ServerRefused, match="Authentication"):
            WireClient.connect(service, timeout_s=TIMEOUT_S)
        with OfficialClient(service, timeout_s=3) as client, pytest.raises(HarnessError):
            client.open_producer(topic, name="p")
        with Admin(Service(secured.admin_url, security)) as admin, pytest.raises(AdminError, match="status 401"):
            admin.namespaces(TENANT)


def test_an_untrusted_certificate_is_refused_by_every_client(secured: SecuredBroker, topic: str) -> None:
    service = Service(secured.service_url, Security(token=Secret(token(OWNER))))
    with pytest.raises(ConnectionLost, match="is not trusted"):
        WireClient.connect(service, timeout_s=TIMEOUT_S)
    with OfficialClient(service, timeout_s=3) as client, pytest.raises(HarnessError):
        client.open_producer(topic, name="p")
    with Admin(service.at(secured.admin_url)) as admin, pytest.raises(ConnectionLost, match="is not trusted"):
        admin.namespaces(TENANT)
    use(Service(secured.service_url, replace(service.security, allow_insecure=True)), topic)


def test_an_operation_that_a_role_may_not_do_is_one_sentence(secured: SecuredBroker) -> None:
    owner = secured.as_role(OWNER)
    with Admin(Service(secured.admin_url, owner)) as admin:
        with pytest.raises(AdminError) as refused:
            admin.create_tenant("mine", clusters=[])
        assert str(refused.value).startswith(f"role '{OWNER}' may not create tenants on this cluster (")
        with pytest.raises(AdminError, match=f"^role '{OWNER}' may not read the brokers' configuration on"):
            admin.runtime_configuration()
        with pytest.raises(AdminError, match=f"^role '{OWNER}' may not create namespaces in the tenant public on"):
            admin.create_namespace("public/mine")


@pytest.mark.parametrize("is_proxied", [False, True], ids=["direct", "proxied"])
def test_an_expiring_token_is_refreshed(secured: SecuredBroker, topic: str, tmp_path: Path, is_proxied: bool) -> None:
    """The broker asks for a fresh one over the connection, which goes on."""
    file = tmp_path / "token"
    file.write_text(token(OWNER, lasts_s=4))
    service = Service(secured.service_url, Security(trust_certs_file=secured.authority.file, token_file=str(file)))
    buffer = EventBuffer()
    with contextlib.ExitStack() as stack:
        proxy = stack.enter_context(Proxy(service, record=buffer))
        wire = stack.enter_context(
            contextlib.closing(WireClient.connect(proxy.service if is_proxied else service, timeout_s=TIMEOUT_S))
        )
        producer = wire.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
        official = stack.enter_context(OfficialClient(proxy.service, timeout_s=TIMEOUT_S))
        other = official.open_producer(topic, name="o")
        file.write_text(token(OWNER))
        eventually(lambda: _pumped(wire) and len(buffer.commands("AUTH_RESPONSE")) >= 1 + is_proxied, deadline_s=30)
        wire.pump(for_s=REFRESH_CHECK_S + 1)
        assert producer.is_open
        assert isinstance(producer.answer(producer.send(1, b"w"), timeout_s=TIMEOUT_S), Receipt)
        assert isinstance(other.answer(other.send(1, b"o"), timeout_s=TIMEOUT_S), Receipt)
        other.close()  # or the client takes its time to end


def test_a_client_without_a_fresh_token_is_disconnected_by_the_broker(secured: SecuredBroker, topic: str) -> None:
    service = Service(secured.service_url, secured.as_role(OWNER, lasts_s=2))
    with contextlib.closing(WireClient.connect(service, timeout_s=TIMEOUT_S)) as wire:
        producer = wire.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
        eventually(lambda: _pumped(wire) and not producer.is_open, deadline_s=30)


def _pumped(wire: WireClient) -> bool:
    wire.pump()
    return True


def test_an_issuer_that_issues_no_token_is_reported(secured: SecuredBroker, tmp_path: Path) -> None:
    with issuer(OWNER) as made:
        asked = OAuth2(issuer_url=made.url, credentials_file=credentials(tmp_path, "wrong-secret"))
        service = Service(secured.service_url, Security(trust_certs_file=secured.authority.file, oauth2=asked))
        with pytest.raises(HarnessError) as refused:
            WireClient.connect(service, timeout_s=TIMEOUT_S)
    assert str(refused.value) == (
        f"no OAuth2 token: POST {made.url}/token was answered with status 401: invalid_client unknown"
    )
    with pytest.raises(HarnessError, match=r"^no OAuth2 token from .*: nothing listens at "):
        WireClient.connect(service, timeout_s=TIMEOUT_S)
