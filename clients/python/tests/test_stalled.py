"""What a reader holds that is not read from."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from silent import Silent

import strandline
from strandline import reader
from strandline.calls import PATHS
from strandline.records import _read
from strandline.v1 import log_pb2

FRAME = 1 << 20
MOST = 9
"""A window of four frames, another that has been opened while a read was fast, and one that is being sent."""


class Pushes(grpc.GenericRpcHandler):  # type: ignore[misc]
    """A server that sends frames of a mebibyte as fast as they are taken."""

    def __init__(self) -> None:
        self.sent, self.given = 0, 0
        self.too_much = threading.Event()
        self._server = grpc.server(ThreadPoolExecutor(8), handlers=[self])
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def close(self) -> None:
        self._server.stop(0).wait()

    def service(self, call: Any) -> Any:
        def frames(_: Any, context: grpc.ServicerContext) -> Iterator[bytes]:
            if call.method == PATHS["GetInfo"]:
                yield log_pb2.GetInfoResponse().SerializeToString()
                return
            while context.is_active():
                frame = log_pb2.ReadResponse(
                    log_id=1, first_offset=self.sent, end_offset=1 << 40, record_count=1
                )
                frame.records.add(offset=self.sent, value=bytes(FRAME))
                yield frame.SerializeToString()
                self.sent += 1
                if self.sent - self.given > MOST:
                    self.too_much.set()

        return grpc.unary_stream_rpc_method_handler(frames)


def test_a_reader_that_is_not_read_from_holds_little() -> None:
    server = Pushes()

    async def read() -> None:
        async with strandline.Client(server.address) as client:
            reader = client.read("orders", offset=0)
            # Fast, which is when a window would grow; then not at all.
            for _ in range(200):
                assert await reader.next() is not None
                server.given += 1
            ahead = await asyncio.to_thread(server.too_much.wait, 0.2)
            assert not ahead, f"{server.sent - server.given} MiB are on their way"
            await reader.close()

    asyncio.run(read())
    server.close()


def test_records_are_made_when_they_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a frame of small records take several times its bytes."""
    frame = log_pb2.ReadResponse(log_id=1, first_offset=2, end_offset=9, record_count=5)
    for offset in range(2, 7):
        frame.records.add(offset=offset, value=b"%d" % offset)
    server = Silent({"GetInfo": log_pb2.GetInfoResponse(), "Read": frame})
    made: list[int] = []

    def note(r: log_pb2.Record) -> strandline.Record:
        made.append(r.offset)
        return _read(r)

    monkeypatch.setattr(reader, "_read", note)

    async def read() -> None:
        async with strandline.Client(server.address) as client:
            records = client.read("orders", offset=3, until_offset=6)
            first = await records.next()
            assert first is not None and (first.offset, first.value) == (3, b"3")
            assert made == [3]
            assert [r.offset for r in await records.next_batch()] == [4, 5]
            assert await records.next() is None
            await records.close()

    asyncio.run(read())
    server.close()
