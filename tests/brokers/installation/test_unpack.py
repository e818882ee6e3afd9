"""Tests of unpacking, with sound archives and with crafted ones."""

from __future__ import annotations

import io
import os
import random
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from conformance.brokers.installation.unpack import unpacked
from conformance.harness_error import HarnessError


def entry(
    name: str, kind: bytes = tarfile.REGTYPE, *, content: bytes = b"", link: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = link
    info.size = len(content)
    info.mode = 0o755
    return info, content


def archive(folder: Path, *entries: tuple[tarfile.TarInfo, bytes]) -> Path:
    file = folder / "release.tar.gz"
    with tarfile.open(file, "w:gz") as tar:
        for info, content in entries:
            tar.addfile(info, io.BytesIO(content))
    return file


SOUND = (entry("release-1/lib", tarfile.DIRTYPE), entry("release-1/lib/a.jar", content=b"jar"))


def test_the_top_folder_is_dropped_and_the_rest_is_unpacked(tmp_path: Path) -> None:
    folder = unpacked(archive(tmp_path, *SOUND), tmp_path / "releases" / "1")
    assert folder == tmp_path / "releases" / "1"
    assert (folder / "lib" / "a.jar").read_bytes() == b"jar"
    assert {child.name for child in folder.parent.iterdir()} == {"1", "1.lock"}


def test_unpacked_files_belong_to_the_user_and_are_not_writable_for_others(tmp_path: Path) -> None:
    file, folder = entry("release-1/run", content=b"x"), entry("release-1", tarfile.DIRTYPE)
    file[0].mode, file[0].uid, folder[0].mode = 0o4777, 4711, 0
    found = unpacked(archive(tmp_path, folder, file), tmp_path / "1")
    assert (found / "run").stat().st_mode & 0o7777 == 0o755
    assert found.stat().st_mode & 0o7777 == 0o755
    assert (found / "run").stat().st_uid == os.getuid()


def test_an_archive_is_unpacked_once(tmp_path: Path) -> None:
    file = archive(tmp_path, *SOUND)
    unpacked(file, tmp_path / "1")
    file.unlink()
    assert (unpacked(file, tmp_path / "1") / "lib" / "a.jar").exists()


@pytest.mark.parametrize(
    "bad",
    [
        entry("/etc/absolute", content=b"x"),
        entry("../above", content=b"x"),
        entry("release-1/../../above", content=b"x"),
        entry("release-1/..", tarfile.DIRTYPE),
        entry("release-1/out", tarfile.SYMTYPE, link="/etc"),
        entry("release-1/out", tarfile.SYMTYPE, link="../.."),
        entry("release-1/in", tarfile.SYMTYPE, link="lib"),
        entry("release-1/out", tarfile.LNKTYPE, link="../above"),
        entry("release-1/device", tarfile.CHRTYPE),
        entry("release-1/disk", tarfile.BLKTYPE),
        entry("release-1/pipe", tarfile.FIFOTYPE),
    ],
    ids=lambda bad: f"{bad[0].name} of type {bad[0].type.decode()} to {bad[0].linkname or 'nothing'}",
)
def test_an_archive_with_an_unsafe_entry_is_refused_in_one_sentence(
    tmp_path: Path, bad: tuple[tarfile.TarInfo, bytes]
) -> None:
    inside = tmp_path / "inside" / "cache"
    with pytest.raises(HarnessError, match=r"^The archive \S+ is refused: its entry") as harness_error:
        unpacked(archive(tmp_path, *SOUND, bad), inside / "1")
    assert "\n" not in str(harness_error.value)
    assert {file.name for file in inside.iterdir()} == {"1.lock"}
    assert {file.name for file in tmp_path.iterdir()} == {"inside", "release.tar.gz"}


@pytest.mark.parametrize("tops", [(), (entry("a", content=b"x"),), (*SOUND, entry("other/b", content=b"x"))])
def test_an_archive_without_exactly_one_top_folder_is_refused(
    tmp_path: Path, tops: tuple[tuple[tarfile.TarInfo, bytes], ...]
) -> None:
    with pytest.raises(HarnessError, match="one folder at its top"):
        unpacked(archive(tmp_path, *tops), tmp_path / "1")
    assert not (tmp_path / "1").exists()


@pytest.mark.parametrize("kept", [0, 5, 10, 100, -5, -1])
def test_a_truncated_archive_is_a_harness_error(tmp_path: Path, kept: int) -> None:
    file = archive(tmp_path, *SOUND)
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(HarnessError, match="cannot be unpacked"):
        unpacked(file, tmp_path / "1")
    assert not (tmp_path / "1").exists()


@pytest.mark.parametrize("where", [0, 0.25, 0.5, 0.75, 1])
def test_an_archive_with_one_wrong_bit_is_a_harness_error(tmp_path: Path, where: float) -> None:
    file = archive(tmp_path, entry("release-1/a.jar", content=random.Random(0).randbytes(10_000)))
    content = bytearray(file.read_bytes())
    content[int(where * (len(content) - 1))] ^= 1
    file.write_bytes(content)
    with pytest.raises(HarnessError, match="cannot be unpacked"):
        unpacked(file, tmp_path / "1")
    assert not (tmp_path / "1").exists()


def test_runs_that_unpack_the_same_archive_at_once_all_find_it_complete(tmp_path: Path) -> None:
    many = [entry(f"release-1/{number}", content=b"x" * number) for number in range(500)]
    file = archive(tmp_path, *many)
    program = (
        "from pathlib import Path\n"
        "from conformance.brokers.installation.unpack import unpacked\n"
        f"folder = unpacked(Path({str(file)!r}), Path({str(tmp_path / '1')!r}))\n"
        "print(folder.stat().st_ino, len(list(folder.iterdir())))"
    )
    runs = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    answers = {run.communicate(timeout=120)[0].split()[1] for run in runs}
    assert answers == {"500"}
