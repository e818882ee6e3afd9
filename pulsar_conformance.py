"""Starts the command, in any folder: nothing is imported from the working directory.

The other packages have common names. A project's own ``model`` would take the place of the suite's, and in CI the
working directory is the pull request of a stranger. So the entry points of the distribution are in this module, whose
name no project has. It imports the suite only once the search path is safe.
"""

from __future__ import annotations

import importlib
import os
import sys
import sysconfig
from importlib.machinery import PathFinder
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    import pytest

ROOT: Final = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120 - pathlib would triple what this imports
PACKAGES: Final = ("conformance", "model", "stateful")


def main() -> NoReturn:
    """Run the command line."""
    ignore_working_directory()
    from conformance.cli import main as run

    run()


def ignore_working_directory() -> None:
    """Import nothing from the working directory, here and in Python processes that this one starts.

    The entries of ``PYTHONPATH`` that are in it, or have a package with the name of one of the suite's, are ignored.
    """
    here = _working_directory()
    kept = {ROOT, *map(os.path.realpath, sysconfig.get_paths().values())}
    if not sys.flags.safe_path and sys.path and _real(sys.path[0]) == here and here != ROOT:
        del sys.path[0]
    asked = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    foreign = {_real(entry) for entry in asked if _is_foreign(_real(entry), here)} - kept
    sys.path[:] = [entry for entry in sys.path if _real(entry) not in foreign]
    inherited = [entry for entry in asked if _real(entry) not in foreign]
    importlib.invalidate_caches()
    if shadowed():
        sys.path.insert(0, ROOT)
    if here == ROOT:
        inherited.insert(0, ROOT)
    os.environ.pop("PYTHONPATH", None)
    if inherited:
        os.environ["PYTHONPATH"] = os.pathsep.join(inherited)
    os.environ["PYTHONSAFEPATH"] = "1"


def _working_directory() -> str | None:
    try:
        return os.path.realpath(os.getcwd())  # noqa: PTH109
    except FileNotFoundError:
        return None


def _real(entry: str) -> str | None:
    try:
        return os.path.realpath(entry)
    except FileNotFoundError:
        return None


def _is_foreign(entry: str | None, here: str | None) -> bool:
    """Whether it is in the working directory or has other packages with the suite's names."""
    if entry is None or (here is not None and (entry == here or entry.startswith(here.rstrip(os.sep) + os.sep))):
        return True
    return entry != ROOT and any(PathFinder.find_spec(package, [entry]) is not None for package in PACKAGES)


def shadowed() -> dict[str, str]:
    """The suite's packages of which another one is imported, with its location."""
    found = {package: _location(package) for package in PACKAGES}
    return {package: at for package, at in found.items() if os.path.dirname(at) != ROOT}  # noqa: PTH120


def _location(package: str) -> str:
    """The folder of a package, or the file of a module."""
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return "nowhere"
    folders = list(spec.submodule_search_locations or ())
    return os.path.realpath(folders[0] if folders else spec.origin or "nowhere")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to run the machines if another package takes the place of one of the suite's.

    This module is a plugin of every pytest in its environment, and no other project has its name.
    """
    asked = any(argument.partition(".")[0] == "stateful" for argument in config.option.file_or_dir)
    instead = shadowed() if asked and config.option.pyargs else {}
    for package, location in instead.items():
        import pytest

        raise pytest.UsageError(
            f"pytest imports the package {package} of {location}, not pulsar-conformance's: run `pulsar-conformance "
            "check`, or install it into an environment of its own (pipx, uv tool) and run pytest in another folder"
        )


def __getattr__(name: str) -> object:
    """Load the suite's plugin, unless a project's own ``conformance`` takes its place."""
    if name != "pytest_plugin":
        raise AttributeError(name)
    return object() if "conformance" in shadowed() else importlib.import_module("conformance.pytest_plugin")
