"""Appends or reads for `strandline bench`: bench/driver says what goes through standard input and output.

bench.py append|read ADDRESSES LOG OPTIONS"""

from __future__ import annotations

import asyncio
import json
import os
import struct
import sys
from typing import Any

import strandline

_CHUNK = 1 << 20


def write(out: bytes) -> None:
    while out:
        out = out[os.write(1, out) :]


async def append(client: strandline.Client, log: str, o: dict[str, Any]) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_CHUNK)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    answers = bytearray()

    def write_answers() -> None:
        out = bytes(answers)
        answers.clear()
        write(out)

    def answered(future: asyncio.Future[int]) -> None:
        if not answers:
            loop.call_soon(write_answers)  # with those that come in the same turn of the loop
        error = future.exception()
        answers.append(0 if error is None else 1)
        if error is not None:
            print(error, file=sys.stderr)

    limits = {"max_request_bytes": o["request_bytes"], "buffer_bytes": o["buffer_bytes"]}
    async with await client.producer(
        log,
        session=not o["no_session"],
        linger=o["linger_ms"] / 1000,
        max_in_flight=o["in_flight"] or None,
        **{name: value for name, value in limits.items() if value},
    ) as producer:
        write(b"\0")  # ready
        rest = b""
        while data := await reader.read(_CHUNK):
            data, at = rest + data, 0
            while len(data) - at >= 4:
                end = at + 4 + int.from_bytes(data[at : at + 4], "big")
                if end > len(data):
                    break
                (await producer.send(data[at + 4 : end])).add_done_callback(answered)
                at = end
            rest = data[at:]
        await producer.flush()
        write_answers()


async def read(client: strandline.Client, log: str, o: dict[str, Any]) -> None:
    records = client.read(log, offset=o["offset"], until_offset=o["until_offset"], follow=o["follow"])
    while batch := await records.next_batch():
        write(struct.pack(">II", len(batch), sum(len(r.value or b"") for r in batch)))


async def main() -> None:
    verb, addresses, log, options = sys.argv[1:]
    async with strandline.Client(addresses.split(",")) as client:
        await {"append": append, "read": read}[verb](client, log, json.loads(options))


if __name__ == "__main__":
    asyncio.run(main())
