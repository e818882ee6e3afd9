"""The Byteman agent that a broker is started with, so that defects and failpoints can be switched on inside it.

What is sent to the agent later is the business of ``conformance.faults``.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from conformance.brokers.obtaining.artifacts import artifact

_BYTEMAN_VERSION = "4.0.26"


def agent_jar() -> Path:
    """Return the agent's jar, fetched on its first use.

    Raises:
        HarnessError: it cannot be fetched.
    """
    return artifact("org.jboss.byteman", "byteman", _BYTEMAN_VERSION)


def agent_options(jar: PurePosixPath, *, address: str, port: int) -> tuple[str, ...]:
    """Return the options with which Java loads the agent from ``jar`` and has it listen at ``address`` and ``port``."""
    return (
        f"-javaagent:{jar}=listener:true,address:{address},port:{port},boot:{jar}",
        "-Dorg.jboss.byteman.transform.all",
    )
