"""The generated messages are those of protocol.proto."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.clients import protocol_pb2 as pb

ROOT = Path(__file__).parents[3]
GENERATED = ("conformance/clients/protocol_pb2.py", "conformance/clients/protocol_pb2.pyi")


@pytest.fixture(scope="module")
def regenerated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what ``make proto`` makes now."""
    folder = tmp_path_factory.mktemp("proto")
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", f"--python_out={folder}", f"--mypy_out={folder}"]
    subprocess.run(
        [*command, "conformance/clients/protocol.proto"], cwd=ROOT, env=os.environ | {"PATH": tools}, check=True
    )
    return folder


@pytest.mark.parametrize("path", GENERATED)
def test_the_committed_files_are_generated_from_the_proto(regenerated: Path, path: str) -> None:
    assert (regenerated / path).read_bytes() == (ROOT / path).read_bytes(), "run `make proto` and commit"


def test_every_command_has_its_body_under_the_number_of_its_type() -> None:
    types = {value.number: value.name for value in pb.BaseCommand.Type.DESCRIPTOR.values}
    for body in pb.BaseCommand.DESCRIPTOR.oneofs_by_name["body"].fields:
        assert body.name.upper() == types[body.number]


def test_an_absent_field_differs_from_its_default() -> None:
    for message in (pb.CommandSend, pb.MessageMetadata, pb.CommandProducerSuccess, pb.MessageIdData):
        assert all(field.has_presence for field in message.DESCRIPTOR.fields if not field.is_repeated)
