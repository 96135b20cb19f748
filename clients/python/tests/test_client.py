"""What needs no server. Everything else is in the scenarios, which the runner beside this plays."""

import asyncio
import socket
import threading
from collections.abc import AsyncGenerator

import pytest

import strandline
from strandline import sync


def nobody() -> str:
    """An address where nothing listens."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{s.getsockname()[1]}"


def test_addresses_other_than_loopback_need_to_be_allowed() -> None:
    for address in ("192.0.2.1:7171", "example.org:7171", "no address", "127.0.0.1", "127.0.0.1:x"):
        with pytest.raises(strandline.Invalid):
            sync.Client(address)
    sync.Client("192.0.2.1:7171", insecure=True).close()
    sync.Client("[::1]:7171").close()


def test_a_watch_may_be_dropped_after_its_client_was_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def infos(log: str, interval: float | None) -> AsyncGenerator[str, None]:
        yield log

    client = sync.Client("127.0.0.1:1")
    monkeypatch.setattr(client.admin._admin, "watch_info", infos)
    watch = client.admin.watch_info("orders")
    assert str(next(iter(watch))) == "orders"
    client.close()
    watch.close()  # type: ignore[attr-defined]


def test_a_client_that_finds_nobody_says_so_in_time_and_leaves_nothing() -> None:
    async def look() -> None:
        before = asyncio.all_tasks()
        async with strandline.Client([nobody(), nobody()], retry_time=0.2) as client:
            with pytest.raises(strandline.Unreachable) as caught:
                await client.producer("orders")
            assert caught.value.outcome is strandline.Outcome.NOT_DONE
            with pytest.raises(strandline.Unreachable):
                await client.read("orders").next()
        assert asyncio.all_tasks() == before

    asyncio.run(look())


def test_a_closed_client_says_so() -> None:
    client = sync.Client(nobody())
    client.close()
    client.close()
    assert not [t for t in threading.enumerate() if t.name == "strandline"]

    async def closed() -> None:
        client = strandline.Client(nobody())
        await client.close()
        with pytest.raises(strandline.Closed):
            await client.admin.info("orders")

    asyncio.run(closed())


def test_a_deadline_bounds_a_call() -> None:
    with socket.socket() as silent:  # takes connections, and says nothing
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with sync.Client(f"127.0.0.1:{silent.getsockname()[1]}") as client:
            with pytest.raises(strandline.Cancelled):
                client.admin.info("orders", timeout=0.2)


def test_options_that_make_no_sense_are_refused() -> None:
    with sync.Client(nobody()) as client:
        for wrong in (
            {"offset": -1},
            {"offset": 1, "tail": True},
            {"max_staleness": 0.0},
            {"prefer_follower": True, "nearest": "dc=syd"},
        ):
            with pytest.raises(strandline.Invalid):
                client.read("orders", **wrong)
        for bad in (
            {"buffer_bytes": 0},
            {"linger": -1},
            {"session": False, "resume": strandline.Position(1, 1)},
        ):
            with pytest.raises(strandline.Invalid):
                client.producer("orders", **bad)
