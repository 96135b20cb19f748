import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

import strandline
from strandline.backlog import Backlog, ProducerOptions
from strandline.records import OVERHEAD, Record
from strandline.window import Request


@pytest.mark.parametrize(
    "wrong",
    [
        {"value": bytearray(b"x")},
        {"value": memoryview(b"x")},
        {"value": "x"},
        {"value": 1},
        {"key": "x"},
        {"headers": [("name", "x")]},
        {"headers": [("\ud800", b"x")]},
        {"timestamp": 1},
    ],
)
def test_a_record_that_cannot_be_encoded_leaves_nothing_in_the_request(wrong: dict[str, Any]) -> None:
    async def add() -> None:
        backlog = Backlog(ProducerOptions())
        await backlog.add(Record(b"a"), None)
        with pytest.raises(strandline.Invalid) as caught:
            await backlog.add(Record(**wrong), None)
        assert caught.value.outcome is strandline.Outcome.NOT_DONE
        with pytest.raises(strandline.Invalid):
            await backlog.add_batch([Record(b"x"), Record(**wrong)], None, False, None, None)
        request, index = await backlog.add(Record(b"b"), None)
        assert [record.value for record in request.message.records] == [b"a", b"b"]
        assert (request.count, index) == (2, 1)
        assert backlog.position().next == 2

    asyncio.run(add())


VALUE = 1000 - OVERHEAD


def small_backlog() -> Backlog:
    """A backlog with room for two records of VALUE bytes."""
    return Backlog(ProducerOptions(max_request_bytes=2000, buffer_bytes=2000))


async def begun(adding: Coroutine[Any, Any, tuple[Request, int]]) -> asyncio.Task[tuple[Request, int]]:
    task = asyncio.create_task(adding)
    for _ in range(5):
        await asyncio.sleep(0)
    return task


def accepted(backlog: Backlog) -> list[str]:
    """Of what was accepted and not sent, how each record begins."""
    requests = [*backlog.queue, *([backlog.forming] if backlog.forming else ())]
    return [record.value[:1].decode() for request in requests for record in request.message.records]


@pytest.mark.parametrize("timeout", [None, 3600.0])
def test_who_waits_for_room_is_not_overtaken(timeout: float | None) -> None:
    async def add() -> None:
        backlog = small_backlog()
        await backlog.add(Record(b"a" * (2 * VALUE)), None)
        backlog.close_batch()
        large = await begun(backlog.add(Record(b"b" * VALUE), timeout))
        # In the same turn of the loop as the room comes back, before the one that waited can run.
        backlog.leave()
        await backlog.add(Record(b"c"), None)
        await large
        assert accepted(backlog) == ["b", "c"]

    asyncio.run(add())


@pytest.mark.parametrize("timeout", [None, 3600.0])
def test_what_waits_stays_within_the_bound(timeout: float | None) -> None:
    async def add() -> None:
        backlog = small_backlog()
        await backlog.add(Record(b"a" * (2 * VALUE)), None)
        backlog.close_batch()
        waiting = [await begun(backlog.add(Record(v * VALUE), timeout)) for v in (b"b", b"c", b"d", b"e")]
        backlog.leave()
        late = await begun(backlog.add(Record(b"f" * VALUE), timeout))
        assert accepted(backlog) == ["b", "c"]
        backlog.close()
        results = await asyncio.gather(*waiting, late, return_exceptions=True)
        assert [isinstance(r, strandline.Closed) for r in results] == [False, False, True, True, True]

    asyncio.run(add())


@pytest.mark.parametrize("timeout", [None, 2.0])
def test_who_gives_up_waiting_for_room_keeps_nobody_from_it(timeout: float | None) -> None:
    async def add() -> None:
        backlog = small_backlog()
        await backlog.add(Record(b"a" * VALUE), None)
        backlog.close_batch()
        large = await begun(backlog.add(Record(b"b" * (2 * VALUE)), timeout))
        small = await begun(backlog.add(Record(b"c"), None))
        assert accepted(backlog) == []
        if timeout is None:
            large.cancel()
        with pytest.raises((asyncio.CancelledError, strandline.Cancelled)):
            await large
        await asyncio.wait_for(small, 60)
        assert accepted(backlog) == ["c"]

    asyncio.run(add())
