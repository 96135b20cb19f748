"""A server that opens sessions, and otherwise takes everything and answers nothing but what it is told."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from google.protobuf.message import Message

from strandline.calls import PATHS
from strandline.v1 import session_pb2


class Silent(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(
        self,
        answers: Mapping[str, Message] | None = None,
        credentials: grpc.ServerCredentials | None = None,
    ) -> None:
        """answers are the first of each method; a stream is silent behind it."""
        opened = session_pb2.OpenSessionResponse(session_id=1, log_id=2)
        opened.lease.FromSeconds(60)
        told = {"OpenSession": opened} if answers is None else answers
        self._answers = {PATHS[method]: answer for method, answer in told.items()}
        self._seen: dict[str, threading.Event] = {path: threading.Event() for path in PATHS.values()}
        self.ended = threading.Semaphore(0)  # released by each stream of records that is over
        self._server = grpc.server(ThreadPoolExecutor(32), handlers=[self])
        if credentials is None:
            port = self._server.add_insecure_port("127.0.0.1:0")
        else:
            port = self._server.add_secure_port("127.0.0.1:0", credentials)
        self.address = f"127.0.0.1:{port}"
        self._server.start()

    def close(self) -> None:
        self._server.stop(0).wait()

    def wait(self, method: str) -> None:
        """Waits for the first message of a method."""
        assert self._seen[PATHS[method]].wait(60)

    def saw(self, method: str) -> bool:
        """Whether a message of a method has come."""
        return self._seen[PATHS[method]].is_set()

    def service(self, call: Any) -> Any:
        answer = self._answers.get(call.method)

        def one(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
            ended = threading.Event()
            context.add_callback(ended.set)
            if call.method == PATHS["Read"]:
                context.add_callback(self.ended.release)
            next(requests, None)
            self._seen[call.method].set()
            if answer is not None:
                yield answer.SerializeToString()
            if answer is None or call.method in (
                PATHS["Read"],
                PATHS["Append"],
                PATHS["WatchInfo"],
                PATHS["WatchWriter"],
            ):
                ended.wait()

        return grpc.stream_stream_rpc_method_handler(one)
