"""Types of options and arguments: each reads, checks and completes a value, and refuses it in one sentence.

The lists of names are imported only when a name is read or completed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, get_args

import click
from click.shell_completion import CompletionItem

from conformance.clients.names import NAME, PULSAR_CLIENT, clients_in
from conformance.harness_error import HarnessError
from model.rules import names
from model.rules.catalogue import FAMILIES, RULES, Selection, selection

NONE = "none"
"""The word for an empty list of names."""

_TENANT = re.compile(r"[-=:.\w]+", re.ASCII)
_DURATION = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>s|m|h)")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
LONGEST_S = 30 * 24 * 3600.0
"""The longest duration of any command; a longer one is a typing error."""

EVERY_INTERFACE = ("0.0.0.0", "::")

_SETTING = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)=(?P<value>[^\r\n]*)")
_RELEASE = re.compile(r"\d+\.\d+\.\d+([A-Za-z0-9.-]*)")


class Duration(click.ParamType[float]):
    """A time such as ``90s``, ``10m`` or ``2h``, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The time in seconds, above zero, and at most a month."""
        if isinstance(value, float):
            return value
        found = _DURATION.fullmatch(value.strip())
        seconds = float(found["number"]) * _SECONDS[found["unit"]] if found else 0.0
        if seconds <= 0:
            self.fail(f"{value!r} is no time; write it like 90s, 10m or 2h", param, ctx)
        if seconds > LONGEST_S:
            self.fail(f"{value!r} is longer than {LONGEST_S / 3600:g}h, the longest that is possible", param, ctx)
        return seconds


class Number(click.FloatRange):
    """A number within limits; click accepts ``nan`` within any."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is no number that can be used", param, ctx)
        return number


class Tenant(click.ParamType[str]):
    """The name of a tenant."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name; the cluster decides whether the tenant exists."""
        if not _TENANT.fullmatch(value):
            self.fail(f"{value!r} is no name of a tenant: letters, digits and -=:._ are allowed", param, ctx)
        return str(value)


class Name(click.ParamType[str]):
    """One name of a kind; ``names`` is called on demand, ``listed_by``: the command that lists them."""

    name = "name"

    def __init__(
        self, kind: str, names: Callable[[], Iterable[str]], *, listed_by: str | None = None, also: Sequence[str] = ()
    ) -> None:
        """``also``: words that are allowed instead of a name."""
        self.kind = kind
        self.also = tuple(also)
        self._names = names
        self.listed_by = listed_by

    @property
    def names(self) -> tuple[str, ...]:
        """All allowed words."""
        return (*self._names(), *self.also)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in self.names:
            self.fail(names.unknown(self.kind, value, self.names, listed_by=self.listed_by), param, ctx)
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The names with this beginning."""
        del ctx, param
        return [CompletionItem(name) for name in self.names if name.startswith(incomplete)]


class Names(click.ParamType[tuple[str, ...]]):
    """Names of one kind, separated by commas."""

    name = "names"

    def __init__(self, one: Name) -> None:
        self.one = one

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """The names, each checked; ``none`` gives no names."""
        if isinstance(value, tuple):
            return value
        try:
            written = names.listed(value, kind=self.one.kind, names=self.one.names, listed_by=self.one.listed_by)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if NONE in written and len(written) > 1:
            self.fail(f"{value!r} asks for {NONE} and for something; write one of them", param, ctx)
        return tuple(name for name in written if name != NONE)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The text so far, completed by each name that begins with its last part."""
        del ctx, param
        before, comma, last = incomplete.rpartition(",")
        return [CompletionItem(f"{before}{comma}{name}") for name in self.one.names if name.startswith(last)]


