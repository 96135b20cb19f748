"""What is left of readers that nobody reads any more."""

import asyncio
from collections.abc import Iterator

import pytest
from silent import Silent

import strandline
from strandline import sync
from strandline.v1 import log_pb2


@pytest.fixture
def server() -> Iterator[Silent]:
    known = log_pb2.GetInfoResponse()
    known.info.id = 1
    frame = log_pb2.ReadResponse(log_id=1, end_offset=2, record_count=2)
    for offset in range(2):
        frame.records.add(offset=offset, value=b"a")
    server = Silent({"GetInfo": known, "Read": frame})
    yield server
    server.close()


def await_end(server: Silent, streams: int) -> None:
    for _ in range(streams):
        assert server.ended.acquire(timeout=30), "the stream of a reader that was left is still open"


def test_a_loop_that_is_left_ends_its_stream(server: Silent) -> None:
    async def leave() -> None:
        async with strandline.Client(server.address) as client:

            async def first() -> bytes | None:
                async for record in client.read("orders", offset=0, any_replica=True, follow=True):
                    return record.value
                return None

            async for _ in client.read("orders", offset=0, any_replica=True, follow=True):
                break
            assert await first() == b"a"
            with pytest.raises(ZeroDivisionError):
                async for record in client.read("orders", offset=0, any_replica=True, follow=True):
                    _ = 1 // record.offset
            await asyncio.to_thread(await_end, server, 3)

    asyncio.run(leave())


def test_a_loop_without_asyncio_that_is_left_ends_its_stream(server: Silent) -> None:
    with sync.Client(server.address) as client:
        for _ in client.read("orders", offset=0, any_replica=True, follow=True):
            break
        await_end(server, 1)


def test_a_reader_continues_behind_a_loop_that_was_left(server: Silent) -> None:
    async def leave() -> None:
        async with strandline.Client(server.address) as client:
            async with client.read("orders", offset=0, any_replica=True, follow=True) as records:
                async for record in records:
                    assert record.offset == 0
                    break
                following = await records.next()
                assert following is not None and following.offset == 1

    asyncio.run(leave())


@pytest.mark.parametrize("follow", [True, False])
def test_who_waits_for_a_record_hears_that_the_reader_was_closed(server: Silent, follow: bool) -> None:
    async def close() -> None:
        async with strandline.Client(server.address) as client:
            reader = client.read("orders", offset=0, any_replica=True, follow=follow)
            assert len(await reader.next_batch()) == 2
            waiting = asyncio.create_task(reader.next())
            await asyncio.sleep(0)  # it waits now
            await reader.close()
            with pytest.raises(strandline.Closed):
                await asyncio.wait_for(waiting, 30)

    asyncio.run(close())
