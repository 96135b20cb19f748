"""Appends what comes on standard input, for `strandline bench`: each record is four bytes of length,
big endian, and its value. For each, in order, one byte goes to standard output: 0, appended; 1, it failed,
and standard error says why.

    appender.py ADDRESSES LOG OPTIONS

OPTIONS are a JSON object of arguments of Client.producer."""

from __future__ import annotations

import asyncio
import json
import os
import sys

import strandline

_CHUNK = 1 << 20


async def append(reader: asyncio.StreamReader) -> None:
    addresses, log, options = sys.argv[1].split(","), sys.argv[2], json.loads(sys.argv[3])
    loop = asyncio.get_running_loop()
    answers = bytearray()

    def write() -> None:
        out = bytes(answers)
        answers.clear()
        while out:
            out = out[os.write(1, out) :]

    def answered(future: asyncio.Future[int]) -> None:
        if not answers:
            loop.call_soon(write)  # with those that come in the same turn of the loop
        error = future.exception()
        answers.append(0 if error is None else 1)
        if error is not None:
            print(error, file=sys.stderr)

    async with (
        strandline.Client(addresses) as client,
        await client.producer(log, **options) as producer,
    ):
        os.write(1, b"\0")  # ready
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
        write()


async def main() -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_CHUNK)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await append(reader)


if __name__ == "__main__":
    asyncio.run(main())
