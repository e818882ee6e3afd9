"""Builds the driver of a release of the Go client, with Go."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from conformance.drivers.tools import Say, built, run, tool

_SOURCE: Final = Path(__file__).with_name("driver.go")
_MODULE: Final = "github.com/apache/pulsar-client-go/pulsar"
_PURE: Final = {"CGO_ENABLED": "0"}
"""No C compiler: the client has Go code for all that the driver uses."""


def driver(version: str, say: Say) -> tuple[str, ...]:
    """The command of the driver. Raises :class:`HarnessError` if it cannot be built."""
    of = f"the Go client {version}"

    def build(folder: Path) -> Path:
        go = tool("go", of)
        say(f"Building the driver of {of} ...")
        (folder / "go.mod").write_text("module driver\n\ngo 1.21\n", "utf-8")
        run([go, "get", f"{_MODULE}@v{version}"], folder, of=of, environment=_PURE)
        run([go, "build", "-o", "driver", "."], folder, of=of, environment=_PURE)
        return folder / "driver"

    return (str(built(f"go-driver-{version}", [_SOURCE], build)),)
