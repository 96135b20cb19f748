"""Writer leases that are renewed, without a server: how they end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from google.protobuf.message import Message

import strandline
from strandline.v1 import log_pb2

Answers = dict[str, Callable[[], Awaitable[Message]]]


async def granted() -> Message:
    return log_pb2.LeaseWriterResponse(writer_term=7, end_offset=3, log_id=1)


async def kept() -> Message:
    return log_pb2.KeepWriterResponse()


async def released() -> Message:
    return log_pb2.ReleaseWriterResponse()


async def fenced() -> Message:
    raise strandline.Fenced("FENCED", "another has it")


def leasing(
    act: Callable[[strandline.Client, strandline.WriterLease], Awaitable[None]],
    seconds: float,
    **answers: Callable[[], Awaitable[Message]],
) -> list[str]:
    """Acts with a lease of a client that gets answers, and returns the calls that were made."""
    made: list[str] = []
    by_name: Answers = {"LeaseWriter": granted, "KeepWriter": kept, "ReleaseWriter": released, **answers}

    async def answer(log: str, method: str, *_: object, **__: object) -> Message:
        made.append(method)
        return await by_name[method]()

    async def run() -> None:
        before = asyncio.all_tasks()
        client = strandline.Client("127.0.0.1:1")
        client._calls.to_leader = answer  # type: ignore[method-assign]
        claim = strandline.WriterClaim("first", timedelta(seconds=seconds))
        lease = await client.lease_writer("orders", claim)
        assert (lease.term, lease.end, lease.ended) == (7, 3, False)
        await act(client, lease)
        await client.close()
        assert asyncio.all_tasks() == before

    asyncio.run(asyncio.wait_for(run(), 30))
    return made


def test_a_lease_ends_with_its_client() -> None:
    async def act(client: strandline.Client, lease: strandline.WriterLease) -> None:
        waiting = asyncio.ensure_future(lease.wait())
        await client.close()
        error = await waiting
        assert error is not None and error.reason == "CLOSED"

    leasing(act, 60)


def test_the_end_of_the_block_releases_a_lease_whatever_comes_of_that() -> None:
    async def unreachable() -> Message:
        raise strandline.Unreachable("UNREACHABLE", "nobody there")

    async def act(_: strandline.Client, lease: strandline.WriterLease) -> None:
        async with lease:
            pass
        assert lease.ended and lease.error is None

    for answer in (released, unreachable, fenced):
        assert leasing(act, 60, ReleaseWriter=answer)[-1] == "ReleaseWriter"


def test_a_lease_that_is_lost_says_so_and_is_not_released() -> None:
    async def act(_: strandline.Client, lease: strandline.WriterLease) -> None:
        async with lease:
            error = await lease.wait()
            assert error is not None and error.reason == "FENCED" and lease.error is error

    assert "ReleaseWriter" not in leasing(act, 60, KeepWriter=fenced)


def test_a_lease_that_is_handed_over_ends_without_an_error_whatever_a_renewal_finds_meanwhile() -> None:
    begun, seen = asyncio.Event(), asyncio.Event()
    refused = 0

    async def keep() -> Message:
        nonlocal refused
        if not begun.is_set():
            return await kept()
        refused += 1
        if refused == 2:  # by then the first has been seen
            seen.set()
        return await fenced()

    async def release() -> Message:
        begun.set()
        await seen.wait()
        return await released()

    async def act(_: strandline.Client, lease: strandline.WriterLease) -> None:
        await lease.hand_over("second")
        assert lease.ended and lease.error is None

    leasing(act, 0.3, KeepWriter=keep, ReleaseWriter=release)


def test_of_two_handovers_at_once_the_one_that_finds_the_other_does_not_end_the_lease_with_an_error() -> None:
    begun, refused = asyncio.Event(), asyncio.Event()

    async def release() -> Message:
        if begun.is_set():
            return await fenced()
        begun.set()
        await refused.wait()
        return await released()

    async def act(_: strandline.Client, lease: strandline.WriterLease) -> None:
        handed = asyncio.ensure_future(lease.hand_over("second"))
        await begun.wait()
        with pytest.raises(strandline.Fenced):
            await lease.hand_over("third")
        assert not lease.ended
        refused.set()
        await handed
        assert lease.ended and lease.error is None

    leasing(act, 60, ReleaseWriter=release)


def test_a_lease_that_was_not_released_is_asked_for_again_after_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paused: list[float] = []

    def pause() -> float:
        paused.append(0.0)
        return 0.0

    monkeypatch.setattr("strandline.writer_lease._pause", pause)

    async def act(client: strandline.Client, lease: strandline.WriterLease) -> None:
        lease = await client.lease_writer("orders", lease.claim)
        assert len(paused) == 1
        await lease.release()
        await client.lease_writer("orders", lease.claim)
        assert len(paused) == 1

    leasing(act, 60)


def test_a_handover_that_is_refused_leaves_the_lease_unless_it_had_ended() -> None:
    async def precondition() -> Message:
        raise strandline.Precondition("PRECONDITION", "nobody waits")

    async def kept_on(_: strandline.Client, lease: strandline.WriterLease) -> None:
        with pytest.raises(strandline.Precondition):
            await lease.hand_over("nobody")
        with pytest.raises(strandline.Invalid):
            await lease.hand_over("")
        assert not lease.ended

    async def ended(_: strandline.Client, lease: strandline.WriterLease) -> None:
        with pytest.raises(strandline.Fenced):
            await lease.hand_over("second")
        assert lease.ended and isinstance(lease.error, strandline.Fenced)

    leasing(kept_on, 60, ReleaseWriter=precondition)
    leasing(ended, 60, ReleaseWriter=fenced)
