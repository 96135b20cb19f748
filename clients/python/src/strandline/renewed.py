"""What this program has for as long as it renews a lease."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from types import TracebackType
from typing import TypeVar

from strandline.calls import Calls, within
from strandline.errors import Error

R = TypeVar("R", bound="Renewed")

ENDS = ("LOG_NOT_FOUND", "LOG_REPLACED", "PERMISSION_DENIED", "UNAUTHENTICATED", "CLOSED")
"""Errors of a renewal after which there is nothing to renew, whatever is renewed."""


class Renewed:
    """A hold or a writer lease that a task renews until it ends, or until the client is closed."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._ended = asyncio.Event()
        self._error: Error | None = None
        self._renewing: asyncio.Task[None] | None = None

    async def __aenter__(self: R) -> R:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the renewals."""
        await self._stop()

    @property
    def ended(self) -> bool:
        """Whether it is known to have ended, or was released or closed: nobody renews it."""
        return self._ended.is_set()

    @property
    def error(self) -> Error | None:
        """Why it has ended. None before, and after release and close."""
        return self._error

    async def wait(self) -> Error | None:
        """Waits until it has ended, or was released or closed, and returns error."""
        await self._ended.wait()
        return self._error

    def _end(self, error: Error | None) -> None:
        if not self.ended:
            self._error = error
            self._ended.set()
            self._calls.kept.discard(self)
            if self._renewing is not None and self._renewing is not asyncio.current_task():
                self._renewing.cancel()

    async def _stop(self) -> None:
        """Ends the renewals."""
        self._end(None)
        if self._renewing is not None:
            await asyncio.wait({self._renewing})

    def _begin(
        self,
        lease: float,
        renew: Callable[[], Awaitable[object]],
        ends: Collection[str],
        *,
        after: float = 0.0,
    ) -> None:
        """Begins to renew after so many seconds, and again after each third of the lease."""
        self._renewing = asyncio.ensure_future(self._renew(lease, renew, ends, after))

    async def _renew(
        self, lease: float, renew: Callable[[], Awaitable[object]], ends: Collection[str], after: float
    ) -> None:
        await asyncio.sleep(after)
        while True:
            try:
                # A node may have to be left for its silence, and another one found that leads: it gives
                # a whole lease again.
                await within(lease, renew())
            except Error as error:
                if error.reason in ends:
                    self._lost(error)
            if self.ended:
                return
            await asyncio.sleep(lease / 3)

    def _lost(self, error: Error) -> None:
        """Ends it with what a renewal has found."""
        self._end(error)
