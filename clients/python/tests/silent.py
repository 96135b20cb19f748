"""A server that opens sessions, and otherwise takes everything and answers nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from strandline.calls import PATHS
from strandline.v1 import session_pb2


class Silent(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self) -> None:
        self._seen: dict[str, threading.Event] = {path: threading.Event() for path in PATHS.values()}
        self._server = grpc.server(ThreadPoolExecutor(16), handlers=[self])
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def close(self) -> None:
        self._server.stop(0).wait()

    def wait(self, method: str) -> None:
        """Waits for the first message of a method."""
        assert self._seen[PATHS[method]].wait(60)

    def service(self, call: Any) -> Any:
        if call.method == PATHS["OpenSession"]:
            answer = session_pb2.OpenSessionResponse(session_id=1, log_id=2)
            answer.lease.FromSeconds(60)
            return grpc.unary_unary_rpc_method_handler(lambda request, context: answer.SerializeToString())

        def nothing(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
            ended = threading.Event()
            context.add_callback(ended.set)
            next(requests, None)
            self._seen[call.method].set()
            ended.wait()
            yield from ()

        return grpc.stream_stream_rpc_method_handler(nothing)
