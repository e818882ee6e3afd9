"""The programs of the two scenarios: each run starts from the database that the one before left."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from conformance.applications.store import applied
from conformance.brokers.interface import Addresses
from conformance.clients.outcomes import NoAnswer
from conformance.harness_error import HarnessError
from conformance.workers.protocol import Dying, Ended, GaveUp, Order, ReadOrder, Report, SubscribeOrder
from conformance.workers.starter import Starter
from model.events import AnyOutcome, DatabaseRead, Ran, Skipped, Stuck
from model.operations import RunReader, RunSubscriber

RUN_TIMEOUT_S: Final = 10.0
"""How long a run of a program may take; far longer than ever measured."""
GRACE_S: Final = 10.0
"""How much longer it may take to report that it is stuck."""


class Programs:
    """The programs of one example."""

    def __init__(self, starter: Starter[Report], addresses: Addresses, example: int) -> None:
        """``example`` distinguishes the databases of this example from those of others."""
        self._starter = starter
        self._addresses = addresses
        self._example = example
        self._databases: dict[str, Path] = {}

    def run(self, operation: RunReader | RunSubscriber, topic: str) -> AnyOutcome:
        """Run a program until it ends or is killed."""
        database = self._databases.get(operation.program)
        if database is None:
            database = self._starter.folder / f"{self._example}-{operation.program}.db"
            self._databases[operation.program] = database
        worker = self._starter.run(self._order(operation, topic, database))
        try:
            report = worker.receive(RUN_TIMEOUT_S + GRACE_S)
        except NoAnswer as silent:
            raise HarnessError("a program of the suite neither ended nor said why") from silent
        worker.await_end()
        match report:
            case Ended(received):
                return Ran(killed=False, received=received)
            case Dying(received):
                return Ran(killed=True, received=received)
            case GaveUp(why):
                return Stuck(why)
            case _:
                raise HarnessError(f"a program of the suite ended, and its last report was: {report}")

    def _order(self, operation: RunReader | RunSubscriber, topic: str, database: Path) -> Order:
        service, admin = self._addresses.service, self._addresses.admin
        if isinstance(operation, RunReader):
            return ReadOrder(service, topic, str(database), operation.death, RUN_TIMEOUT_S)
        name = f"program-{operation.program}"
        return SubscribeOrder(service, admin, topic, name, str(database), operation.death, RUN_TIMEOUT_S)

    def read(self, program: str) -> AnyOutcome:
        """Read a program's database."""
        database = self._databases.get(program)
        if database is None:
            return Skipped("the program never ran")
        return DatabaseRead(applied(database))

    def close(self) -> None:
        """Remove the databases."""
        for database in self._databases.values():
            for file in database.parent.glob(f"{database.name}*"):
                file.unlink(missing_ok=True)
        self._databases.clear()
