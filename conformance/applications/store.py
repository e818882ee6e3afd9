"""The databases of the two scenarios: what has to be stored together is stored in one transaction of SQLite.

The state that a message changes is a list of what was applied, in order and without a constraint, so that whatever was
applied twice is there twice. A process that is killed loses nothing that it committed; a machine that loses its power
is not what is tested, so nothing is waited for until it has reached the disk.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from model.events import Delivery
from model.log import Position
from model.operations import Point

_SCHEMA = """
CREATE TABLE IF NOT EXISTS applied (
    number INTEGER PRIMARY KEY, ledger INTEGER, entry INTEGER, batch_index INTEGER, business_id TEXT
);
CREATE TABLE IF NOT EXISTS last_message (
    only INTEGER PRIMARY KEY CHECK (only = 1), ledger INTEGER, entry INTEGER, batch_index INTEGER
);
CREATE TABLE IF NOT EXISTS seen (business_id TEXT PRIMARY KEY);
"""

Reach = Callable[[Point], None]
"""Called at each point on the way; it does not come back from the one at which the program is to die."""


class Store:
    """A program's database."""

    def __init__(self, path: Path) -> None:
        # Transactions are begun and committed in words, not by the library's guess.
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.executescript(_SCHEMA)

    def last_message(self) -> tuple[Position, int] | None:
        """The id of the last message that was applied, entry and place in its batch; None before the first."""
        row = self._database.execute("SELECT ledger, entry, batch_index FROM last_message").fetchone()
        return None if row is None else (Position(row[0], row[1]), row[2])

    def apply_and_keep_id(self, message: Delivery, reach: Reach) -> None:
        """Scenario 1: change the state and keep the message's id, in one transaction."""
        self._database.execute("BEGIN")
        self._apply(message)
        reach("state-changed")
        self._keep_id(message)
        reach("before-commit")
        self._database.execute("COMMIT")
        reach("committed")

    def apply_once(self, message: Delivery, reach: Reach) -> None:
        """Scenario 2: change the state and keep the message's business id, in one transaction, unless it is known."""
        self._database.execute("BEGIN")
        seen = self._database.execute("SELECT 1 FROM seen WHERE business_id = ?", (message.business_id,)).fetchone()
        if seen is None:
            self._apply(message)
            reach("state-changed")
            self._database.execute("INSERT INTO seen VALUES (?)", (message.business_id,))
        reach("before-commit")
        self._database.execute("COMMIT")
        reach("committed")

    def _apply(self, message: Delivery) -> None:
        place = (message.position.ledger, message.position.entry, message.batch_index)
        self._database.execute(
            "INSERT INTO applied (ledger, entry, batch_index, business_id) VALUES (?, ?, ?, ?)",
            (*place, message.business_id),
        )

    def _keep_id(self, message: Delivery) -> None:
        place = (message.position.ledger, message.position.entry, message.batch_index)
        self._database.execute("INSERT OR REPLACE INTO last_message VALUES (1, ?, ?, ?)", place)

    def close(self) -> None:
        self._database.close()


def applied(path: Path) -> tuple[Delivery, ...]:
    """What a program applied, in order; opening a database rolls back what was not committed."""
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute("SELECT ledger, entry, batch_index, business_id FROM applied ORDER BY number")
        return tuple(Delivery(Position(ledger, entry), index, 0, text) for ledger, entry, index, text in rows)
