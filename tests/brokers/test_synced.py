"""What a bookie's files lose in a power failure, by the record of its syncs."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.brokers.processes.synced import SyncedFiles

ALLOCATED = 64


class Bookie:
    """The files of a bookie that has not been started."""

    def __init__(self, folder: Path) -> None:
        self.journal, self.ledgers = folder / "journal" / "current", folder / "ledgers" / "current"
        self.journal.mkdir(parents=True)
        self.ledgers.mkdir(parents=True)
        self.record = folder / "bookie.synced"
        self.synced = SyncedFiles(journal=self.journal.parent, ledgers=self.ledgers.parent, record=self.record)

    def journal_file(self, name: str, written: bytes) -> Path:
        """A journal file, which is allocated in advance."""
        file = self.journal / name
        file.write_bytes(written.ljust(ALLOCATED, b"\0"))
        return file

    def syncs(self, file: Path, length: int, end: str = "\n") -> None:
        with self.record.open("a") as record:
            record.write(f"{file} {length}{end}")


@pytest.fixture
def bookie(tmp_path: Path) -> Bookie:
    return Bookie(tmp_path)


def test_a_journal_file_keeps_what_was_synced_and_its_length(bookie: Bookie) -> None:
    bookie.synced.begin()
    file = bookie.journal_file("1.txn", b"synced, not synced")
    bookie.syncs(file, 2)
    bookie.syncs(file, 6)
    bookie.synced.lose_rest()
    assert file.read_bytes() == b"synced".ljust(ALLOCATED, b"\0")


def test_an_entry_log_ends_where_it_was_synced(bookie: Bookie) -> None:
    bookie.synced.begin()
    file = bookie.ledgers / "0.log"
    file.write_bytes(b"synced, not synced")
    bookie.syncs(file, 6)
    bookie.synced.lose_rest()
    assert file.read_bytes() == b"synced"


def test_a_file_that_was_never_synced_is_gone_and_the_index_stays(bookie: Bookie) -> None:
    bookie.synced.begin()
    never, index = bookie.journal_file("1.txn", b"not synced"), bookie.ledgers / "ledgers" / "000004.log"
    index.parent.mkdir()
    index.write_bytes(b"index")
    bookie.synced.lose_rest()
    assert not never.exists()
    assert index.read_bytes() == b"index"


def test_what_was_written_before_the_record_began_counts_as_synced(bookie: Bookie) -> None:
    file = bookie.journal_file("1.txn", b"before")
    bookie.synced.begin()
    file.write_bytes(b"before, after".ljust(ALLOCATED, b"\0"))
    bookie.synced.lose_rest()
    assert file.read_bytes() == b"before".ljust(ALLOCATED, b"\0")


def test_a_sync_whose_record_is_cut_off_does_not_count(bookie: Bookie) -> None:
    """The bookie was killed while it recorded the sync, so it has not confirmed anything because of it."""
    bookie.synced.begin()
    file = bookie.journal_file("1.txn", b"synced, more")
    bookie.syncs(file, 6)
    bookie.syncs(file, 1, end="")
    bookie.synced.lose_rest()
    assert file.read_bytes() == b"synced".ljust(ALLOCATED, b"\0")
