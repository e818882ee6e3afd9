"""Files that users name: what is no file, is too large or never answers is refused in one sentence, and in time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

import pytest

from conformance import cli, files
from conformance.commands.supervision.engine import Engine
from conformance.files import content, lines, opened, write_whole
from conformance.harness_error import HarnessError


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """A pipe that nobody writes to: opening it for reading would wait for ever."""
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert content(tmp_path / "file", at_most_bytes=5) == b"12345"
    with pytest.raises(HarnessError, match=r"^cannot read the key .*/file: it has more than 4 bytes$"):
        content(tmp_path / "file", "the key", at_most_bytes=4)


def test_a_sparse_file_is_not_read_as_a_whole(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(HarnessError, match="it has more than 268435456 bytes"):
        content(tmp_path / "file")


@pytest.mark.parametrize("read", [content, opened, lambda path: list(lines(path, line_at_most_bytes=9))])
def test_only_regular_files_are_read(read: type, pipe: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(pipe)
    for path, why in (
        (pipe, "it is no regular file"),
        (link, "it is no regular file"),
        (Path("/dev/zero"), "it is no regular file"),
        (tmp_path, "it is a directory"),
        (tmp_path / "missing", "No such file or directory"),
        (Path("a\0b"), "embedded null byte"),
    ):
        with pytest.raises(HarnessError, match=f"cannot read .*: {why}"):
            read(path)


def test_a_file_that_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Like one of a network file system whose server is gone: here the reading end of a pipe."""
    reading, writing = os.pipe()

    def hangs(_path: Path, _what: str = "") -> BinaryIO:
        return os.fdopen(reading, "rb")

    monkeypatch.setattr(files, "opened", hangs)
    with pytest.raises(HarnessError, match=r"cannot read .*: it was not read within 0.2 s"):
        content(tmp_path, deadline_s=0.2)
    os.close(writing)


def test_a_line_has_a_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12\n3456\n")
    assert list(lines(tmp_path / "file", line_at_most_bytes=5)) == [b"12\n", b"3456\n"]
    with pytest.raises(HarnessError, match="a line has more than 4 bytes"):
        list(lines(tmp_path / "file", line_at_most_bytes=4))


@pytest.mark.parametrize("file", ["/dev/zero", "pipe"])
def test_no_command_reads_a_device_or_a_pipe(
    file: str, pipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("report", "history/bucket-0000"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "report" / "events.jsonl").symlink_to(pipe.parent / file)
    (tmp_path / "history" / "bucket-0000" / "a.parquet").symlink_to(pipe.parent / file)
    for command in (
        ("check", "--known", file),
        ("check", "--coverage", file),
        ("replay", file, "--broker", "4.0.8"),
        ("report", "report"),
        ("compact", "history"),
        ("verify", file),
    ):
        with pytest.raises(SystemExit) as ended:
            cli.main(command, Engine())
        told = capsys.readouterr().err
        assert ended.value.code == 2, command
        assert "no regular file" in told, command
        assert told.count("\n") == 1


def test_a_file_that_does_not_fit_on_the_disk_leaves_the_older_one(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.json"
    write_whole(path, b"the older one")
    script = (
        "import resource, sys\nfrom pathlib import Path\nfrom conformance.files import write_whole\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "write_whole(Path(sys.argv[1]), bytes(8192))\n"
    )
    ran = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "File too large" in ran.stderr
    assert path.read_bytes() == b"the older one"
    assert [one.name for one in tmp_path.iterdir()] == ["verdicts.json"]
