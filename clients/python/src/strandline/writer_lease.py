"""The writer lease of a log that the library keeps."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time

from strandline.admin import release_writer
from strandline.calls import Calls, within
from strandline.errors import Error, Fenced, invalid
from strandline.renewed import ENDS, Renewed
from strandline.v1 import log_pb2
from strandline.writers import WriterClaim, WriterGrant

_WAIT = 10.0
"""How long, in seconds, one call waits in line. Whoever has left the line for longer than it takes to call
again has lost its place."""


def _pause() -> float:
    """Lies between calls for one name: two programs that have it would take the lease, or the place in line,
    from each other as fast as they can call."""
    return random.uniform(0.1, 1)


class WriterLease(Renewed):
    """The writer lease of a log, which this program has and renews three times in each lease. Made by
    Client.lease_writer; the end of `async with` releases it, as close does.

    Its error is Fenced if the lease has ended and another program may have it; PermissionDenied or
    Unauthenticated if this program may no longer renew it."""

    def __init__(self, calls: Calls, log: str, claim: WriterClaim) -> None:
        super().__init__(calls)
        self.log, self._claim = log, claim
        self._grant: WriterGrant
        self._until = 0.0
        self._handing = 0  # handovers that are under way, which say how the lease ends

    async def _open(self) -> WriterLease:
        log_id, name = 0, (self.log, self._claim.name)
        if name in self._calls.unreleased:
            # Another program of the name may have taken the lease.
            await asyncio.sleep(_pause())
        while True:
            began = time.monotonic()
            request = self._claim._wire(self.log, log_id, _WAIT)
            answer = await self._calls.to_leader(
                self.log, "LeaseWriter", request, log_pb2.LeaseWriterResponse, in_line=True
            )
            log_id = answer.log_id
            if answer.writer_term != 0:
                break
            if time.monotonic() - began < _WAIT / 2:
                # Another program of the name has taken the place in line.
                await asyncio.sleep(_pause())
        self._grant = WriterGrant._read(answer)
        lease = self._claim.lease.total_seconds()
        self._until = began + lease
        self._calls.unreleased.add(name)
        self._calls.kept.add(self)
        # It begins at once, so that the time in line does not count against until.
        self._begin(lease, lambda: self._keep(lease), ("FENCED", *ENDS))
        return self

    async def _keep(self, lease: float) -> None:
        sent = time.monotonic()
        request = log_pb2.KeepWriterRequest(
            log=self.log, log_id=self._grant.log_id, writer_term=self._grant.term
        )
        await self._calls.to_leader(self.log, "KeepWriter", request, log_pb2.KeepWriterResponse, lease)
        self._until = sent + lease

    def _lost(self, error: Error) -> None:
        # What a renewal, or another handover, finds during a handover is the effect of that, or the next
        # renewal finds it again.
        if not (self._handing and error.reason == "FENCED"):
            self._end(error)

    @property
    def claim(self) -> WriterClaim:
        """The claim with which the lease was acquired."""
        return self._claim

    @property
    def term(self) -> int:
        """The writer term that was granted with the lease, for Client.producer: whatever this program
        believes, no record with it follows a record of a newer one."""
        return self._grant.term

    @property
    def end(self) -> int:
        """The end of the log when the term began: all records of older writers are below it."""
        return self._grant.end

    @property
    def until(self) -> float:
        """Until when the lease lasts at least, by time.monotonic: one lease after the newest renewal that
        succeeded was sent, or before this program waited in line."""
        return self._until

    async def release(self, *, timeout: float | None = None) -> None:
        """Ends the lease: the next program in line gets it at once. If it fails, it may be called again;
        the lease is no longer renewed."""
        await self._stop()
        with contextlib.suppress(Fenced):
            await within(timeout, self._release(""))

    async def hand_over(self, to: str, *, timeout: float | None = None) -> None:
        """Ends the lease in favor of the program in line that has a name. Precondition: none has it, and
        this program keeps the lease. Fenced: the lease had ended."""
        if not to:
            raise invalid("a handover must name the next holder; release ends the lease without one")
        try:
            await within(timeout, self._hand(to))
        except Fenced as error:
            self._lost(error)
            raise
        finally:
            if self.ended:
                await self._stop()

    async def _hand(self, to: str) -> None:
        self._handing += 1
        try:
            await self._release(to)
            self._end(None)
        finally:
            self._handing -= 1

    async def _release(self, to: str) -> None:
        request = log_pb2.ReleaseWriterRequest(
            log=self.log, log_id=self._grant.log_id, writer_term=self._grant.term, to=to
        )
        await release_writer(self._calls, request)
        self._calls.unreleased.discard((self.log, self._claim.name))

    async def close(self) -> None:
        """Releases the lease, in the time of one lease. If that fails, the lease ends when it runs out."""
        if self.ended:
            await self._stop()
            return
        with contextlib.suppress(Error):
            await self.release(timeout=self._claim.lease.total_seconds())
