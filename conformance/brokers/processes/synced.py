"""How far a bookie's files are synced, and what they lose if the power fails.

After SIGKILL a file has all that its process wrote, because the kernel has it. After a power failure it is only certain
to have what was synced; here all else is lost. A Byteman rule in the bookie's process records each sync of a journal
file or entry log, after it returned and before the bookie confirms anything because of it: the file, and how much of it
was written before the sync.

The index (RocksDB) keeps what was written. A bookie syncs it after the entry logs, and until then replays its journal.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

_RULES: Final = """\
RULE record how much of a file is synced
CLASS org.apache.bookkeeper.bookie.BufferedChannel
METHOD forceWrite
AT EXIT
BIND file: sun.nio.ch.FileChannelImpl = $0.fileChannel;
     isNew: boolean = openTrace("synced", "{record}")
IF TRUE
DO traceln("synced", file.path + " " + $!)
ENDRULE
"""


class SyncedFiles:
    """The journal files and entry logs of one bookie."""

    def __init__(self, *, journal: Path, ledgers: Path, record: Path) -> None:
        """``record``: the file to which the rules write."""
        self._journal: Final = journal
        self._ledgers: Final = ledgers
        self._record: Final = record
        self._before: Mapping[Path, int] = {}

    def rules(self) -> Path:
        """Write a file of Byteman rules for the bookie's process, and return it."""
        file = self._record.with_suffix(".btm")
        file.write_text(_RULES.format(record=self._record), "utf-8")
        return file

    def begin(self) -> None:
        """The rules are loaded: what was written until now counts as synced."""
        self._before = {file: _written_bytes(file) for file in self._files()}

    def lose_rest(self) -> None:
        """Have the files of a bookie that was killed lose what was not synced. A file that was never synced is gone."""
        synced = self._synced()
        for file in self._files():
            if file not in synced:
                file.unlink()
                continue
            size = file.stat().st_size
            os.truncate(file, synced[file])
            if file.suffix == ".txn":  # a journal file is allocated in advance
                os.truncate(file, size)

    def _synced(self) -> Mapping[Path, int]:
        """How much of each file was synced."""
        found = dict(self._before)
        recorded = self._record.read_text("utf-8") if self._record.exists() else ""
        for line in recorded.splitlines(keepends=True):
            name, _, length = line.rpartition(" ")
            if line.endswith("\n"):  # otherwise the process was killed meanwhile
                found[Path(name)] = max(int(length), found.get(Path(name), 0))
        return found

    def _files(self) -> Iterator[Path]:
        yield from sorted((self._journal / "current").glob("*.txn"))
        yield from sorted((self._ledgers / "current").glob("*.log"))


def _written_bytes(file: Path) -> int:
    """How much of a file was written: it may be longer, as it is allocated in advance."""
    return len(file.read_bytes().rstrip(b"\0"))
