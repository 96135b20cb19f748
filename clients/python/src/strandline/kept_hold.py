"""Holds that the library keeps."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from strandline.admin import hold_request
from strandline.calls import Calls, within
from strandline.errors import HoldNotFound, Outcome, closed
from strandline.holds import Hold
from strandline.renewed import ENDS, Renewed
from strandline.v1 import log_pb2


class KeptHold(Renewed):
    """A hold that this program has set and, if it has a lease, renews after each third of it until release
    or close: a program that dies keeps nothing for longer than the lease. Made by Client.hold; the end of
    `async with` closes it.

    Its error is HoldNotFound if it has expired, or was broken or released by others; PermissionDenied or
    Unauthenticated if this program may not renew it any more, so that it ends with its lease."""

    def __init__(self, calls: Calls, log: str, hold: Hold) -> None:
        super().__init__(calls)
        self.log, self._hold = log, hold
        self._log_id = 0
        self._turn = asyncio.Lock()  # one move at a time

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
            lease = self._hold.lease.total_seconds()
            request = log_pb2.KeepHoldRequest(log=self.log, log_id=self._log_id, name=self._hold.name)
            self._begin(
                lease,
                lambda: self._calls.to_leader(self.log, "KeepHold", request, log_pb2.KeepHoldResponse, lease),
                ("HOLD_NOT_FOUND", *ENDS),
                after=lease / 3,
            )
        return self

    @property
    def hold(self) -> Hold:
        """The hold as it was set or moved last."""
        return self._hold

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
        await self._stop()
