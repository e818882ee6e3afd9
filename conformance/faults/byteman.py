"""The Byteman agent's text protocol, over a plain socket.

One connection carries one request: a command line, its body, and an end marker. The agent answers with lines, the last
one ``OK``, and closes. Byteman's own ``submit`` tool would start a JVM each time; a request here takes 0.5 ms
(properties) to 200 ms (the first rule on a large class, which the JVM then transforms again).

The agent reports an invalid rule late: a syntax error when the rule's class is loaded, a type error when the rule is
first reached. Both are then in its listing, which :meth:`Agent.rules` reads.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise, takewhile

from conformance.brokers.interface import AgentAddress
from conformance.harness_error import HarnessError
from conformance.wait import Deadline

_PROPERTY = "org.jboss.byteman."
"""The only system properties that the agent lets a client read and write."""

_LIMIT_BYTES = 32 * 1024 * 1024
_LINE = re.compile(r"[^\r\n]*")
_EXCEPTION = re.compile(r"^[\w.$]+(Exception|Error): ")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedRule:
    """A rule as the agent lists it.

    ``injected``: its class was found and its code changed. ``reached``: the changed code ran at least once, and the
    rule had no type error. ``problem``: the agent's reason why the rule does nothing, None without one.
    """

    name: str
    injected: bool
    reached: bool
    problem: str | None


class AgentGone(HarnessError):
    """Nothing listens at the agent's address: its process has ended, and its rules with it."""


class Agent:
    """A client of the agent inside one broker's process.

    It keeps no connection, so it can be used after a restart of the broker. Every method raises
    :class:`~conformance.harness_error.HarnessError` if the agent is not running, refuses, or does not answer within
    ``timeout_s``.
    """

    def __init__(self, address: AgentAddress, *, timeout_s: float = 10.0) -> None:
        self._address = address
        self._timeout_s = timeout_s

    def load(self, scripts: Mapping[str, str]) -> None:
        """Add the rules of some scripts (name of script to text); a rule of the same name is replaced.

        Rules with a syntax error are removed again, and raise a harness error with the agent's message.
        """
        self._ask("LOAD", [*_sections(scripts), "ENDLOAD"])
        try:
            self.check(scripts)
        except HarnessError:
            self.delete(scripts)
            raise

    def check(self, scripts: Mapping[str, str]) -> None:
        """Raise a harness error if the agent has reported an error in one of these scripts' rules."""
        names = [name for text in scripts.values() for name in rule_names(text)]
        for rule in self.rules():
            if rule.name in names and rule.problem:
                raise HarnessError(f"the Byteman agent cannot use the rule '{rule.name}': {rule.problem}")

    def delete(self, scripts: Mapping[str, str]) -> None:
        """Remove the rules of some scripts. Raises a harness error if one is not loaded."""
        self._ask("DELETE", [*_sections(scripts), "ENDDELETE"])

    def rules(self) -> tuple[LoadedRule, ...]:
        """All loaded rules with their states."""
        return tuple(_parse_listing(self._ask("LIST", [])))

    def properties(self) -> dict[str, str]:
        """The system properties below ``org.jboss.byteman.`` of the broker's process, without that prefix."""
        pairs = (line.partition("=") for line in self._ask("LISTSYSPROPS", []) if line.startswith(_PROPERTY))
        return {name.removeprefix(_PROPERTY): value for name, _, value in pairs}

    def set_properties(self, values: Mapping[str, str]) -> None:
        """Set system properties below ``org.jboss.byteman.`` (named without it); an empty value removes one."""
        self._ask("SETSYSPROPS", [*(f"{_PROPERTY}{name}={value}" for name, value in values.items()), "ENDSETSYSPROPS"])

    def _ask(self, command: str, body: Iterable[str]) -> list[str]:
        """Send one request and return the answer's lines without the closing ``OK``."""
        lines = [command, *body]
        if stray := [line for line in lines if not _LINE.fullmatch(line)]:
            raise ValueError(f"a line break inside one line of a request: {stray[0]!r}")
        answer = self._exchange("".join(f"{line}\n" for line in lines).encode()).decode(errors="replace").splitlines()
        if not answer or answer[-1].strip() != "OK":
            raise HarnessError(f"the Byteman agent at {self._where} broke off its answer to {command}")
        complaints = [line for line in answer if line.startswith(("ERROR", "EXCEPTION", "VerifyError"))]
        if complaints:
            words = " ".join(answer[answer.index(complaints[0]) :][:3])
            raise HarnessError(f"the Byteman agent at {self._where} refused {command}: {words}")
        return answer[:-1]

    def _exchange(self, request: bytes) -> bytes:
        """Send bytes, and return all that comes back until the agent closes the connection."""
        deadline = Deadline.after(self._timeout_s)
        answer = bytearray()
        try:
            with socket.create_connection((self._address.host, self._address.port), self._timeout_s) as connection:
                connection.sendall(request)
                while chunk := connection.recv(65536):
                    answer += chunk
                    if len(answer) > _LIMIT_BYTES:
                        raise HarnessError(
                            f"the Byteman agent at {self._where} answered more than {_LIMIT_BYTES} bytes"
                        )
                    connection.settimeout(max(0.001, deadline.left_s))
        except TimeoutError:
            raise HarnessError(
                f"the Byteman agent at {self._where} did not answer within {self._timeout_s:g} s"
            ) from None
        except ConnectionRefusedError as error:
            raise AgentGone(f"the Byteman agent at {self._where} cannot be reached: {error}") from error
        except OSError as error:
            raise HarnessError(f"the Byteman agent at {self._where} cannot be reached: {error}") from error
        return bytes(answer)

    @property
    def _where(self) -> str:
        return f"{self._address.host}:{self._address.port}"


def rule_names(text: str) -> tuple[str, ...]:
    """The names of the rules in a script, in its order."""
    return tuple(line.strip()[5:].strip() for line in text.splitlines() if line.strip().startswith("RULE "))


def _sections(scripts: Mapping[str, str]) -> Iterable[str]:
    for name, text in scripts.items():
        yield f"SCRIPT {name}"
        yield from text.splitlines()
        yield "ENDSCRIPT"


def _parse_listing(lines: list[str]) -> Iterable[LoadedRule]:
    """Read the answer to ``LIST``: each rule's text, then one block for each place where it was injected."""
    starts = [number for number, line in enumerate(lines) if line.startswith("RULE ")]
    for start, end in pairwise([*starts, len(lines)]):
        fate = lines[start:end]
        if "ENDRULE" in fate:
            fate = fate[fate.index("ENDRULE") + 1 :]
        yield LoadedRule(
            name=lines[start].removeprefix("RULE ").strip(),
            injected=any(line.startswith("trigger method:") for line in fate),
            reached="compiled successfully" in fate,
            problem=_complaint(fate),
        )


def _complaint(fate: list[str]) -> str | None:
    """The agent's error for a rule, without stack traces and names of exceptions."""
    for number, line in enumerate(fate):
        if line.startswith("threw ") or line == "failed to compile":
            words = [line.removeprefix("threw "), *takewhile(_is_no_repetition, fate[number + 1 :])]
            return " ".join(_EXCEPTION.sub("", text) for text in words if text != "failed to compile")
    return None


def _is_no_repetition(line: str) -> bool:
    """Whether a line is neither part of a stack trace nor a repetition of the exception."""
    return not line.startswith(("\tat ", "org.jboss.byteman.rule.exception.ParseException"))
