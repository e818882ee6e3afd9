"""The composite action and the workflows: they pass the linter, their inputs match, and the steps run unchanged."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click import Command

from conformance.cli.check import check

ROOT = Path(__file__).parents[1]
ACTION = ROOT / "action.yml"
WORKFLOWS = ROOT / ".github" / "workflows"
REUSABLE = WORKFLOWS / "conformance.yml"
EXAMPLE = ROOT / "docs" / "ci" / "pulsar-conformance.yml"
RUN_STEPS = ROOT / "docs" / "ci" / "run-steps.yml"
BIN = Path(sys.executable).parent


def read(path: Path) -> dict[str, Any]:
    """A YAML document whose keys are strings; YAML 1.1 takes the key ``on`` for true."""
    document = yaml.safe_load(path.read_text())
    return {"on" if key is True else key: value for key, value in document.items()}


def run_steps() -> dict[str, dict[str, Any]]:
    """The steps of the action that run a script, by their names."""
    return {step["name"]: step for step in read(ACTION)["runs"]["steps"] if "run" in step}


def actionlint(folder: Path, *files: Path) -> subprocess.CompletedProcess[str]:
    """Lint workflows with shellcheck for their scripts, in a folder that counts as a repository."""
    program = BIN / "actionlint"
    if not program.exists():
        pytest.skip("actionlint is not installed: `make setup-test` builds it where there is Go")
    (folder / ".git").mkdir(exist_ok=True)
    asked = [program, "-no-color", "-shellcheck", BIN / "shellcheck", *files]
    return subprocess.run([*map(str, asked)], cwd=folder, capture_output=True, text=True, check=False)


def test_actionlint_accepts_the_workflows_and_rejects_a_misspelled_input(tmp_path: Path) -> None:
    suite = tmp_path / ".pulsar-conformance"
    suite.mkdir()
    shutil.copy(ACTION, suite)
    workflows = tmp_path / ".github" / "workflows"
    workflows.mkdir(parents=True)
    copies = [Path(shutil.copy(path, workflows)) for path in (*WORKFLOWS.glob("*.yml"), EXAMPLE, RUN_STEPS)]
    ran = actionlint(tmp_path, *copies)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    broken = workflows / "broken.yml"
    broken.write_text(REUSABLE.read_text().replace("budget: ${{ inputs.budget }}", "budjet: ${{ inputs.budgit }}"))
    assert "budjet" in (said := actionlint(tmp_path, broken).stdout), "actionlint would not notice"
    assert "budgit" in said


def test_actionlint_accepts_the_scripts_of_the_action(tmp_path: Path) -> None:
    """actionlint reads only workflows, so the action's steps are put into a workflow with the action's inputs."""
    action = read(ACTION)
    inputs = {name: {"type": "string"} for name in action["inputs"]}
    job = {"runs-on": "ubuntu-24.04", "steps": action["runs"]["steps"]}
    workflow = tmp_path / "action.yml"
    workflow.write_text(yaml.safe_dump({"on": {"workflow_call": {"inputs": inputs}}, "jobs": {"check": job}}))
    ran = actionlint(tmp_path, workflow)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_example_passes_only_inputs_that_the_reusable_workflow_declares() -> None:
    takes = read(REUSABLE)["on"]["workflow_call"]["inputs"]
    call = read(EXAMPLE)["jobs"]["conformance"]
    assert re.fullmatch(r"OWNER/pulsar-conformance/\.github/workflows/conformance\.yml@main", call["uses"])
    assert set(call["with"]) <= set(takes)
    assert {name for name, about in takes.items() if about.get("required")} <= set(call["with"])


def test_the_action_and_the_steps_of_the_workflow_use_only_options_of_check() -> None:
    assert isinstance(check, Command)
    options = {name for parameter in check.params for name in parameter.opts}
    (checks,) = [step for step in read(RUN_STEPS)["jobs"]["conformance"]["steps"] if step.get("name") == "Check"]
    for script in (run_steps()["Check"]["run"], checks["run"]):
        used = set(re.findall(r"--[a-z]+", script))
        assert used
        assert used <= options
    variables = {name.removeprefix("PULSAR_CONFORMANCE_CHECK_").lower() for name in checks["env"]} - {"seed"}
    assert variables <= {name.removeprefix("--") for name in options}


def test_both_workflows_build_alike_and_at_the_same_times() -> None:
    """A workflow cannot include a part of another one, so one of them has a copy."""
    example, run_steps_only = read(EXAMPLE), read(RUN_STEPS)
    assert example["jobs"]["build"] == run_steps_only["jobs"]["build"]
    assert example["on"] == run_steps_only["on"]


def test_the_workflow_of_run_steps_uses_only_actions_of_github() -> None:
    jobs = read(RUN_STEPS)["jobs"].values()
    used = [step["uses"] for job in jobs for step in job["steps"] if "uses" in step]
    assert used
    assert [one for one in used if not re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", one)] == []


def test_the_reusable_workflow_takes_every_input_of_the_action_that_concerns_the_check() -> None:
    takes = set(read(REUSABLE)["on"]["workflow_call"]["inputs"])
    assert set(read(ACTION)["inputs"]) - takes == {"report", "python-version"}


def test_python_in_the_steps_imports_nothing_from_the_working_directory() -> None:
    scripts = "\n".join(step["run"] for step in run_steps().values())
    started = re.findall(r"python\"? +-\S.*", scripts)
    assert len(started) >= 6
    assert all(re.match(r"python\"? -I ", command) for command in started)


class Job:
    """A job's files and variables, as a runner passes them to the steps of a composite action."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("temp", "workspace"):
            (folder / name).mkdir(exist_ok=True)
        self.output, self.summary = folder / "output", folder / "summary.md"

    def run(self, step: str, **inputs: str) -> subprocess.CompletedProcess[str]:
        """Run a step's script as the runner does, with these inputs and the defaults of the others."""
        given = {name: about.get("default", "") for name, about in read(ACTION)["inputs"].items()} | inputs
        asked = run_steps()[step]

        def substituted(text: str) -> str:
            return re.sub(r"\$\{\{ inputs\.([a-z-]+) \}\}", lambda found: given[found[1]], text)

        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PYTHON"))},
            "GITHUB_ACTIONS": "true",
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_OUTPUT": str(self.output),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "RUNNER_TEMP": str(self.folder / "temp"),
            **{name: substituted(value) for name, value in asked.get("env", {}).items()},
        }
        assert asked["shell"] == "bash"
        assert "${{" not in asked["run"], "an input inside a script would run as code"
        (script := self.folder / "step.sh").write_text(asked["run"])
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
        return subprocess.run(
            command, cwd=self.folder / "workspace", env=environment, capture_output=True, text=True, check=False
        )

    def stand_in(self, script: str) -> None:
        """Replace the command that the previous step would have installed with a script."""
        program = self.folder / "temp" / "pulsar-conformance" / "bin" / "pulsar-conformance"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/bash\n{script}\n")
        program.chmod(0o755)


