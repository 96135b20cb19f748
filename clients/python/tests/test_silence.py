"""A node that stands still keeps its connections: who waits for it goes to another."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator
from datetime import timedelta
from typing import Any

import pytest
from google.protobuf.message import Message
from silent import Silent

import strandline
from strandline import calls
from strandline.v1 import catalog_pb2, log_pb2, session_pb2


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "SUSPECT_AFTER", 0.1)
    monkeypatch.setattr(calls, "CONNECT_PATIENCE", 0.3)


@pytest.fixture
def still() -> Iterator[Silent]:
    server = Silent({})
    yield server
    server.close()


@pytest.fixture
def leader() -> Iterator[Silent]:
    known = log_pb2.GetInfoResponse()
    known.info.id, known.info.leader_term = 1, 2
    frame = log_pb2.ReadResponse(log_id=1, end_offset=1, record_count=1)
    frame.records.add(value=b"a")
    opened = session_pb2.OpenSessionResponse(session_id=1, log_id=1)
    opened.lease.FromSeconds(60)
    answers: dict[str, Message] = {
        "GetInfo": known,
        "Read": frame,
        "OpenSession": opened,
        "KeepSession": session_pb2.KeepSessionResponse(),
        "AcquireWriter": log_pb2.AcquireWriterResponse(writer_term=1),
        "Trim": log_pb2.TrimResponse(),
        "SetHold": log_pb2.SetHoldResponse(),
        "KeepHold": log_pb2.KeepHoldResponse(),
        "WatchInfo": log_pb2.WatchInfoResponse(),
        "WatchWriter": log_pb2.WatchWriterResponse(),
        "LeaseWriter": log_pb2.LeaseWriterResponse(writer_term=1),
        "KeepWriter": log_pb2.KeepWriterResponse(),
        "ListLogs": catalog_pb2.ListLogsResponse(),
        "CreateLog": catalog_pb2.CreateLogResponse(),
        "Digest": log_pb2.DigestResponse(digest=bytes(32)),
        "Prove": log_pb2.ProveResponse(),
    }
    server = Silent(answers)
    known.info.leader = server.address
    known.info.replicas.add(address=server.address)
    yield server
    server.close()


async def watch(client: strandline.Client) -> strandline.LogInfo:
    async with contextlib.aclosing(client.admin.watch_info("orders")) as infos:
        return await anext(infos)


async def watch_writer(client: strandline.Client) -> strandline.WriterState:
    async with contextlib.aclosing(client.admin.watch_writer("orders")) as states:
        return await anext(states)


async def prove(client: strandline.Client) -> None:
    with pytest.raises(strandline.Unproven):  # what the other node answers
        await client.prove("orders", 0, strandline.Digest(bytes(32), 1))


CALLS: dict[str, Callable[[strandline.Client], Coroutine[Any, Any, Any]]] = {
    "acquire-writer": lambda c: c.admin.acquire_writer("orders"),
    "open-session": lambda c: c.admin.open_session("orders"),
    "keep-session": lambda c: c.admin.keep_session("orders", 1),
    "producer": lambda c: c.producer("orders"),
    "info": lambda c: c.admin.info("orders"),
    "trim": lambda c: c.admin.trim("orders", 1),
    "set-hold": lambda c: c.admin.set_hold("orders", strandline.Hold("backup")),
    "keep-hold": lambda c: c.admin.keep_hold("orders", "backup"),
    "list": lambda c: c.admin.list_logs(),
    "create": lambda c: c.admin.create_log("orders"),
    "watch": watch,
    "watch-writer": watch_writer,
    "lease-writer": lambda c: c.lease_writer("orders", strandline.WriterClaim("a", timedelta(hours=1))),
    "keep-writer": lambda c: c.admin.keep_writer("orders", 1),
    "digest": lambda c: c.digest("orders"),
    "digest-known": lambda c: c.digest("orders", known=True),
    "prove": prove,
    "read": lambda c: c.read("orders", offset=0).next(),
    "read-following": lambda c: c.read("orders", offset=0, follow=True).next(),
    "read-any-replica": lambda c: c.read("orders", offset=0, any_replica=True).next(),
    "tail": lambda c: c.read("orders", tail=True, any_replica=True).open(),
}


@pytest.mark.parametrize("named", [True, False], ids=["believed to lead", "asked first"])
def test_a_node_that_stands_still_is_left(still: Silent, leader: Silent, named: bool) -> None:
    waited: list[str] = []

    async def call(what: str) -> None:
        # Each with a client of its own: none profits from what another has found out.
        async with strandline.Client([still.address, leader.address], retry_time=60) as client:
            if named:
                client._calls.peers.prefer("orders", still.address)
            try:
                await asyncio.wait_for(CALLS[what](client), 30)
            except asyncio.TimeoutError:
                waited.append(what)

    async def all_calls() -> None:
        await asyncio.gather(*(call(what) for what in CALLS))

    asyncio.run(all_calls())
    assert not waited


def test_a_stream_whose_node_stops_is_opened_elsewhere(still: Silent, leader: Silent) -> None:
    troubles: list[strandline.Error | None] = []

    async def read() -> None:
        addresses = [still.address, leader.address]
        async with strandline.Client(addresses, on_trouble=lambda _, why: troubles.append(why)) as client:
            record = await asyncio.wait_for(client.read("orders", offset=0, any_replica=True).next(), 30)
            assert record is not None and record.value == b"a"

    asyncio.run(read())
    assert [type(why) for why in troubles] == [strandline.Unreachable, type(None)]


def test_a_node_that_is_slow_and_there_is_waited_for(leader: Silent) -> None:
    """Such as one that creates a log: asking another would only begin anew."""
    slow = Silent({"GetInfo": log_pb2.GetInfoResponse()})

    async def create() -> None:
        async with strandline.Client([slow.address, leader.address], retry_time=60) as client:
            with pytest.raises(strandline.Cancelled):
                await client.admin.create_log("orders", timeout=0.8)

    asyncio.run(create())
    slow.close()


@pytest.mark.parametrize("term", [1, 2])
def test_a_leader_that_is_there_is_left_where_it_knows_of_an_older_term(leader: Silent, term: int) -> None:
    known = log_pb2.GetInfoResponse()
    slow = Silent({"GetInfo": known})
    known.info.leader, known.info.leader_term = slow.address, term

    async def acquire() -> None:
        async with strandline.Client([slow.address, leader.address], retry_time=60) as client:
            if term == 1:
                await client.admin.acquire_writer("orders", timeout=30)
                return
            with pytest.raises(strandline.Cancelled):
                await client.admin.acquire_writer("orders", timeout=0.8)

    asyncio.run(acquire())
    slow.close()


def test_a_node_that_stands_still_is_waited_for_where_no_other_answers(still: Silent) -> None:
    other = Silent({})

    async def wait() -> None:
        async with strandline.Client([still.address, other.address], retry_time=60) as client:
            with pytest.raises(strandline.Cancelled):
                await client.admin.acquire_writer("orders", timeout=1.5)

    asyncio.run(wait())
    assert not other.saw("AcquireWriter")
    other.close()
