"""What a user gives becomes one value, which never shows a secret."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from conformance.cli.parameters.connection import take_token_off
from conformance.clients.security.options import security_given, security_in
from conformance.clients.security.service import NO_SECURITY, OAuth2, Secret, Security, Service
from tests.cli.command_line import run

TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJib2IifQ.c2lnbmVk"


def test_a_secret_is_never_printed() -> None:
    service = Service("pulsar+ssl://h:6651", Security(token=Secret(TOKEN)))
    assert (
        TOKEN not in f"{service!r} {service} {service.security!r} {service.security.token} {service.security.options()}"
    )


def test_a_value_sent_through_a_pipe_is_equal() -> None:
    security = Security(
        trust_certs_file="/ca.pem", verify_hostname=False, oauth2=OAuth2(issuer_url="https://i", credentials_file="/c")
    )
    for one in (security, Security(token=Secret(TOKEN)), NO_SECURITY):
        assert msgspec.json.decode(msgspec.json.encode(one), type=Security) == one


def test_options_and_variables_are_equivalent() -> None:
    given = security_given({"tls_trust_certs": "/ca.pem", "tls_allow_insecure": True, "token": f"token:{TOKEN}"})
    assert given == Security(trust_certs_file="/ca.pem", allow_insecure=True, token=Secret(TOKEN))
    variables = {"TLS_TRUST_CERTS": "/ca.pem", "TLS_ALLOW_INSECURE": "true", "TOKEN": TOKEN}
    assert given == security_in({f"PULSAR_CONFORMANCE_{name}": value for name, value in variables.items()})
    assert security_in({}) == NO_SECURITY


def test_the_authentication_method_follows_from_the_options() -> None:
    assert security_given({"tls_certificate": "/c.pem", "tls_key": "/c.key"}).auth_method == "tls"
    assert security_given({"tls_certificate": "/c.pem", "token_file": "/t"}).auth_method == "token"
    assert security_given({"tls_certificate": "/c.pem"}).key_file == "/c.pem", "both may be in one file"
    assert security_given({"tls_trust_certs": "/ca.pem"}).auth_method is None


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"token": TOKEN, "token_file": "/t"}, "--token and --token-file do not go together"),
        ({"token_file": "/t", "oauth2_issuer": "u"}, "--token-file and --oauth2-issuer do not go together"),
        ({"tls_key": "/k"}, "--tls-key is the key of --tls-certificate"),
        ({"oauth2_issuer": "https://i"}, "OAuth2 needs both"),
        ({"oauth2_scope": "s"}, "OAuth2 needs both"),
        ({"token": "two words"}, "is empty or has spaces in it"),
    ],
)
def test_contradicting_options_are_refused(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as refused:
        security_given(given)
    assert TOKEN not in str(refused.value)


@pytest.mark.parametrize("words", [["--token", TOKEN], [f"--token={TOKEN}"]])
def test_a_token_is_removed_from_the_command_line(words: list[str]) -> None:
    left, token = take_token_off(["check", *words, "--seed", "1"])
    assert token == TOKEN
    assert left == ["check", "--token-env", "PULSAR_CONFORMANCE_TOKEN", "--seed", "1"]
    assert take_token_off(["check", "--token-file", "t"]) == (["check", "--token-file", "t"], None)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--token-env", "NO_SUCH"], "there is no environment variable NO_SUCH"),
        (["--token-file", "missing"], "Invalid value for '--token-file': File 'missing' does not exist."),
        (["--token", "a", "--oauth2-issuer", "b"], "--token and --oauth2-issuer do not go together"),
    ],
)
def test_bad_options_are_one_sentence_and_status_2(options: list[str], sentence: str, tmp_path: Path) -> None:
    ran = run("holds", "check", "--broker", "pulsar://h:1,http://h:2", *options, folder=tmp_path)
    assert ran.status == 2
    assert ran.err.startswith(f"pulsar-conformance: {sentence}")
    assert len(ran.err.splitlines()) == 1