class Rules(click.ParamType[Selection]):
    """Ids and families of rules, separated by commas."""

    name = "rules"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Selection:
        """The rules, and those named by id."""
        if isinstance(value, Selection):
            return value
        try:
            return selection(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Like other names: first families, then ids."""
        return Names(Name("rule", lambda: (*FAMILIES, *RULES))).shell_complete(ctx, param, incomplete)


class SettingParameter(click.ParamType[tuple[str, str]]):
    """A setting of the broker, ``name=value``."""

    name = "name=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Its name, as in ``broker.conf``, and its value."""
        if isinstance(value, tuple):
            return value
        found = _SETTING.fullmatch(value)
        if found is None:
            self.fail(f"{value!r} is no setting; write it like maxMessageSize=10240", param, ctx)
        return found["name"], found["value"]


class HostAndPort(click.ParamType[tuple[str, int]]):
    """An address to listen on, which clients can connect to."""

    name = "host:port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        from conformance.clients.security.transport import addresses_of

        if isinstance(value, tuple):
            return value
        try:
            ((host, port),) = addresses_of(f"pulsar://{value}")
        except (HarnessError, ValueError):
            self.fail(f"{value!r} is no address; write it like localhost:6651", param, ctx)
        if host in EVERY_INTERFACE:
            self.fail(f"{value!r} is no address that clients can connect to; name one of this machine's", param, ctx)
        return host, port


class ServiceUrl(click.ParamType[str]):
    """The URL of a service; one without a scheme has the first."""

    name = "url"

    def __init__(self, *schemes: str) -> None:
        self.schemes = schemes

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from conformance.clients.security.transport import addresses_of

        url = value if "://" in value else f"{self.schemes[0]}://{value}"
        try:
            addresses_of(url, self.schemes)
        except HarnessError as error:
            self.fail(str(error), param, ctx)
        return str(url)


class SparkOption(click.ParamType[tuple[str, str]]):
    """An option of Spark's, ``NAME=VALUE``."""

    name = "name=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, equals, content = value.partition("=")
        if not equals or not re.fullmatch(r"spark(\.[\w-]+)+", name):
            self.fail(f"{value!r} is no option of Spark's; write it like spark.driver.memory=4g", param, ctx)
        return name, content


class ReleaseParameter(click.ParamType[str]):
    """A release of something, such as ``3.12.0``."""

    name = "version"

    def __init__(self, of: str, example: str) -> None:
        self.of = of
        self.example = example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The release; whether it exists is checked when it is fetched."""
        text = str(value).strip()
        if not _RELEASE.fullmatch(text):
            self.fail(f"{value!r} is no release of {self.of}; write it like {self.example}", param, ctx)
        return text


class ClientParameter(ReleaseParameter):
    """A release of pulsar-client, a client behind a driver, or several of them."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        clients = clients_in(str(value).strip())
        for one in clients:
            if one != PULSAR_CLIENT and not NAME.fullmatch(one):
                super().convert(one, param, ctx)
        return ",".join(clients)


class BrokerParameter(click.ParamType[str]):
    """The name of a broker, which is refused at once if it names none."""

    name = "broker"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name, with the release that a line (``4.0``) or ``latest`` stands for.

        Raises:
            HarnessError: it names no broker, or there is no such release.
        """
        from conformance.brokers.name import demand_name, exact_name

        del param, ctx
        demand_name(value)
        return exact_name(value)


def brokers(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The completions of ``--broker``: fetched releases, and the prefixes of the other kinds."""
    from conformance.brokers.installation.cache import cache_folder

    del ctx, param
    fetched = sorted(path.name for path in cache_folder("releases").iterdir() if path.is_dir())
    kinds = ("latest", "dist:", "rc:", "container:", "pulsar://", "pulsar+ssl://")
    return [CompletionItem(text) for text in (*fetched, *kinds) if text.startswith(incomplete)]


def _defects() -> list[str]:
    from conformance.faults import catalogue

    return [defect.name for defect in catalogue.defects()]


def _deviations() -> list[str]:
    from model.deviations import DEVIATIONS

    return list(DEVIATIONS)


def _faults() -> tuple[str, ...]:
    from conformance.soak.plan import FaultName

    return get_args(FaultName)


def _machines() -> list[str]:
    from conformance.engine.catalogue import DESCRIPTIONS

    return [machine.name for machine in DESCRIPTIONS]


def _variants() -> list[str]:
    from model.explorations import VARIANTS

    return [variant.name for variant in VARIANTS]


CLIENT = ClientParameter("pulsar-client", "3.12.0, java:4.0.8, python:3.10.0 or driver:COMMAND")
DEFECT = Name("defect", _defects, listed_by="pulsar-conformance defects")
DEFECT_OR_NONE = Name("defect", _defects, listed_by="pulsar-conformance defects", also=(NONE,))
DEVIATION = Name("deviation", _deviations, listed_by="pulsar-conformance known")
FAULTS = Names(Name("fault", _faults, also=(NONE,)))
MACHINES = Names(Name("machine", _machines, listed_by="pulsar-conformance machines"))
VARIANT = Name("variant", _variants, listed_by="pulsar-conformance explore --list")
PULSAR = ReleaseParameter("Pulsar", "4.0.8")
