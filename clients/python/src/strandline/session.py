"""The session of a producer, which places its records."""

from __future__ import annotations

import time

from strandline.admin import Admin
from strandline.backlog import Backlog
from strandline.calls import Calls, within
from strandline.errors import Error, Outcome
from strandline.records import Session


class ProducerSession:
    def __init__(self, calls: Calls, log: str, backlog: Backlog) -> None:
        self._calls, self._log, self._backlog = calls, log, backlog
        self._admin = Admin(calls)
        self._renewed = float("-inf")  # when a node last renewed the lease

    async def open(self) -> None:
        """Finds the log and begins its session. The outcome of an error is always NOT_DONE: a session
        that was opened without an answer ends with its lease."""
        b, o = self._backlog, self._backlog.options
        try:
            if not o.session:
                info = await self._admin.info(self._log)
                b.log_id = info.id
                self._calls.peers.prefer(self._log, info.leader)
            elif o.resume is not None and o.resume.session:
                at = o.resume
                await self._admin.keep_session(self._log, at.session, log_id=at.log_id)
                b.session = Session(at.session, at.epoch, o.lease, at.log_id)
                b.log_id, b.next = at.log_id, at.next
            else:
                log_id = o.resume.log_id if o.resume else 0
                b.session = await self._admin.open_session(self._log, lease=o.lease, log_id=log_id)
                b.log_id = b.session.log_id
        except Error as error:
            raise error.but(outcome=Outcome.NOT_DONE) from None

    async def reopen(self) -> None:
        """Opens a session if there is none."""
        b = self._backlog
        if b.session is None and b.options.session:
            b.session = await self._admin.open_session(self._log, lease=b.options.lease, log_id=b.log_id)
            b.next, b.last_sign = 0, time.monotonic()

    async def keep(self) -> Error | None:
        """Renews the lease if a third of it has passed without an answer. An error is about the
        session that the producer has now."""
        b, session, now = self._backlog, self._backlog.session, time.monotonic()
        lease = b.options.lease
        if session is None or now - max(b.last_sign, self._renewed) <= lease / 3:
            return None
        try:
            # A node may have to be left for its silence, and another one found that leads: it gives a
            # whole lease again.
            await within(lease, self._admin._renew_session(self._log, session, lease))
        except Error as error:
            return error if b.session is not None and b.session.id == session.id else None
        self._renewed = now  # perhaps by another node than the one that has the requests
        return None

    def forget(self) -> Session | None:
        """Ends the producer's part in its session: the next round opens a new one."""
        forgotten, self._backlog.session, self._backlog.next = self._backlog.session, None, 0
        return forgotten

    async def close(self, timeout: float | None) -> None:
        session = self.forget()
        if session is not None:
            await self._admin.close_session(self._log, session.id, log_id=session.log_id, timeout=timeout)
