"""The name of a run on a cluster: the mark of the suite, when the run began, how long it may take, and a token.

The name is the mark that survives everything: a tenant has it from the moment that it exists, on every release,
whatever becomes of the run. So a list of tenants says what is the suite's, and when each run is over for certain.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Final, Self

MARK: Final = "pulsar-conformance"
GRACE: Final = timedelta(minutes=15)
"""How much longer than planned a run is taken to be running: it removes its topics last, and clocks differ."""

UNLIMITED_S: Final = 24 * 3600.0
"""How long a run without a budget is taken to go on at most."""

_BEGAN: Final = "%Y%m%dT%H%M%SZ"
_NAME: Final = re.compile(rf"{MARK}-(?P<began>\d{{8}}T\d{{6}}Z)-(?P<minutes>\d{{1,6}})m-(?P<token>[0-9a-f]{{8}})")


@dataclass(frozen=True, slots=True)
class RunName:
    """A run's name, ``pulsar-conformance-20261122T192603Z-15m-4f2a9c01``: it began then, for 15 minutes at most."""

    began: datetime
    minutes: int
    token: str

    @classmethod
    def new(cls, *, at_most_s: float) -> Self:
        """A name that no other run has, of a run that begins now."""
        now = datetime.now(UTC).replace(microsecond=0)
        return cls(began=now, minutes=ceil(at_most_s / 60), token=secrets.token_hex(4))

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read a name; None for what is not one, to the last character."""
        found = _NAME.fullmatch(text)
        return None if found is None else cls._of(found)

    @classmethod
    def of_namespace(cls, local_name: str) -> Self | None:
        """Read the name that a namespace's own name begins with; None where it does not."""
        found = _NAME.match(local_name)
        return None if found is None or not local_name.startswith(f"{found[0]}-") else cls._of(found)

    @classmethod
    def _of(cls, found: re.Match[str]) -> Self | None:
        try:
            began = datetime.strptime(found["began"], _BEGAN).replace(tzinfo=UTC)
        except ValueError:
            return None
        return cls(began=began, minutes=int(found["minutes"]), token=found["token"])

    @property
    def over_at(self) -> datetime:
        """When the run is over for certain, by the clock of the machine that it began on."""
        return self.began + timedelta(minutes=self.minutes) + GRACE

    def __str__(self) -> str:
        return f"{MARK}-{self.began.strftime(_BEGAN)}-{self.minutes}m-{self.token}"
