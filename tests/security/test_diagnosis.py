"""An unusable cluster is reported with its cause, each in one sentence, within three seconds."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.brokers.startup.ports import free_ports
from conformance.clients.diagnosis import require_usable
from conformance.clients.security.service import OAuth2, Secret, Security, Service
from conformance.harness_error import HarnessError
from tests.security.certificates import Authority
from tests.security.commands import run_for_real
from tests.security.secured_broker import SecuredBroker
from tests.security.servers import HOST, Handler, closing, http, silent

UNKNOWN = "no-such-host.invalid"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def cause(service_url: str, admin_url: str, security: Security) -> str:
    """Why it cannot be used; in time."""
    began = time.monotonic()
    with pytest.raises(HarnessError) as harness_error:
        require_usable(Service(service_url, security), Service(admin_url, security))
    assert time.monotonic() - began < 3
    return str(harness_error.value)


def cause_at(
    secured: SecuredBroker,
    security: Security | None = None,
    *,
    service_url: str | None = None,
    admin_url: str | None = None,
) -> str:
    """The same of the broker, with another address."""
    return cause(service_url or secured.service_url, admin_url or secured.admin_url, security or secured.security)


def cause_of_one(secured: SecuredBroker, scheme: str, place: str) -> str:
    """The same, where the address of this scheme is another one."""
    url = f"{scheme}://{place}"
    if scheme.startswith("pulsar"):
        return cause_at(secured, service_url=url)
    return cause_at(secured, admin_url=url)


def test_a_usable_cluster_is_no_harness_error(secured: SecuredBroker) -> None:
    require_usable(secured.service, secured.admin)
    plain = secured.security
    require_usable(Service(secured.plain_service_url, plain), Service(secured.plain_admin_url, plain))


def test_one_reachable_host_of_several_is_enough(secured: SecuredBroker) -> None:
    (nobody,) = free_ports(1)
    service = Service(f"pulsar+ssl://{HOST}:{nobody},{HOST}:{secured.service_tls}", secured.security)
    require_usable(service, Service(f"https://{HOST}:{nobody},{HOST}:{secured.admin_tls}", secured.security))


both_addresses = pytest.mark.parametrize("scheme", ["pulsar+ssl", "https"])


@both_addresses
def test_unknown_host(secured: SecuredBroker, scheme: str) -> None:
    assert cause_of_one(secured, scheme, f"{UNKNOWN}:1234") == f"the host name {UNKNOWN} is unknown"


def test_the_same_cause_at_both_addresses_is_named_once(secured: SecuredBroker) -> None:
    told = cause_at(secured, service_url=f"pulsar+ssl://{UNKNOWN}:1", admin_url=f"https://{UNKNOWN}:1")
    assert told == f"the host name {UNKNOWN} is unknown"


@both_addresses
def test_connection_refused(secured: SecuredBroker, scheme: str) -> None:
    (port,) = free_ports(1)
    assert cause_of_one(secured, scheme, f"{HOST}:{port}") == f"nothing listens at {HOST}:{port} (connection refused)"


@pytest.mark.parametrize("scheme", ["pulsar+ssl", "https", "pulsar", "http"])
def test_no_answer(secured: SecuredBroker, scheme: str) -> None:
    with silent() as port:
        told = cause_of_one(secured, scheme, f"{HOST}:{port}")
        assert told in (f"{HOST}:{port} does not answer", f"{HOST}:{port} takes connections and does not answer")


def test_an_untrusted_certificate(secured: SecuredBroker, authority: Authority) -> None:
    told = cause_at(secured, replace(secured.security, trust_certs_file=authority.file))
    assert "--tls-trust-certs" in told
    for port in (secured.service_tls, secured.admin_tls):
        assert f"the certificate of {HOST}:{port} is not trusted (" in told


def test_a_certificate_of_another_host(authority: Authority) -> None:
    security = Security(trust_certs_file=authority.file)
    with http(pair=authority.of_server("elsewhere.example")) as port:
        urls = f"pulsar+ssl://{HOST}:{port}", f"https://{HOST}:{port}"
        told = cause(*urls, security)
        assert told.startswith(f"the certificate of {HOST}:{port} is for another host name")
        assert "certificate" not in cause(*urls, replace(security, verify_hostname=False))


def test_401(secured: SecuredBroker) -> None:
    nothing = Security(trust_certs_file=secured.authority.file)
    told = cause_at(secured, nothing)
    wrong = Secret("bm90.YQ.dG9rZW4")
    refused = cause_at(secured, replace(nothing, token=wrong))
    for port in (secured.service_tls, secured.admin_tls):
        assert f"{HOST}:{port} asks for authentication (401): give a token" in told
        assert f"{HOST}:{port} does not accept the token (401)" in refused
    assert wrong.value not in refused


def test_http_at_the_binary_port(secured: SecuredBroker) -> None:
    with http() as port:
        told = cause_at(secured, service_url=f"pulsar://{HOST}:{port}")
        assert told == f"{HOST}:{port} speaks HTTP and not Pulsar's binary protocol: is it the admin address?"
    told = cause_at(secured, service_url=f"pulsar://{HOST}:{secured.plain_admin}")
    assert "speaks HTTP" in told
    told = cause_at(secured, service_url=f"pulsar+ssl://{HOST}:{secured.admin_tls}")
    assert "speaks HTTP" in told


def test_something_else_at_the_binary_port(secured: SecuredBroker) -> None:
    with closing() as port:
        told = cause_at(secured, service_url=f"pulsar://{HOST}:{port}")
        assert told == f"{HOST}:{port} is not Pulsar's binary protocol: it closes the connection"


def test_something_else_at_the_admin_port(secured: SecuredBroker, authority: Authority) -> None:
    with http() as port:
        told = cause_at(secured, admin_url=f"http://{HOST}:{port}")
        assert told.startswith(f"{HOST}:{port} is not Pulsar's admin interface: it does not tell a version")
    told = cause_at(secured, admin_url=f"http://{HOST}:{secured.plain_service}")
    assert (
        told == f"{HOST}:{secured.plain_service} speaks Pulsar's binary protocol and not HTTP: it is no admin address"
    )
    with closing() as port:
        told = cause_at(secured, admin_url=f"http://{HOST}:{port}")
        assert told == f"{HOST}:{port} is not Pulsar's admin interface: it does not speak HTTP"


def test_tls_to_a_plain_port(secured: SecuredBroker) -> None:
    told = cause_at(secured, service_url=secured.plain_service_url.replace("pulsar:", "pulsar+ssl:"))
    assert told.endswith("speaks Pulsar's protocol without TLS: write pulsar:// instead of pulsar+ssl://")
    told = cause_at(secured, admin_url=secured.plain_admin_url.replace("http:", "https:"))
    assert told.endswith("speaks HTTP without TLS: write http:// instead of https://")


def test_plain_text_to_a_tls_port(secured: SecuredBroker) -> None:
    told = cause_at(secured, service_url=secured.service_url.replace("+ssl", ""))
    assert told.endswith("speaks TLS: write pulsar+ssl:// instead of pulsar://")
    told = cause_at(secured, admin_url=secured.admin_url.replace("https", "http"))
    assert told.endswith("speaks TLS: write https:// instead of http://")


def test_403(secured: SecuredBroker) -> None:
    class Forbids(Handler):
        status = 403

    with http(Forbids) as port:
        told = cause_at(secured, admin_url=f"http://{HOST}:{port}")
    assert told == f"{HOST}:{port}: role 'admin' may not use the admin interface (403)"


def test_both_addresses_are_reported() -> None:
    service, admin = free_ports(2)
    told = cause(f"pulsar://{HOST}:{service}", f"http://{HOST}:{admin}", Security())
    assert told == "; ".join(f"nothing listens at {HOST}:{port} (connection refused)" for port in (service, admin))


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    file = tmp_path / "broken"
    file.write_text("nothing\nof use")
    return file


def test_unusable_files_are_reported_before_anything_else(broken: Path, authority: Authority) -> None:
    file = str(broken)
    pair = authority.of_client("bob")
    for security, sentence in (
        (Security(trust_certs_file=file), f"{file} holds no certificates in PEM that could be trusted"),
        (Security(certificate_file=file, key_file=file), f"the client certificate {file} and its key {file} are of no"),
        (Security(certificate_file=pair.certificate, key_file=file), "are of no use"),
        (Security(token_file=file), f"the token's file {file} must hold one token and nothing else"),
        (Security(token_file=f"{file}x"), f"cannot read the token's file {file}x: No such file or directory"),
        (Security(oauth2=OAuth2(issuer_url="http://i", credentials_file=file)), f"the OAuth2 credentials {file} are"),
    ):
        assert sentence in cause("pulsar+ssl://h:1", "https://h:2", security)


@pytest.mark.parametrize("file", ["/dev/zero", "/dev/full", "pipe"])
def test_a_file_that_never_ends_is_refused(file: str, authority: Authority, tmp_path: Path) -> None:
    if file == "pipe":
        os.mkfifo(tmp_path / file)
        file = str(tmp_path / file)
    pair = authority.of_client("bob")
    for security, what in (
        (Security(trust_certs_file=file), "the trusted certificates"),
        (Security(certificate_file=file, key_file=file), "the client certificate"),
        (Security(certificate_file=pair.certificate, key_file=file), "the key"),
        (Security(token_file=file), "the token's file"),
        (Security(oauth2=OAuth2(issuer_url="http://i", credentials_file=file)), "the OAuth2 credentials"),
    ):
        told = cause("pulsar+ssl://h:1", "https://h:2", security)
        assert f"cannot read {what} {file}: it is no regular file" in told


def test_the_command_reports_the_cause_with_status_2_in_time(secured: SecuredBroker, tmp_path: Path) -> None:
    secret = secured.security.token
    assert secret is not None
    (tmp_path / "token").write_text(secret.value + "x")
    options = ["--tls-trust-certs", secured.authority.file, "--token-file", str(tmp_path / "token")]
    ran = run_for_real("check", "--broker", secured.text, *options, folder=tmp_path)
    assert ran.status == 2
    (line,) = ran.err.splitlines()
    assert line.startswith(f"pulsar-conformance: {HOST}:{secured.service_tls} does not accept the token in ")
    assert secret.value not in line