@pytest.mark.parametrize(
    ("ends", "suspected", "status"), [(0, "fail", 0), (1, "warn", 1), (3, "fail", 3), (3, "warn", 0)]
)
def test_the_step_exits_with_the_status_of_check_unless_a_suspicion_only_warns(
    ends: int, suspected: str, status: int, tmp_path: Path
) -> None:
    job = Job(tmp_path)
    job.stand_in(f'echo "$@"; exit {ends}')
    ran = job.run("Check", broker="4.0.8", rules="KEY,ACK-01", seed="7", suspected=suspected)
    assert ran.returncode == status
    assert ran.stdout == "check --broker 4.0.8 --budget 10m --report conformance-report --rules KEY,ACK-01 --seed 7\n"
    assert job.output.read_text() == f"status={ends}\n"


def test_each_input_is_an_option_and_arguments_are_words_that_no_shell_reads(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.stand_in('printf "%s\\n" "$@"')
    given = {"client": "java:4.0.8,go:0.19.0", "baseline": "4.0.7", "brokers": "2", "bookies": "3", "settings": "swarm"}
    ran = job.run("Check", broker="4.0.8", arguments="--setting a=1\n--lanes 2 $(touch hit)\n", **given)
    options = [word for name, value in given.items() for word in (f"--{name}", value)]
    assert ran.stdout.splitlines()[7:] == [*options, "--setting", "a=1", "--lanes", "2", "$(touch", "hit)"]
    assert not (tmp_path / "workspace" / "hit").exists()


@pytest.mark.parametrize(("has", "is_reported"), [(["events.jsonl"], True), (["events.jsonl", "junit.xml"], False)])
def test_a_check_that_was_killed_is_reported_from_its_events(has: list[str], is_reported: bool, tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.stand_in('echo "$@"; exit 2')
    (report := tmp_path / "workspace" / "conformance-report").mkdir()
    for name in has:
        (report / name).touch()
    ran = job.run("Report a check that was killed")
    assert (ran.returncode, ran.stdout) == (0, "report conformance-report\n" if is_reported else "")


def test_a_pattern_selects_the_one_matching_tarball_and_never_runs_as_code(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.stand_in('printf "%s\\n" "$@"')
    (tmp_path / "workspace" / "a $(touch hit)-1.tar.gz").touch()
    ran = job.run("Check", broker="dist:a *-?.tar.gz")
    assert ran.stdout.splitlines()[2] == "dist:a $(touch hit)-1.tar.gz"
    (tmp_path / "workspace" / "a -2.tar.gz").touch()
    for pattern, found in (("dist:a *-?.tar.gz", 2), ("dist:b*", 0)):
        ran = job.run("Check", broker=pattern)
        assert ran.returncode == 2
        assert ran.stdout.startswith(f"::error title=Pulsar conformance::{found} files match ")
    assert not (tmp_path / "workspace" / "hit").exists()


@pytest.mark.as_typed
def test_the_steps_install_the_suite_and_check_a_release(tmp_path: Path) -> None:
    """All of it for real: an environment of its own, a broker, a report, the outputs and the summary."""
    job = Job(tmp_path)
    assert (installed := job.run("Install the suite")).returncode == 0, installed.stdout + installed.stderr
    checked = job.run("Check", broker="4.0.8", rules="DEDUP-02,DEDUP-03", budget="2m", seed="1")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert job.output.read_text() == "status=0\n"
    assert job.summary.read_text().startswith("## Pulsar 4.0.8 with pulsar-client")
    assert (tmp_path / "workspace" / "conformance-report" / "junit.xml").exists()
