"""Appending: pipelined, in order, each record at most once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TypeVar

from strandline.backlog import Backlog, Interruption, ProducerOptions
from strandline.bounded import Late, bounded
from strandline.calls import Calls, within
from strandline.checks import Check
from strandline.errors import Error, Outcome, Position, closed, deadline, invalid
from strandline.records import Record, Session
from strandline.rounds import Rounds
from strandline.session import ProducerSession
from strandline.stats import Stats

T = TypeVar("T")


class Producer:
    """Appends records to one log: pipelined, in the order they were given, each at most once.

    Records gather in a request while earlier ones are in flight. When a connection breaks or another
    node becomes the leader, the requests without an answer are sent again, in order, with the same
    sequences, so that the log recognises what it has already.

    When the log refuses a request for good, that request fails and so does every record that was
    accepted after it and before the failure (BehindFailed): none slips ahead. Records accepted later go
    on in the session's next epoch. When the session itself is gone, everything without an answer is
    settled by asking the log; if that leaves a record in doubt, the producer ends.

    Made by Client.producer. It belongs to one event loop, and any number of tasks.
    """

    def __init__(self, calls: Calls, log: str, options: ProducerOptions) -> None:
        self.log = log
        self._backlog = Backlog(options)
        self._session = ProducerSession(calls, log, self._backlog)
        self._rounds = Rounds(calls, log, self._backlog, self._session)
        self._tasks: list[asyncio.Task[None]] = []

    async def _open(self) -> Producer:
        await self._session.open()
        self._tasks = [asyncio.create_task(work) for work in self._rounds.work()]
        return self

    async def __aenter__(self) -> Producer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def append(self, record: Record | bytes, *, timeout: float | None = None) -> int:
        """Appends a record and waits until it is durable. Returns its offset. When the timeout, in
        seconds, ends first the record is on its way all the same, unless the error says NOT_DONE."""
        until = None if timeout is None else time.monotonic() + timeout
        r, index = await self._backlog.add(_record(record), timeout)
        return await _result(r.futures[index], until, lambda: self._backlog.place(r, index))

    async def send(self, record: Record | bytes, *, timeout: float | None = None) -> asyncio.Future[int]:
        """Accepts a record and returns the future of its offset. It waits while as much as
        buffer_bytes is without answers; an error means that the record was not accepted."""
        r, index = await self._backlog.add(_record(record), timeout)
        return r.futures[index]

    async def append_batch(
        self,
        records: Sequence[Record | bytes],
        *,
        expected_end: int | None = None,
        atomic: bool = False,
        check: Check | None = None,
        timeout: float | None = None,
    ) -> list[int]:
        """Appends records in one request and waits until they are durable. Returns their offsets,
        which follow one another unless a part had become durable before the request was sent again.

        With expected_end they are appended only if the log ends exactly there, with all that was
        accepted before; else the error is EndMismatch. With atomic all become durable together or none.

        With check all of them are appended or none, and only if the check holds, with all that was accepted
        before. Else the error is Conflict, whose offset and key are those of a record that matches: read from
        `since` on, decide again, and check since where you have read to; or CheckTooOld, if the log cannot
        decide the check from so far back, but only from start_offset on: read up to there. In both cases
        nothing was appended. An append that was accepted and is sent again succeeds. The caller needs the
        right to read the log.
        """
        if not records:
            raise Error("INVALID", "the batch has no records")
        until = None if timeout is None else time.monotonic() + timeout
        all_records = [_record(record) for record in records]
        r = await self._backlog.add_batch(all_records, expected_end, atomic, check, timeout)
        first = asyncio.gather(*r.futures)
        return await _result(first, until, lambda: self._backlog.place(r, 0))

    async def flush(self, *, timeout: float | None = None) -> None:
        """Waits until every record accepted before has its answer, good or bad, without lingering."""
        last = self._backlog.newest()
        if last is None:
            return
        last.urgent = True
        self._backlog.wake.set()
        await within(timeout, last.settled.wait(), Outcome.MAYBE_DONE)

    async def close(self, *, timeout: float | None = None) -> None:
        """Accepts nothing more, waits for the answers that are missing and closes the session. When
        the timeout ends, what is unanswered fails; the session then stays until its lease runs out."""
        self._backlog.close()
        try:
            await self.flush(timeout=timeout)
            in_time = True
        except Error:
            in_time = False
        finally:
            self._rounds.end(Interruption(closed("producer")))
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._tasks = []
        if not in_time:
            raise deadline(Outcome.MAYBE_DONE)
        await self._session.close(timeout)

    @property
    def position(self) -> Position:
        """Where the producer stands in its session. It moves with every record that is accepted; and
        to 0 in another epoch or session when one fails, unless end_on_failure is set."""
        return self._backlog.position()

    @property
    def stats(self) -> Stats:
        """What the producer has done and is doing, as of now."""
        return self._backlog.stats()

    @property
    def session(self) -> Session | None:
        """The session now; None without one."""
        return self._backlog.session


async def _result(future: asyncio.Future[T], until: float | None, place: Callable[[], Position | None]) -> T:
    """Waits for a result; a caller that is cancelled, or has waited long enough, leaves it be."""
    left = None if until is None else until - time.monotonic()
    try:
        return await bounded(asyncio.shield(future), left)
    except Late:
        future.add_done_callback(_take_note)
        raise deadline(Outcome.MAYBE_DONE).but(position=place()) from None


def _record(record: Record | bytes) -> Record:
    if isinstance(record, Record):
        return record
    if isinstance(record, bytes):
        return Record(record)
    raise invalid(f"a record is a Record or bytes, not {type(record).__name__}")


def _take_note(future: asyncio.Future[T]) -> None:
    """Nobody waits for the result any more: an error of it is not to be reported as forgotten."""
    if not future.cancelled():
        future.exception()
