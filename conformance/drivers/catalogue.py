"""The clients that a run can have: pulsar-client in this process, or a driver, by name.

``java:4.0.8`` and ``python:3.10.0`` are releases of clients that the suite has drivers of. ``driver:COMMAND`` starts
any other. What a driver needs is fetched and built on first use, into the cache.
"""

from __future__ import annotations

import hashlib
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from conformance.brokers.installation.artifacts import Coordinates
from conformance.brokers.installation.cache import cache_folder, sole_maker
from conformance.brokers.installation.gaps import PULSAR, Resolution
from conformance.brokers.installation.java import find_java
from conformance.clients.driver.connect import DriverCommand
from conformance.drivers.environment import python_with_client
from conformance.harness_error import HarnessError

JAVA: Final = "java:"
PYTHON: Final = "python:"
ANY: Final = "driver:"

_COMPILED_AGAINST: Final = "2.11.0"
_BYTECODE: Final = "17"
_COMPILE_TIMEOUT_S: Final = 120.0
_SOURCE: Final = Path(__file__).parent / "java" / "Driver.java"
_JVM: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m", "-Djava.net.preferIPv4Stack=true")

Say = Callable[[str], None]


def driver_of(name: str, say: Say) -> DriverCommand:
    """The command of the driver with this name; ``say`` receives one line before a long step.

    Raises :class:`HarnessError` if it is not available.
    """
    if name.startswith(ANY):
        return DriverCommand(name=name, command=tuple(shlex.split(name.removeprefix(ANY))))
    if name.startswith(PYTHON):
        python = python_with_client(name.removeprefix(PYTHON), say)
        return DriverCommand(name=name, command=(str(python), "-P", "-m", "conformance.drivers.python"))
    version = name.removeprefix(JAVA)
    path = ":".join([str(_compiled(say)), *_jars(version, say)])
    java = str(find_java().executable)
    return DriverCommand(name=name, command=(java, *_JVM, f"-Ddriver.version={version}", "-cp", path, "Driver"))


def _jars(version: str, say: Say) -> list[str]:
    """The jars of a release of the Java client, with what they need."""
    place = cache_folder("clients") / f"pulsar-client-java-{version}"
    with sole_maker(place) as workshop:
        if place.exists():
            jars = place.read_text("utf-8").splitlines()
            if all(Path(jar).exists() for jar in jars):
                return jars
        say(f"Fetching the Java client {version} ...")
        resolution = Resolution(version, workshop, on_file=lambda: None, on_gap=lambda gap: say(str(gap)))
        found = resolution.resolved([Coordinates(group=PULSAR, name="pulsar-client", version=version)])
        jars = [str(jar.file) for jar in found]
        listed = workshop / "class-path"
        listed.write_text("\n".join(jars), "utf-8")
        listed.replace(place)
        return jars


def _compiled(say: Say) -> Path:
    """The folder of the compiled driver."""
    digest = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:12]
    place = cache_folder("clients") / f"java-driver-{digest}"
    if place.exists():
        return place
    compiler = find_java().executable.with_name("javac")
    if not compiler.exists():
        found = shutil.which("javac")
        if found is None:
            raise HarnessError("The driver of the Java client needs a JDK to be compiled, and there is no javac.")
        compiler = Path(found)
    jars = _jars(_COMPILED_AGAINST, say)
    with sole_maker(place) as workshop, tempfile.TemporaryDirectory(dir=workshop) as made:
        if not place.exists():
            command = [str(compiler), "--release", _BYTECODE, "-d", made, "-cp", ":".join(jars), str(_SOURCE)]
            ran = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_TIMEOUT_S, check=False)
            if ran.returncode:
                raise HarnessError(f"The driver of the Java client cannot be compiled: {ran.stderr.strip()[:500]}")
            shutil.copytree(made, workshop / "classes")
            (workshop / "classes").replace(place)
    return place
