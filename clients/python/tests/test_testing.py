"""The server for tests, where it does not start or is asked twice. test_hello.py is its use."""

import json
import stat
from pathlib import Path

import pytest

from strandline import testing


def stand_in(folder: Path, script: str) -> str:
    path = folder / "strandline"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where servers have their data."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def test_a_server_that_does_not_start_says_why_and_leaves_nothing(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRANDLINE", stand_in(tmp_path, "echo no room >&2; exit 1"))
    with pytest.raises(RuntimeError, match="no room"):
        testing.Server()
    assert not list(temporary.iterdir())


def test_a_machine_without_a_program_says_how_to_have_one(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STRANDLINE", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(FileNotFoundError, match="strandline-server"):
        testing.Server()
    assert not list(temporary.iterdir())


def test_variables_of_the_command_line_do_not_reach_the_server(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    announced = json.dumps({"grpc": "${STRANDLINE_SERVE_GRPC:-none}", "http": "$*"})
    script = f"cat <<END\n{announced}\nEND\nexec sleep 60"
    monkeypatch.setenv("STRANDLINE", stand_in(tmp_path, script))
    monkeypatch.setenv("STRANDLINE_SERVE_GRPC", "10.0.0.1:7171")
    server = testing.Server("--memory", "64MiB")
    assert server.address == "none"
    assert server.http.endswith("--kafka none --memory 64MiB")
    server.close()
    server.close()
    assert not list(temporary.iterdir())
