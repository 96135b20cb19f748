"""Waiting with a bound."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class Late(Exception):
    """The time has passed."""


async def bounded(doing: Awaitable[T], seconds: float | None) -> T:
    """Waits for so long, then cancels it and raises Late. asyncio.wait_for, before Python 3.12, loses
    a cancellation of the caller that comes together with the result; then a task that was to end goes
    on."""
    if seconds is None:
        return await doing
    task = asyncio.ensure_future(doing)
    try:
        done, _ = await asyncio.wait({task}, timeout=max(seconds, 0))
    except asyncio.CancelledError:
        await _end(task)
        raise
    if not done:
        await _end(task)
        raise Late
    return task.result()


async def _end(task: asyncio.Future[T]) -> None:
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()  # nobody else asks for it
