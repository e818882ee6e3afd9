"""Tests of fetching with the system's certificates and through proxies, against servers on this machine."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trustme

from conformance.brokers.installation.https import session, why

FETCH = """
import sys
from conformance.brokers.installation.https import session, why
try:
    answer = session().get(sys.argv[1], timeout=20)
    answer.raise_for_status()
    print(answer.text)
except OSError as error:
    sys.exit(why(error))
"""
OF_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


class Handler(BaseHTTPRequestHandler):
    """Says hello; as a proxy it forbids everything."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")

    def do_CONNECT(self) -> None:
        self.send_error(403)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """One that this system does not know, as an organisation has it whose proxy looks into what passes."""
    return trustme.CA()


@pytest.fixture
def server(authority: trustme.CA) -> Iterator[ThreadingHTTPServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        yield from serving(server)


@pytest.fixture
def proxy() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as proxy:
        yield from serving(proxy)


def serving(server: ThreadingHTTPServer) -> Iterator[ThreadingHTTPServer]:
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()


def fetched(server: ThreadingHTTPServer, **variables: str) -> subprocess.CompletedProcess[str]:
    """Fetch from a server in a process with these variables and no others that name certificates or proxies."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in OF_CERTIFICATES and not name.lower().endswith("_proxy")
    }
    command = [sys.executable, "-c", FETCH, f"https://localhost:{server.server_port}/"]
    return subprocess.run(command, env={**kept, **variables}, capture_output=True, text=True, check=False)


def test_an_untrusted_certificate_is_refused_and_the_error_names_the_remedy(
    server: ThreadingHTTPServer,
) -> None:
    run = fetched(server)
    assert run.returncode == 1
    assert "the certificate is not trusted" in run.stderr
    assert "SSL_CERT_FILE" in run.stderr
    assert run.stderr.count("\n") == 1


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
def test_an_added_certificate_is_trusted(
    variable: str, server: ThreadingHTTPServer, authority: trustme.CA, tmp_path: Path
) -> None:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    assert fetched(server, **{variable: str(tmp_path / "ca.pem")}).stdout == "hello\n"


def test_a_proxy_that_refuses_is_named_without_its_password(
    server: ThreadingHTTPServer, proxy: ThreadingHTTPServer
) -> None:
    run = fetched(server, HTTPS_PROXY=f"http://me:secret@127.0.0.1:{proxy.server_port}")
    assert f"the proxy 127.0.0.1:{proxy.server_port} does not let it through" in run.stderr
    assert "HTTPS_PROXY" in run.stderr
    assert "secret" not in run.stderr


def test_a_host_in_no_proxy_is_reached_without_the_proxy(
    server: ThreadingHTTPServer, proxy: ThreadingHTTPServer, authority: trustme.CA, tmp_path: Path
) -> None:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    through = {"HTTPS_PROXY": f"http://127.0.0.1:{proxy.server_port}", "NO_PROXY": "localhost"}
    assert fetched(server, SSL_CERT_FILE=str(tmp_path / "ca.pem"), **through).stdout == "hello\n"


def test_an_unreachable_host_is_reported_with_advice_for_offline_use(proxy: ThreadingHTTPServer) -> None:
    port = proxy.server_port
    with pytest.raises(OSError) as refused, session() as fetching:
        fetching.get(f"https://127.0.0.1:{port}/", timeout=20)  # it does not speak TLS
    assert "\n" not in why(refused.value)
    with pytest.raises(OSError) as nobody, session() as fetching:
        fetching.get("https://nobody.invalid/", timeout=20)
    assert "pulsar-conformance fetch" in why(nobody.value)
    assert "PULSAR_CONFORMANCE_CACHE" in why(nobody.value)
