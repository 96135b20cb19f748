"""Holds that are renewed, without a server: what their end does."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

import strandline
from strandline.kept_hold import KeptHold
from strandline.v1 import log_pb2


def test_a_hold_ends_with_its_client() -> None:
    async def run() -> None:
        client = strandline.Client("127.0.0.1:1")

        async def answer(*_: object) -> log_pb2.SetHoldResponse:
            return log_pb2.SetHoldResponse(offset=7, log_id=3)

        client._calls.to_leader = answer  # type: ignore[assignment, method-assign]
        kept = await client.hold("orders", strandline.Hold("view", lease=timedelta(seconds=3)))
        assert isinstance(kept, KeptHold) and kept.hold.offset == 7 and not kept.ended
        waiting = asyncio.ensure_future(kept.wait())
        await client.close()
        error = await waiting
        assert error is not None and error.reason == "CLOSED"
        with pytest.raises(strandline.Closed):
            await kept.move(8)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())
