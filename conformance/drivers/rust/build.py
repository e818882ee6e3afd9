"""Builds the driver of a release of the Rust client, with Cargo, and keeps its Cargo.lock beside it.

The crate generates code from Pulsar's protocol with ``protoc``: with an installed one, or else with that of the Python
package grpcio-tools.
"""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import Final

from conformance.brokers.installation.cache import cache_folder
from conformance.drivers.environment import python_with
from conformance.drivers.tools import Say, built, run, tool

_SOURCE: Final = Path(__file__).with_name("driver.rs")
_GRPC_TOOLS: Final = "1.85.1"
_MANIFEST: Final = """\
[package]
name = "driver"
version = "{version}"
edition = "2021"

[[bin]]
name = "{name}"
path = "driver.rs"

[dependencies]
base64 = "0.22"
futures = "0.3"
pulsar = {{ version = "={version}", default-features = false, features = ["compression", "tokio-runtime"] }}
serde = {{ version = "1", features = ["derive"] }}
serde_json = "1"
tokio = {{ version = "1", features = ["macros", "rt-multi-thread", "sync", "time"] }}
"""


def driver(version: str, say: Say) -> tuple[str, ...]:
    """The command of the driver. Raises :class:`HarnessError` if it cannot be built."""
    of = f"the Rust client {version}"
    # A name of its own: builds of several releases share the compiled dependencies.
    name = f"driver-{version.replace('.', '-')}"

    def build(folder: Path) -> Path:
        cargo = tool("cargo", of)
        compiled = cache_folder("clients") / "rust-target"
        environment = {"CARGO_TARGET_DIR": str(compiled), "PROTOC": _protoc(folder, say)}
        say(f"Building the driver of {of} ...")
        (folder / "Cargo.toml").write_text(_MANIFEST.format(version=version, name=name), "utf-8")
        run([cargo, "build", "--release"], folder, of=of, environment=environment)
        made = folder / "made"
        made.mkdir()
        shutil.copy(compiled / "release" / name, made / "driver")
        shutil.copy(folder / "Cargo.lock", made)
        return made

    return (str(built(f"rust-driver-{version}", [_SOURCE], build) / "driver"),)


def _protoc(folder: Path, say: Say) -> str:
    installed = shutil.which("protoc")
    if installed is not None:
        return installed
    script = folder / "protoc"
    python = shlex.quote(str(python_with("grpcio-tools", _GRPC_TOOLS, say)))
    script.write_text(f'#!/bin/sh\nexec {python} -P -m grpc_tools.protoc "$@"\n', "utf-8")
    script.chmod(0o755)
    return str(script)
