"""Tests of fetching from a repository that misbehaves, which Maven Central cannot be asked to do."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import jgo.maven._core as jgo_core
import pytest

from conformance.brokers.installation.artifacts import artifact
from conformance.brokers.installation.cache import ENVIRONMENT_VARIABLE
from conformance.harness_error import HarnessError

CONTENT = b"the content of a file" * 100
SHA1 = hashlib.sha1(CONTENT).hexdigest().encode()

Answer = tuple[int, bytes, int]
"""Status, body, and how many bytes of the body are withheld although they were announced."""


class Repository(ThreadingHTTPServer):
    """Answers each request with the next of the answers for the file's suffix; the last of them is given for ever."""

    answers: dict[str, list[Answer]]

    def next_answer(self, suffix: str) -> Answer:
        answers = self.answers.get(suffix, [(404, b"", 0)])
        return answers.pop(0) if len(answers) > 1 else answers[0]


class Handler(BaseHTTPRequestHandler):
    """Gives the repository's answers over HTTP."""

    server: Repository

    def do_GET(self) -> None:
        status, body, withheld = self.server.next_answer(self.path.rpartition(".")[2])
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) - withheld])

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Repository]:
    """A repository in the place of Maven Central, for empty caches; nothing half-made may be in them afterwards."""
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("M2_REPO", str(tmp_path / "maven"))
    with Repository(("127.0.0.1", 0), Handler) as repository:
        monkeypatch.setitem(jgo_core.DEFAULT_REMOTE_REPOS, "central", f"http://127.0.0.1:{repository.server_port}")
        serving = threading.Thread(target=repository.serve_forever, args=(0.01,))
        serving.start()
        yield repository
        repository.shutdown()
        serving.join()
    assert [file for file in tmp_path.rglob("*") if "partial" in file.name] == []


def fetched() -> bytes:
    return artifact("group", "name", "1.0").read_bytes()


def test_a_truncated_download_is_repeated(repository: Repository) -> None:
    repository.answers = {"jar": [(200, CONTENT, 10), (200, CONTENT, 0)], "sha1": [(200, SHA1, 0)]}
    assert fetched() == CONTENT


def test_a_file_without_checksum_that_is_always_truncated_is_a_harness_error(repository: Repository) -> None:
    repository.answers = {"jar": [(200, CONTENT, 10)]}
    with pytest.raises(HarnessError, match="cannot be fetched from Maven Central"):
        fetched()


def test_a_repository_that_is_unavailable_does_not_count_as_one_without_checksums(repository: Repository) -> None:
    repository.answers = {"jar": [(200, CONTENT, 0)], "sha1": [(503, b"", 0)]}
    with pytest.raises(HarnessError, match=r"sha1 cannot be fetched from Maven Central: 503"):
        fetched()


def test_a_file_that_does_not_match_its_checksum_is_a_harness_error_and_removed(repository: Repository) -> None:
    repository.answers = {"jar": [(200, CONTENT[1:], 0), (200, CONTENT, 0)], "sha1": [(200, SHA1, 0)]}
    with pytest.raises(HarnessError, match=r"name-1\.0\.jar is not the published group:name:1\.0:jar.*was removed"):
        fetched()
    assert fetched() == CONTENT


def test_a_checksum_may_be_followed_by_the_name_of_the_file(repository: Repository) -> None:
    repository.answers = {"jar": [(200, CONTENT, 0)], "sha1": [(200, SHA1.upper() + b"  name-1.0.jar\n", 0)]}
    assert fetched() == CONTENT


@pytest.mark.parametrize("page", [b"", b"<html>not here</html>", SHA1[1:], SHA1 + b"0"])
def test_an_invalid_checksum_is_a_harness_error(repository: Repository, page: bytes) -> None:
    repository.answers = {"jar": [(200, CONTENT, 0)], "sha1": [(200, page, 0)]}
    with pytest.raises(
        HarnessError, match=re.escape("What was published as the sha1 checksum of name-1.0.jar is none.")
    ):
        fetched()
