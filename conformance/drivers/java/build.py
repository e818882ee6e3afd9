"""Compiles the driver of the Java client, with javac, and resolves the jars of a release."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from conformance.brokers.installation.artifacts import Coordinates
from conformance.brokers.installation.cache import cache_folder, sole_maker
from conformance.brokers.installation.gaps import PULSAR, Resolution
from conformance.brokers.installation.java import find_java
from conformance.drivers.tools import Say, built, run, tool

_COMPILED_AGAINST: Final = "2.11.0"
_BYTECODE: Final = "17"
_OF: Final = "the Java client"
_SOURCE: Final = Path(__file__).with_name("Driver.java")
_JVM: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m", "-Djava.net.preferIPv4Stack=true")


def driver(version: str, say: Say) -> tuple[str, ...]:
    """The command of the driver. Raises :class:`HarnessError` if it cannot be compiled, or the release not be had."""
    path = ":".join([str(_compiled(say)), *_jars(version, say)])
    java = str(find_java().executable)
    return (java, *_JVM, f"-Ddriver.version={version}", "-cp", path, "Driver")


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

    def compile_in(folder: Path) -> Path:
        beside = find_java().executable.with_name("javac")
        compiler = str(beside) if beside.exists() else tool("javac", _OF)
        jars = ":".join(_jars(_COMPILED_AGAINST, say))
        run([compiler, "--release", _BYTECODE, "-d", "classes", "-cp", jars, _SOURCE.name], folder, of=_OF)
        return folder / "classes"

    return built("java-driver", [_SOURCE], compile_in)
