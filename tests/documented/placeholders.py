"""The values of placeholders in documented commands, and the commands that are not run here, with the reasons."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Instead:
    """``pattern`` is replaced by ``by``, in which ``{name}`` is something that a test provides."""

    pattern: str
    by: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """A command that is not run with the others: what runs it, or why nothing here can."""

    pattern: str
    why: str


PLACEHOLDERS = (
    Instead(pattern=r"dist:\S*apache-pulsar-\S+-bin\.tar\.gz", by="dist:{tarball}", why="the reader's own build"),
    Instead(pattern=r"rc:(https://dist\.\S+|URL)", by="dist:{tarball}", why="a candidate that there may be"),
    Instead(pattern=r"pulsar://host:6650,http://host:8080", by="{addresses}", why="the reader's own cluster"),
    Instead(
        pattern=r"first-hunt/\S+-minimal\.json",
        by="{found}",
        why="the file that the hunt before it writes, whose defect breaks a rule in each replay",
    ),
    Instead(pattern=r"\bHISTORY\b", by="{history}", why="the file of a violation"),
    Instead(
        pattern=r"\[--rules …\] \[--master …\] \[--conf NAME=VALUE\]… \[--json FILE\] \[--persisted-after 10s\]",
        by="",
        why="may be left out",
    ),
    Instead(pattern=r"\[--tenant NAME\] \[--force\]", by="", why="may be left out"),
    Instead(
        pattern=r"--tls-trust-certs ca\.pem --token-file token(\.jwt)?",
        by="--tls-trust-certs {file} --token-file {file}",
        why="the reader's own files",
    ),
    Instead(pattern=r"reports/4\.0\.8-523768843", by="{report}", why="the folder of a check that was killed"),
    Instead(pattern=r"(?<=--history )FOLDER", by="{new}", why="the reader's folder for a history"),
    Instead(pattern=r"(?<=compact )FOLDER", by="{copy}", why="the reader's history, which this command changes"),
    Instead(pattern=r"FOLDER…?|(?<=verify )history\b", by="{recorded}", why="the reader's history"),
    Instead(pattern=r"histories/pulsar-conformance-SEED", by="{recorded}", why="the history of the soak before it"),
)
"""Words that stand for something of the reader's. The first that match are replaced first."""

SHORTER = (
    Instead(pattern=r"--(hours|minutes) \d+", by="--minutes 0.4", why="soaks of hours"),
    Instead(pattern=r"--follow", by="--follow --settled 5s", why="without it, it follows until Ctrl-C"),
    Instead(
        pattern=r"(?<=check )(?!.*--budget)",
        by="--budget 2m --rules DEDUP-02,DEDUP-03 ",
        why="each would take five minutes or more to exercise all rules",
    ),
    Instead(
        pattern=r"(?<=--broker 4\.0\.8)$(?<=stateful --broker 4\.0\.8)",
        by=" --pulsar-budget-s 120 --pulsar-rules DEDUP-02 --pulsar-known {known}",
        why="the machines without a budget take half an hour",
    ),
)
"""What makes a command end soon."""

ELSEWHERE = (
    Elsewhere(pattern=r".*--tls-trust-certs.*", why="tests/brokers runs checks on a broker with TLS and tokens"),
    Elsewhere(pattern=r".*--machines key", why="it shows how bad input is refused, which tests/cli tests"),
    Elsewhere(pattern=r"_PULSAR_CONFORMANCE_COMPLETE=.*", why="tests/cli tests completion"),
    Elsewhere(pattern=r"make (check|test)\b.*", why="`make check` and `make test` are run by themselves, and run this"),
    Elsewhere(pattern=r"make (setup-spark|test-container)", why="it installs, or needs an engine for containers"),
    Elsewhere(
        pattern=r".*\bcontainer:.*|docker .*", why="`make test-container` runs what needs an engine for containers"
    ),
    Elsewhere(pattern=r".*s3a://.*", why="tests/pipeline runs it against an S3 interface that a test starts"),
    Elsewhere(
        pattern=r".*(spark|hdfs)://.*", why="there is no Spark cluster and no HDFS here; master and URL are checked"
    ),
    Elsewhere(pattern=r"python -m tests\.quality\..*", why="it takes hours and hundreds of gigabytes"),
    Elsewhere(
        pattern=r"venv/bin/pulsar-conformance .*", why="the command of `pip install .` is run where that is tested"
    ),
    Elsewhere(pattern=r"pipx install .*|uv tool install .*|python3 -m venv .*", why="test_installation.py runs these"),
    Elsewhere(
        pattern=r"pulsar-conformance (compare|matrix) .*",
        why="it checks several brokers for ten minutes each; tests/cli runs it",
    ),
    Elsewhere(pattern=r"(python3|java) .*\.(py|java) .*", why="`report --reproducer` writes it; tests/replays runs it"),
    Elsewhere(pattern=r"pulsar-conformance tap .*", why="it runs until Ctrl-C; tests/tap runs it"),
    Elsewhere(pattern=r"\. \.venv/bin/activate", why="test_installation.py runs it"),
)


def elsewhere(text: str) -> Elsewhere | None:
    """Why a command is not run with the others, if it is not."""
    return next((entry for entry in ELSEWHERE if re.fullmatch(entry.pattern, text)), None)


def substituted(text: str, provided: Mapping[str, str], *, shorter: bool = False) -> str:
    """The command with something real for each placeholder."""
    for instead in (*PLACEHOLDERS, *(SHORTER if shorter else ())):
        text = re.sub(instead.pattern, instead.by, text)
    return re.sub(r"\{(\w+)\}", lambda found: provided[found[1]], text).strip()
