"""A server for tests: a process with data of its own, which ends with the test.

    from strandline import sync
    from strandline.testing import Server

    def test_orders() -> None:
        with Server() as server, sync.Client(server.address) as client:
            client.admin.create_log("orders")

Its program is that of the variable STRANDLINE, of the package strandline-server, or the first in PATH.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

_STARTS_WITHIN = 30.0
"""How long, in seconds, a server may take until it serves."""

_STOPS_WITHIN = 10.0
"""How long, in seconds, a server may take to end before it is killed."""


def program() -> str:
    """The path of the server's program. Raises FileNotFoundError if there is none."""
    if named := os.environ.get("STRANDLINE"):
        return named
    try:
        packed: Any = importlib.import_module("strandline_server")
    except ImportError:
        if found := shutil.which("strandline"):
            return found
        raise FileNotFoundError(
            "there is no server to start: set STRANDLINE to the path of the program strandline,"
            " install the package strandline-server, or have strandline in PATH"
        ) from None
    return str(packed.program())


class Server:
    """A cluster of one node on free ports of this machine, which serves once the constructor has returned.

    Its data are in a temporary folder, which close removes. Variables STRANDLINE_* do not apply to it.
    """

    address: str
    """Where clients connect to: HOST:PORT."""

    http: str
    """HOST:PORT of JSON over HTTP, metrics and health."""

    def __init__(self, *flags: str) -> None:
        """Starts the server, with more flags of "strandline serve". Raises FileNotFoundError without a
        program, and RuntimeError with what the server has written if it does not start."""
        self._data = Path(tempfile.mkdtemp(prefix="strandline-test-"))
        try:
            self._start(flags)
        except BaseException:
            shutil.rmtree(self._data, ignore_errors=True)
            raise

    def _start(self, flags: tuple[str, ...]) -> None:
        ports = ["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--kafka", "none"]
        command = [program(), "serve", "--json", "--data", str(self._data / "data"), *ports, *flags]
        environ = {name: value for name, value in os.environ.items() if not name.startswith("STRANDLINE")}
        said = self._data / "stderr"
        with said.open("wb") as stderr:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, env=environ
            )
        assert self._process.stdout is not None
        overdue = threading.Timer(_STARTS_WITHIN, self._process.kill)
        overdue.start()
        try:
            line = self._process.stdout.readline()
        finally:
            overdue.cancel()
        if not line:
            self._end()
            raise RuntimeError(
                f"{' '.join(command)} did not start: {said.read_text(errors='replace')[-4000:]}"
            )
        at = json.loads(line)
        self.address, self.http = at["grpc"], at["http"]

    def close(self) -> None:
        """Ends the server and removes its data. A second call does nothing."""
        self._end()
        shutil.rmtree(self._data, ignore_errors=True)

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(_STOPS_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
