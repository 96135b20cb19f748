"""What closing a client ends, each with an error of the client, and what closing a producer waits for."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from silent import Silent

import strandline
from strandline import Outcome, sync


@pytest.fixture
def server() -> Iterator[Silent]:
    server = Silent()
    yield server
    server.close()


async def append(client: strandline.Client) -> int:
    producer = await client.producer("orders", record_timeout=None)
    return await producer.append(b"a")


async def read(client: strandline.Client) -> strandline.Record | None:
    return await client.read("orders", offset=0, follow=True).next()


async def read_to_the_end(client: strandline.Client) -> strandline.Record | None:
    return await client.read("orders", offset=0, any_replica=True).next()


async def info(client: strandline.Client) -> strandline.LogInfo:
    return await client.admin.info("orders")


async def watch(client: strandline.Client) -> strandline.LogInfo:
    async with contextlib.aclosing(client.admin.watch_info("orders")) as infos:
        return await anext(infos)


CALLS: list[tuple[Callable[[strandline.Client], Coroutine[Any, Any, Any]], str]] = [
    (append, "Append"),
    (read, "GetInfo"),  # which asks for the leader
    (read_to_the_end, "Read"),
    (info, "GetInfo"),
    (watch, "WatchInfo"),
]


@pytest.mark.parametrize(("call", "method"), CALLS)
def test_a_call_says_that_its_client_was_closed(
    server: Silent, call: Callable[[strandline.Client], Coroutine[Any, Any, Any]], method: str
) -> None:
    async def close() -> None:
        client = strandline.Client(server.address)
        calling = asyncio.create_task(call(client))
        await asyncio.to_thread(server.wait, method)
        await client.close()
        with pytest.raises(strandline.Closed) as caught:
            await asyncio.wait_for(calling, 60)
        if call is append:
            assert caught.value.outcome is Outcome.MAYBE_DONE
            assert caught.value.position == strandline.Position(2, 1)

    asyncio.run(close())


def test_who_waits_for_a_connection_hears_that_the_client_was_closed() -> None:
    async def close(silent: socket.socket) -> None:
        client = strandline.Client(f"127.0.0.1:{silent.getsockname()[1]}")
        calling = asyncio.create_task(client.admin.info("orders"))
        connection, _ = await asyncio.to_thread(silent.accept)
        with connection:
            await client.close()
            with pytest.raises(strandline.Closed):
                await asyncio.wait_for(calling, 60)

    with socket.socket() as silent:  # takes connections, and says nothing
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        asyncio.run(close(silent))


@pytest.mark.skipif(
    not hasattr(asyncio.Task, "cancelling"), reason="a task does not know whether it was cancelled"
)
@pytest.mark.parametrize(("call", "method"), CALLS)
def test_a_task_that_was_cancelled_stays_so_when_its_client_is_closed(
    server: Silent, call: Callable[[strandline.Client], Coroutine[Any, Any, Any]], method: str
) -> None:
    async def close() -> None:
        client = strandline.Client(server.address)
        calling = asyncio.create_task(call(client))
        await asyncio.to_thread(server.wait, method)
        client._calls.peers.closed = True
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await client.close()

    asyncio.run(close())


def test_threads_that_wait_hear_that_the_client_was_closed(server: Silent) -> None:
    client = sync.Client(server.address)
    producer = client.producer("orders", record_timeout=None)
    with ThreadPoolExecutor() as threads:
        appending = threads.submit(producer.append, b"a")
        asking: list[Future[Any]] = [
            threads.submit(client.read("orders", offset=0, any_replica=True).next),
            threads.submit(client.admin.info, "orders"),
        ]
        for method in ("Append", "Read", "GetInfo"):
            server.wait(method)
        sent = producer.send(b"b")
        client.close()
        with pytest.raises(strandline.Closed) as caught:
            appending.result(60)
        assert caught.value.position == strandline.Position(2, 1)
        with pytest.raises(strandline.BehindFailed):
            sent.result(60)
        for one in asking:
            with pytest.raises(strandline.Closed):
                one.result(60)
    with pytest.raises(strandline.Closed):
        client.admin.info("orders")
    with pytest.raises(strandline.Closed):
        producer.send(b"c")


def test_what_is_left_when_the_event_loop_ends_is_settled(server: Silent) -> None:
    async def leave() -> asyncio.Future[int]:
        client = strandline.Client(server.address)
        producer = await client.producer("orders", record_timeout=None)
        sent = await producer.send(b"a")
        await asyncio.to_thread(server.wait, "Append")
        return sent

    error = asyncio.run(leave()).exception()
    assert isinstance(error, strandline.Closed)
    assert error.outcome is Outcome.MAYBE_DONE


def test_a_flush_waits_for_a_record_whose_future_was_cancelled(server: Silent) -> None:
    async def flush() -> None:
        async with strandline.Client(server.address) as client:
            producer = await client.producer("orders")
            sent = await producer.send(b"a")
            sent.cancel()
            with pytest.raises(strandline.Cancelled):
                await producer.flush(timeout=0.05)
            with pytest.raises(strandline.Cancelled):
                await producer.close(timeout=0.05)

    asyncio.run(flush())
