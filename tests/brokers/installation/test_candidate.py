"""Release candidates, from a server on this machine and from files."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from conformance.brokers.installation.cache import ENVIRONMENT_VARIABLE
from conformance.brokers.installation.candidate import candidate_tarball, label_of
from conformance.brokers.name import demand_place
from conformance.brokers.release import candidate_at
from conformance.brokers.select import releases_of
from conformance.harness_error import HarnessError
from tests.brokers.test_builds import build

FOLDER = "pulsar-5.0.2-candidate-3"


@pytest.fixture(autouse=True)
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder that the server has; the cache is empty."""
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, str(tmp_path / "cache"))
    folder = tmp_path / "served" / FOLDER
    folder.mkdir(parents=True)
    return folder


class Server(ThreadingHTTPServer):
    """Serves a folder, and keeps the paths that were asked for."""

    def __init__(self, folder: Path) -> None:
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), partial(Handler, directory=str(folder)))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Server)
        self.server.asked.append(Path(self.path).name)
        super().do_GET()


@pytest.fixture
def server(served: Path) -> Iterator[Server]:
    with Server(served.parent) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()


def publish(folder: Path, version: str = "5.0.2", *, digest: str | None = None) -> Path:
    """A tarball with its checksum beside it, as Pulsar's release managers write it."""
    tarball = build(folder / f"apache-pulsar-{version}-bin.tar.gz", version)
    actual = hashlib.sha512(tarball.read_bytes()).hexdigest()
    tarball.with_name(f"{tarball.name}.sha512").write_text(f"{digest or actual}  {tarball.name}\n")
    return tarball


def test_a_candidate_is_fetched_once_and_is_a_version_of_its_own(served: Path, server: Server) -> None:
    location = f"{server.url}/{FOLDER}/{publish(served).name}"
    assert candidate_at(location).version == "5.0.2-candidate-3"
    assert releases_of(f"rc:{location}") == releases_of(f"standalone:rc:{location}") == ("5.0.2-candidate-3",)
    name = "apache-pulsar-5.0.2-bin.tar.gz"
    assert server.asked == [f"{name}.sha512", name, f"{name}.sha512", f"{name}.sha512"]


def test_a_candidate_that_is_replaced_is_fetched_again(served: Path, server: Server) -> None:
    location = f"{server.url}/{FOLDER}/{publish(served).name}"
    before = candidate_tarball(location).read_bytes()
    (served / "apache-pulsar-5.0.2-bin.tar.gz").write_bytes(b"")
    after = build(served / "apache-pulsar-5.0.2-bin.tar.gz", "5.0.2", "conf/standalone.conf")
    after.with_name(f"{after.name}.sha512").write_text(hashlib.sha512(after.read_bytes()).hexdigest())
    assert candidate_tarball(location).read_bytes() == after.read_bytes() != before


def test_a_candidate_in_a_file_is_verified_too(served: Path) -> None:
    tarball = publish(served)
    assert candidate_at(str(tarball)).version == "5.0.2-candidate-3"
    tarball.write_bytes(tarball.read_bytes() + b" ")
    with pytest.raises(HarnessError, match=r"^\S+ is not the file of \S+\.sha512: its checksum is \w+ instead of"):
        candidate_at(str(tarball))
    assert tarball.exists()


def test_another_checksum_is_refused_and_nothing_is_kept(served: Path, server: Server, tmp_path: Path) -> None:
    location = f"{server.url}/{FOLDER}/{publish(served, digest='0' * 128).name}"
    with pytest.raises(HarnessError, match="is not the file of"):
        candidate_at(location)
    assert list((tmp_path / "cache" / "candidates").rglob("*.tar.gz")) == []


def test_a_candidate_without_a_checksum_is_refused(served: Path, server: Server) -> None:
    tarball = publish(served)
    tarball.with_name(f"{tarball.name}.sha512").unlink()
    with pytest.raises(HarnessError, match=r"^There is no http://\S+\.sha512\.$"):
        candidate_at(f"{server.url}/{FOLDER}/{tarball.name}")
    with pytest.raises(HarnessError, match=r"^There is no \S+\.sha512, with which a candidate is verified\.$"):
        candidate_at(str(tarball))


@pytest.mark.parametrize(
    ("location", "sentence"),
    [
        ("http://example.invalid/a.tar.gz", "is fetched over https only"),
        ("ftp://127.0.0.1/a.tar.gz", "is fetched over https only"),
        ("/nowhere/a.tar.gz", "no such file"),
        ("5.0.2-candidate-1", "no such file"),
    ],
)
def test_a_bad_location_is_refused_before_anything_is_fetched(location: str, sentence: str) -> None:
    with pytest.raises(HarnessError, match=sentence):
        demand_place(f"rc:{location}")


@pytest.mark.parametrize(
    ("location", "label"),
    [
        ("https://x.invalid/pulsar-5.0.2-candidate-1/apache-pulsar-5.0.2-bin.tar.gz", "candidate-1"),
        ("https://x.invalid/5.1.0-rc2/apache-pulsar-5.1.0-bin.tar.gz", "rc2"),
        ("/tmp/apache-pulsar-5.0.2-bin.tar.gz", "candidate"),
    ],
)
def test_the_location_tells_candidates_apart(location: str, label: str) -> None:
    assert label_of(location) == label
