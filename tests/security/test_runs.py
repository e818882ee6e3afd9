"""Whole runs against a broker with TLS and authorization: they work, and no secret is left or shown anywhere."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from conformance.clients.admin.client import Admin
from tests.cli.command_line import Ran, ended
from tests.security.commands import run_for_real, start_for_real
from tests.security.secured_broker import OWNER, SUPER_USER, TENANT, SecuredBroker
from tests.security.tokens import token
from tests.waits import eventually

LOOK_EVERY_S = 0.2


class Spy:
    """Looks at what everybody may see of processes, for as long as a command runs."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()
        self.looks = 0
        self.seen: set[str] = set()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Look on for the length of a block."""
        self._thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            self._thread.join()

    def _look(self) -> None:
        while not self._is_over.wait(LOOK_EVERY_S):
            self.looks += 1
            self.seen |= {line for line in command_lines() if self._secret.decode() in line}


def command_lines() -> set[str]:
    """Those of all processes, as ``ps`` shows them."""
    found = set()
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.add(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found


def children_that_have(secret: str, pid: int) -> list[str]:
    """The processes below one in whose environment a secret is."""
    found = []
    for child in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.Error):
            found += [str(child) for value in child.environ().values() if secret in value]
    return found


def files_that_have(secret: str, folder: Path) -> list[Path]:
    """All files of a folder, at any depth, in which a secret is."""
    return [file for file in folder.rglob("*") if file.is_file() and secret.encode() in file.read_bytes()]


def watched(command: subprocess.Popen[str], secret: str, *, deadline_s: float) -> Ran:
    """Run a command to its end; fail if anybody could see the secret meanwhile."""
    began = time.monotonic()
    # What is typed is taken off the command line at once.
    eventually(lambda: not any(secret in line for line in command_lines()), deadline_s=20)
    spy = Spy(secret)
    with spy.looking():
        process = psutil.Process(command.pid)
        eventually(lambda: command.poll() is not None or process.children(recursive=True), deadline_s=30)
        assert command.poll() is None, command.communicate()
        assert children_that_have(secret, command.pid) == []
        ran = ended(command, began=began, deadline_s=deadline_s)
    assert spy.looks > 10
    assert spy.seen == set()
    assert secret not in ran.out + ran.err
    return ran


def test_a_check_works_and_shows_no_secret(secured: SecuredBroker, tmp_path: Path) -> None:
    secret = token(SUPER_USER, lasts_s=3600)
    rules = "DEDUP-03,ACK-02,KEY-01,CHUNK-04"
    command = start_for_real(
        *("check", "--broker", secured.text, "--rules", rules, "--budget", "40s", "--seed", "11"),
        *("--machines", "deduplication,acknowledgment,keys,chunks"),
        *("--tls-trust-certs", secured.authority.file, "--token", secret),
        *("--report", "report", "--json", "verdicts.json"),
        folder=tmp_path,
        environment={"TMPDIR": str(tmp_path)},
    )
    ran = watched(command, secret, deadline_s=180)
    told = json.loads((tmp_path / "verdicts.json").read_text())
    verdicts = {rule["id"]: rule["verdict"] for rule in told["rules"]}
    assert "violated" not in verdicts.values(), ran.out
    exercised = [rule["id"] for rule in told["rules"] if rule["exercised"]]
    assert len(exercised) >= 2, ran.out + ran.err
    # On busy cores an example may come too late, or not come to its end.
    is_late = len(exercised) < len(verdicts) or "not finished at the end of its budget" in ran.out
    assert ran.status == (2 if is_late else 0), ran.out + ran.err
    assert files_that_have(secret, tmp_path) == []
    assert files_that_have(secret.rpartition(".")[2], tmp_path) == []
    assert "--token-env PULSAR_CONFORMANCE_TOKEN" in (tmp_path / "report" / "report.html").read_text()


def test_a_role_that_administers_one_tenant_is_sufficient(secured: SecuredBroker, tmp_path: Path) -> None:
    """It is told what it may not do, the run goes on in its tenant, and nothing is left there."""
    (tmp_path / "token").write_text(token(OWNER))
    options = ["--tls-trust-certs", secured.authority.file, "--token-file", str(tmp_path / "token")]
    asked = ["check", "--broker", secured.text, *options, "--rules", "ACK-02", "--machines", "acknowledgment"]
    ran = run_for_real(*asked, "--budget", "20s", "--report", "refused", folder=tmp_path)
    assert ran.status == 2
    assert f"role '{OWNER}' may not " in ran.out + ran.err
    assert "--tenant" in ran.out + ran.err
    with Admin(secured.admin) as admin:
        before = set(admin.namespaces(TENANT))
        ran = run_for_real(*asked, "--tenant", TENANT, "--budget", "25s", "--report", "done", folder=tmp_path)
        assert set(admin.namespaces(TENANT)) == before
    assert "your role may not read the broker's settings" in ran.out + ran.err
    told = json.loads((tmp_path / "done" / "verdicts.json").read_text())
    assert not [rule for rule in told["rules"] if rule["verdict"] in ("violated", "suspected")], ran.out
    assert told["operations"] > 10, ran.out + ran.err


def test_a_soak_works_and_shows_no_secret(secured: SecuredBroker, tmp_path: Path) -> None:
    secret = token(SUPER_USER, lasts_s=7200)
    command = start_for_real(
        *("soak", "--broker", secured.text, "--minutes", "0.1", "--clients", "2", "--topics", "2", "--rate", "40"),
        *("--faults", "none", "--seed", "5", "--history", "history"),
        *("--tls-trust-certs", secured.authority.file, "--token-env", "SOME_TOKEN"),
        folder=tmp_path,
        environment={"TMPDIR": str(tmp_path), "SOME_TOKEN": secret},
    )
    ran = watched(command, secret, deadline_s=240)
    assert ran.status == 0, ran.out + ran.err
    assert any((tmp_path / "history").glob("bucket-*"))
    assert files_that_have(secret, tmp_path) == []


def test_a_bug_of_the_suite_shows_no_secret(secured: SecuredBroker, tmp_path: Path) -> None:
    """The traceback that is kept, and what the engine prints of one, go by representations of values."""
    secret = token(SUPER_USER, lasts_s=3601)
    outside, folder = tmp_path / "outside", tmp_path / "folder"  # nothing is imported from the working directory
    outside.mkdir()
    folder.mkdir()
    (outside / "sitecustomize.py").write_text(
        "import sys\n"
        "if '--pulsar-connection' in sys.argv:\n"
        "    import conformance.lockstep.world as world\n"
        "    def broken(self, broker, **options):\n"
        "        raise ZeroDivisionError(f'a bug: {broker.addresses!r} {options}')\n"
        "    world.World.__init__ = broken\n"
    )
    command = start_for_real(
        *("check", "--broker", secured.text, "--rules", "DEDUP-03", "--budget", "30s", "--report", "report"),
        *("--tls-trust-certs", secured.authority.file),
        folder=folder,
        environment={
            "TMPDIR": str(tmp_path),
            "PULSAR_CONFORMANCE_TOKEN": secret,
            "PYTHONPATH": f"{outside}{os.pathsep}{Path(__file__).parents[2]}",
        },
    )
    ran = ended(command, began=time.monotonic(), deadline_s=120)
    assert ran.status == 2, ran.out + ran.err
    assert "a bug" in (folder / "report" / "engine.log").read_text()
    assert secret not in ran.out + ran.err
    assert files_that_have(secret, tmp_path) == []
