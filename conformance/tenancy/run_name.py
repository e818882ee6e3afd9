"""The name of a run on a cluster: the mark of the suite, when the run began, how long it may take, and a token.

A tenant has this name from its creation, on every release, even if the run is killed. So a list of tenants shows which
are the suite's, and when each run must be over.
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
"""How much longer than planned a run may be running: it removes its topics last, and clocks differ."""

UNLIMITED_S: Final = 24 * 3600.0
"""The longest expected duration of a run without a budget."""

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
        """A new name for a run that begins now."""
        now = datetime.now(UTC).replace(microsecond=0)
        return cls(began=now, minutes=ceil(at_most_s / 60), token=secrets.token_hex(4))

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parse a name; None unless it matches completely."""
        found = _NAME.fullmatch(text)
        return None if found is None else cls._of(found)

    @classmethod
    def of_namespace(cls, local_name: str) -> Self | None:
        """Parse the run's name at the beginning of a namespace's name; None without one."""
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
        """When the run must be over, by the clock of the machine that it began on."""
        return self.began + timedelta(minutes=self.minutes) + GRACE

    def __str__(self) -> str:
        return f"{MARK}-{self.began.strftime(_BEGAN)}-{self.minutes}m-{self.token}"
