import asyncio

import pytest

from strandline.bounded import Late, bounded


def test_what_takes_too_long_is_cancelled() -> None:
    async def late() -> None:
        waiting = asyncio.ensure_future(asyncio.sleep(3600))
        with pytest.raises(Late):
            await bounded(waiting, 0.01)
        assert waiting.cancelled()
        assert await bounded(asyncio.sleep(0, "in time"), 3600) == "in time"

    asyncio.run(late())


def test_a_cancellation_that_comes_with_the_result_is_not_lost() -> None:
    async def both_at_once() -> None:
        done = asyncio.Event()
        waiting = asyncio.ensure_future(bounded(done.wait(), 3600))
        await asyncio.sleep(0.01)
        done.set()
        await asyncio.sleep(0)  # the result is there, and the waiter has not run yet
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(both_at_once())
