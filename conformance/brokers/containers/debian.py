"""Packages of Debian and its relatives, for machines on which the container tests may install what they need.

Everything goes through apt as this machine has it configured; no mirror is named here.
"""

from __future__ import annotations

import os
import shutil
import subprocess

from conformance.harness_error import HarnessError

_APT_DEADLINE_S = 600.0
_LOCK_DEADLINE_S = 120


class Unavailable(HarnessError):
    """This machine lacks something, and it may not be installed here: a reason to skip rather than to fail."""


def provide(program: str, *packages: str) -> None:
    """Install ``packages`` where ``program`` is not on the path yet.

    Raises:
        Unavailable: it is missing and this is not root on a machine with apt.
        HarnessError: apt was asked and failed.
    """
    if shutil.which(program):
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise Unavailable(
            f"{program} is not installed, and installing {' '.join(packages)} takes root on Debian or Ubuntu."
        )
    print(f"== installing {' '.join(packages)}", flush=True)
    _apt_get("update")
    _apt_get("install", "--yes", "--no-install-recommends", *packages)


def mirror() -> str | None:
    """Return the Debian mirror that apt uses on this machine; None where its packages are not Debian's own."""
    if not shutil.which("apt-get"):
        return None
    answer = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Label: Debian"],
        capture_output=True,
        text=True,
        timeout=_APT_DEADLINE_S,
        check=False,
    )
    return next(iter(answer.stdout.split()), None)


def _apt_get(*arguments: str) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "-qq", "-o", f"DPkg::Lock::Timeout={_LOCK_DEADLINE_S}", *arguments]
    try:
        subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_APT_DEADLINE_S, check=True)
    except subprocess.TimeoutExpired as error:
        raise HarnessError(f"apt-get {arguments[0]} did not end within {_APT_DEADLINE_S:.0f} s.") from error
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["it gave no reason"])[-1]
        raise HarnessError(f"apt-get {arguments[0]} failed: {last}") from error
