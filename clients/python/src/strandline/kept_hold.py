"""Holds that the library keeps."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import TracebackType

from strandline.admin import hold_request
from strandline.calls import Calls, within
from strandline.errors import Error, HoldNotFound, Outcome, closed
from strandline.holds import Hold
from strandline.v1 import log_pb2

_ENDS = (
    "HOLD_NOT_FOUND",
    "LOG_NOT_FOUND",
    "LOG_REPLACED",
    "PERMISSION_DENIED",
    "UNAUTHENTICATED",
    "CLOSED",
)
"""Errors of a renewal after which there is nothing to renew."""


class KeptHold:
    """A hold that this program has set and, if it has a lease, renews after each third of it until release
    or close: a program that dies keeps nothing for longer than the lease. Made by Client.hold; the end of
    `async with` closes it."""

    def __init__(self, calls: Calls, log: str, hold: Hold) -> None:
        self._calls, self.log, self._hold = calls, log, hold
        self._log_id = 0
        self._turn = asyncio.Lock()  # one move at a time
        self._ended = asyncio.Event()
        self._error: Error | None = None
        self._renewing: asyncio.Task[None] | None = None

    async def _set(self, hold: Hold, position: log_pb2.ReadPosition | None = None) -> Hold:
        request = hold_request(self.log, hold, position)
        request.log_id = self._log_id
        answer = await self._calls.to_leader(self.log, "SetHold", request, log_pb2.SetHoldResponse)
        self._log_id = answer.log_id
        return replace(hold, offset=answer.offset)

    async def _open(self, position: log_pb2.ReadPosition | None) -> KeptHold:
        self._hold = await self._set(self._hold, position)
        self._calls.kept.add(self)
        if self._hold.lease is not None:
            self._renewing = asyncio.ensure_future(self._renew(self._hold.lease.total_seconds()))
        return self

    async def __aenter__(self) -> KeptHold:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def hold(self) -> Hold:
        """The hold as it was set or moved last."""
        return self._hold

    @property
    def ended(self) -> bool:
        """Whether the hold is known to have ended, or was released or closed: nobody renews it."""
        return self._ended.is_set()

    @property
    def error(self) -> Error | None:
        """Why it has ended: HoldNotFound if it has expired, or was broken or released by others;
        PermissionDenied or Unauthenticated if this program may not renew it any more, so that it ends with
        its lease. None before, and after release and close."""
        return self._error

    async def wait(self) -> Error | None:
        """Waits until it has ended, or was released or closed, and returns error."""
        await self._ended.wait()
        return self._error

    async def move(self, offset: int, pointer: bytes = b"", *, timeout: float | None = None) -> None:
        """Puts the hold at another offset with another pointer, in one step: what is below may go from then
        on. Once it has ended this fails with error, or with Closed after release and close. Client.hold sets
        such a hold anew, if the records from its offset on are still there."""
        await within(timeout, self._move(offset, pointer))

    async def _move(self, offset: int, pointer: bytes) -> None:
        async with self._turn:
            self._check()
            moved = await self._set(replace(self._hold, offset=offset, pointer=pointer))
            self._check()  # or else what was set just now would expire
            self._hold = moved

    def _check(self) -> None:
        if self.ended:
            raise self._error.but() if self._error else closed("hold", Outcome.NOT_DONE)

    async def release(self, *, timeout: float | None = None) -> None:
        """Ends the hold. If it fails, it may be called again; the lease is renewed no more."""
        await self.close()
        request = log_pb2.ReleaseHoldRequest(log=self.log, log_id=self._log_id, name=self._hold.name)
        made = self._calls.to_leader(self.log, "ReleaseHold", request, log_pb2.ReleaseHoldResponse)
        try:
            await within(timeout, made)
        except HoldNotFound:
            pass

    async def close(self) -> None:
        """Ends the renewals and leaves the hold as it is: it ends with its lease, if it has one."""
        self._end(None)
        if self._renewing is not None:
            await asyncio.wait({self._renewing})

    def _end(self, error: Error | None) -> None:
        if not self.ended:
            self._error = error
            self._ended.set()
            self._calls.kept.discard(self)
            if self._renewing is not None and self._renewing is not asyncio.current_task():
                self._renewing.cancel()

    async def _renew(self, lease: float) -> None:
        request = log_pb2.KeepHoldRequest(log=self.log, log_id=self._log_id, name=self._hold.name)
        while True:
            await asyncio.sleep(lease / 3)
            made = self._calls.to_leader(self.log, "KeepHold", request, log_pb2.KeepHoldResponse, lease)
            try:
                # A node may have to be left for its silence, and another one found that leads: it gives
                # a whole lease again.
                await within(lease, made)
            except Error as error:
                if error.reason in _ENDS:
                    self._end(error)
                    return
