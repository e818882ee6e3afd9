"""Rules for the code itself: imports between rooms, sizes, marks, and strings that no file may contain."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import model
from model.rules.catalogue import CATALOGUE, PLACES, RULES

ROOT = Path(__file__).parents[1]
LINES_OF_A_LARGE_FILE = 500
LINES_OF_A_LARGE_FUNCTION = 70
MODULES_OF_A_LARGE_FOLDER = 16
LARGE = {
    "conformance/brokers/deployment.py": "one deployment: its processes, their starts and their faults",
    "conformance/engine/catalogue.py": "a table of all machines",
    "conformance/cli": "a module for each command",
    "conformance/commands": "a module for each command",
    "conformance/cli/check.py: check": "a parameter for each option",
    "conformance/lockstep": "a performer for each kind of operation, beside a package for each document",
    "conformance/lockstep/real.py": "one match over all operations",
    "conformance/report/reproducer/template.py": "the functions of one program, of which each reproducer has some",
    "conformance/report/sentences": "a module for each kind of operation",
    "conformance/verdicts.py": "all verdicts, and their JSON",
    "model": "the operations, the outcomes and the judgement, beside a package for each document",
    "model/deviations/chunking": "a file for each deviation",
    "model/deviations/cursors": "a file for each deviation",
    "model/deviations/deduplication": "a file for each deviation",
    "model/deviations/key_shared": "a file for each deviation",
    "model/deviations/replication": "a file for each deviation",
    "model/deviations/service": "a file for each deviation",
    "model/events.py": "one type for each outcome",
    "model/example/judge.py": "one match over all operations",
    "model/operations.py": "one class for each operation, with what the suite needs to know of it",
    "model/subscriptions": "a module for each question about subscriptions",
    "tests/lockstep": "a module for each kind of operation on a real broker, and for each part of a performer",
    "tests/lockstep/simulated": "a module for each part of the simulated broker",
    "tests/lockstep/simulated/cursors.py": "one performer, as the real one",
    "tests/lockstep/simulated/world.py": "one match over all operations",
    "tests/model/test_ended_excuses.py": "small histories of one kind",
    "tests/cli": "a module for each command or part of the command line",
    "tests/model/deduplication": "a module of small histories for each question, and a second observer",
    "tests/model/replication": "a module of small histories for each question, and what happened before them",
    "tests/model/test_subscriptions.py": "small histories of one kind",
    "tests/model/test_topics_with_markers.py": "small histories of one kind",
    "tests/pipeline/histories/anomalies.py": "one catalogue of planted anomalies",
    "tests/pipeline/histories/mutations.py": "one catalogue of mutations",
    "tests/stateful": "a module for each promise of the machines, by document where it differs",
}
"""What is large, with the reason. An addition asks the reviewer: is there a seam to divide it by meaning?"""
GENERATED = {"protocol_pb2.py"}
NOT_GERUNDS = {
    "blocking": "a term: head-of-line blocking",
    "beginning": "a noun: where a subscription begins",
    "chunking": "the name of document 002 in every room",
    "draining": "an adjective: draining hashes",
    "missing": "an adjective: a backoff that is missing",
    "overlapping": "an adjective: an overlapping batch",
    "pending": "an adjective: pending acks",
}
"""Words of names that end like a gerund, each with the reason why it may be one."""


def tracked(pattern: str = "*") -> list[Path]:
    listed = subprocess.run(["git", "ls-files", pattern], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def sources() -> list[Path]:
    return [path for path in tracked("*.py") if path.name not in GENERATED]


def test_imports_between_the_rooms_go_one_way() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    ran = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout


def test_large_files_folders_and_functions_are_listed_with_a_reason() -> None:
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in sources()}
    files = {name for name, text in texts.items() if text.count("\n") > LINES_OF_A_LARGE_FILE}
    modules = Counter(str(Path(name).parent) for name in texts if not name.endswith("__init__.py"))
    folders = {folder for folder, number in modules.items() if number > MODULES_OF_A_LARGE_FOLDER}
    functions = {
        f"{name}: {node.name}"
        for name, text in texts.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > LINES_OF_A_LARGE_FUNCTION
    }
    assert files | folders | functions == LARGE.keys()


def test_no_module_of_the_rooms_has_a_gerund_as_its_name() -> None:
    modules = [path.relative_to(ROOT) for path in tracked("*.py")]
    words = {
        word
        for path in modules
        if path.parts[0] in {"model", "conformance", "stateful"}
        for part in path.with_suffix("").parts
        for word in part.split("_")
    }
    assert {word for word in words if word.endswith("ing")} == NOT_GERUNDS.keys()


def test_every_mark_names_a_rule_and_every_deduplication_rule_is_marked() -> None:
    for module in pkgutil.walk_packages(model.__path__, "model."):
        importlib.import_module(module.name)
    assert set(PLACES) <= set(RULES)
    assert {rule.id for rule in CATALOGUE if rule.family == "DEDUP"} <= set(PLACES)


def test_no_file_names_a_package_registry() -> None:
    hosts = re.compile(r"(pypi\.org|pythonhosted|repo1?\.maven|registry\.npmjs|crates\.io|proxy\.golang|deb\.debian)")
    for path in tracked():
        if path == Path(__file__).resolve() or path.suffix in {".png"}:
            continue
        found = hosts.findall(path.read_text(errors="replace"))
        assert not found, f"{path.relative_to(ROOT)} has {found}"
