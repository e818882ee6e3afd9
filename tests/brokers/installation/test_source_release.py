"""The configuration files are read out of a large archive, a few requests at a time."""

from __future__ import annotations

import io
import re
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import jgo.maven._core as jgo_core
import pytest

from conformance.brokers.installation.source_release import configuration_files
from conformance.harness_error import HarnessError

PADDING = bytes(3_000_000)
OWN = b"managedLedgerDefaultMarkDeleteRateLimit=0.1\n"


def archive(conf: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as files:
        files.writestr("pulsar/README.md", PADDING)
        files.writestr("pulsar/conf/standalone.conf", conf)
        files.writestr("pulsar/docker/conf/standalone.conf", b"another")
        files.writestr("pulsar/conf/presto/config.properties", b"deeper")
    return content.getvalue()


class Repository(ThreadingHTTPServer):
    """Serves one file; answers range requests unless they are disabled."""

    content: bytes | None = None
    gives_parts = True
    sent_bytes = 0


class Handler(BaseHTTPRequestHandler):
    server: Repository

    def do_HEAD(self) -> None:
        self.send_response(200 if self.server.content is not None else 404)
        self.send_header("Content-Length", str(len(self.server.content or b"")))
        self.end_headers()

    def do_GET(self) -> None:
        content, asked = self.server.content or b"", re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"])
        assert asked is not None
        if self.server.gives_parts:
            content = content[int(asked[1]) : int(asked[2]) + 1]
        self.send_response(206 if self.server.gives_parts else 200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.server.sent_bytes += len(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    with Repository(("127.0.0.1", 0), Handler) as repository:
        monkeypatch.setitem(jgo_core.DEFAULT_REMOTE_REPOS, "central", f"http://127.0.0.1:{repository.server_port}")
        serving = threading.Thread(target=repository.serve_forever, args=(0.01,))
        serving.start()
        yield repository
        repository.shutdown()
        serving.join()


def test_only_the_files_in_conf_are_read_and_little_else_is_downloaded(repository: Repository) -> None:
    repository.content = archive(OWN)
    assert configuration_files("1.0") == {"standalone.conf": OWN}
    assert repository.sent_bytes < len(PADDING) / 10


def test_a_version_without_a_source_release_has_no_files(repository: Repository) -> None:
    assert repository.content is None
    assert configuration_files("1.0") == {}


def test_a_file_that_contradicts_the_archive_is_refused(repository: Repository) -> None:
    repository.content = archive(OWN).replace(OWN, OWN.replace(b"0.1", b"9.9"))
    with pytest.raises(HarnessError, match="Bad CRC-32"):
        configuration_files("1.0")


def test_a_repository_without_range_requests_is_not_asked_for_the_whole_archive(repository: Repository) -> None:
    repository.content, repository.gives_parts = archive(OWN), False
    with pytest.raises(HarnessError, match="does not answer requests for a part of a file"):
        configuration_files("1.0")
