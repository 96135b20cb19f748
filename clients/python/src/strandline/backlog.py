"""What a producer has accepted and has no answer for."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from strandline.bounded import Late, bounded
from strandline.checks import Check
from strandline.errors import Error, Outcome, Position, behind, closed, deadline, time_span, whole
from strandline.records import MAX_RECORD_BYTES, OVERHEAD, Record, Session
from strandline.stats import Stats
from strandline.v1 import log_pb2
from strandline.window import Request, State, Window

T = TypeVar("T")


@dataclass(frozen=True)
class ProducerOptions:
    """How a producer sends: see Client.producer."""

    max_in_flight: int | None = None
    max_in_flight_bytes: int | None = None
    max_request_bytes: int = 1 << 20
    buffer_bytes: int = 64 << 20
    linger: float = 0.0
    lease: float = 60.0
    writer_term: int = 0
    session: bool = True
    resume: Position | None = None
    end_on_failure: bool = False
    record_timeout: float | None = 30.0

    def check(self) -> None:
        for name in ("max_request_bytes", "buffer_bytes", "max_in_flight", "max_in_flight_bytes"):
            value = getattr(self, name)
            if value is not None:
                whole(name, value)
                if value == 0:
                    raise Error("INVALID", f"{name} is 0, and has to be positive")
        time_span("linger", self.linger, zero=True)
        time_span("lease", self.lease)
        if self.record_timeout is not None:
            time_span("record_timeout", self.record_timeout)
        whole("writer_term", self.writer_term, 64)
        if self.resume is not None:
            for name, bits in (("log_id", 64), ("session", 64), ("epoch", 32), ("next", 64)):
                whole(f"{name} of the position to resume", getattr(self.resume, name), bits)
        if not self.session and self.resume is not None:
            raise Error("INVALID", "a producer without a session cannot resume one")


@dataclass(frozen=True)
class Interruption:
    """Why a stream ended or must end."""

    error: Error
    refused: Request | None = None  # whose answer it was


class Backlog:
    """Requests from the one that is forming to those in flight, and the session that numbers them."""

    def __init__(self, options: ProducerOptions) -> None:
        self.options = options
        self.window = Window(options.max_in_flight, options.max_in_flight_bytes)
        self.forming: Request | None = None  # takes records
        self.queue: deque[Request] = deque()  # full, not sent yet; oldest first
        self.ended: Error | None = None  # why nothing is accepted any more
        self.wake = asyncio.Event()  # there is something to look at for who sends
        self.session: Session | None = None
        self.next = 0  # sequence of the next record of a batch to be closed
        self.log_id = 0
        self.last_sign = time.monotonic()
        self._request_bytes = min(options.max_request_bytes, options.buffer_bytes, MAX_RECORD_BYTES)
        self._buffered = 0
        self.counts = Stats()  # what only grows
        self._waiting: deque[tuple[int, asyncio.Future[Any], Callable[[], Any]]] = deque()  # for room

    async def add(self, record: Record, timeout: float | None) -> tuple[Request, int]:
        """Puts a record into a request, and returns that and the record's place in it."""
        wire, size = _encoded(record)
        _check_size(size)

        def accept() -> tuple[Request, int]:
            r = self.forming
            if r is not None and r.size + size > self._request_bytes:
                self.queue.append(r)
                r = None
            if r is None:
                r = self.forming = Request(time.monotonic())
            self._put(wire, size, r)
            return r, r.count - 1

        return await self._accepted(size, accept, timeout)

    async def add_batch(
        self,
        records: Sequence[Record],
        expected_end: int | None,
        atomic: bool,
        check: Check | None,
        timeout: float | None,
    ) -> Request:
        """Makes a request out of all records, behind what was accepted before."""
        if expected_end is not None:
            whole("expected_end", expected_end)
        r = Request(time.monotonic())
        if check is not None:
            check._write(r.message.checked)
        for record in records:
            self._put(*_encoded(record), r)
        _check_size(r.size, r.count)
        if expected_end is not None:
            r.message.expected_end = expected_end
        r.message.atomic = atomic

        def accept() -> Request:
            if self.forming is not None:
                self.queue.append(self.forming)
                self.forming = None
            self.queue.append(r)
            return r

        return await self._accepted(r.size, accept, timeout)

    def _put(self, record: log_pb2.Record, size: int, r: Request) -> None:
        m = r.message
        (m.checked if m.HasField("checked") else m).records.append(record)
        r.futures.append(asyncio.get_running_loop().create_future())
        r.size += size

    def _has_room(self, size: int) -> bool:
        return self._buffered == 0 or self._buffered + size <= self.options.buffer_bytes

    async def _accepted(self, size: int, accept: Callable[[], T], timeout: float | None) -> T:
        """Accepts records once there is room for them: first come, first served."""
        if self.ended is not None:
            raise self.ended.but()
        if not self._waiting and self._has_room(size):
            return self._take_room(size, accept)
        accepted: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, accepted, accept))
        try:
            return await bounded(accepted, timeout)
        except Late:
            raise deadline(Outcome.NOT_DONE) from None
        finally:
            self._admit()  # what is behind one that was given up may be smaller

    def _take_room(self, size: int, accept: Callable[[], T]) -> T:
        self._buffered += size
        self.wake.set()
        return accept()

    def _admit(self) -> None:
        """Accepts what waits and has room. It does not leave that to the tasks that wait: others that
        run before them would overtake."""
        while self._waiting:
            size, accepted, accept = self._waiting[0]
            if not accepted.done():
                if self.ended is not None:
                    accepted.set_exception(self.ended.but())
                elif self._has_room(size):
                    accepted.set_result(self._take_room(size, accept))
                else:
                    return
            self._waiting.popleft()

    def _release(self, r: Request) -> None:
        self._buffered -= r.size
        self._admit()

    def candidate(self) -> Request | None:
        """The oldest request that is not in the window."""
        return self.queue[0] if self.queue else self.forming

    def newest(self) -> Request | None:
        """The request that was accepted last."""
        if self.forming is not None:
            return self.forming
        if self.queue:
            return self.queue[-1]
        return self.window.flight[-1] if self.window.flight else None

    def oldest(self) -> Request | None:
        """The request that has waited longest for its answer."""
        waiting = (r for r in self.window.flight if r.state is not State.FAILED)
        return next(waiting, self.candidate())

    def overdue(self, now: float) -> bool:
        """Whether the oldest request has waited too long for its answer."""
        timeout, oldest = self.options.record_timeout, self.oldest()
        return timeout is not None and oldest is not None and now - oldest.accepted > timeout

    def close_batch(self) -> Request:
        """Moves the candidate into the window and numbers its records."""
        if self.queue:
            r = self.queue.popleft()
        else:
            assert self.forming is not None
            r, self.forming = self.forming, None
        r.state = State.IN_FLIGHT
        if self.session is not None:
            r.session, r.epoch, r.first = self.session.id, self.session.epoch, self.next
            self.next += r.count
        self.window.push(r)
        return r

    def leave(self) -> None:
        """Takes the oldest request in flight out of the window."""
        r = self.window.pop()
        self.last_sign = time.monotonic()
        if r.state is not State.FAILED:
            self._release(r)
        self.wake.set()

    def settle(self, r: Request, offsets: Sequence[int]) -> None:
        """Gives the records of a request their offsets."""
        self.counts._appended(r.count, r.size, time.monotonic() - r.sent)
        for future, offset in zip(r.futures, offsets, strict=True):
            if not future.done():
                future.set_result(offset)
        r.settled.set()

    def settle_error(self, r: Request, error: Error) -> None:
        """Gives the records of a request an error. One in doubt gets its place for Admin.resolve."""
        self.counts.failed += r.count
        for index, future in enumerate(r.futures):
            if not future.done():
                future.set_exception(self.in_doubt(r, index, error))
        r.settled.set()

    def in_doubt(self, r: Request, index: int, error: Error) -> Error:
        if error.outcome != Outcome.MAYBE_DONE:
            return error.but()
        return error.but(position=self.place(r, index))

    def place(self, r: Request, index: int) -> Position | None:
        """Where a record stands in its session."""
        if r.state is not State.ACCEPTED:
            return Position(self.log_id, r.session, r.epoch, r.first + index) if r.session else None
        at = self.position(r)
        return Position(at.log_id, at.session, at.epoch, at.next + index) if at.session else None

    def position(self, before: Request | None = None) -> Position:
        """Where the next record stands that will be accepted, or the first one of a request that has
        not been sealed."""
        at = self.next
        for r in (*self.queue, *([self.forming] if self.forming else ())):
            if r is before:
                break
            at += r.count
        session = self.session or Session(0, 0, 0, 0)
        return Position(self.log_id, session.id, session.epoch, at)

    def continue_or_fail(self, i: Interruption) -> None:
        """Keeps what was accepted behind an interruption that leaves nothing that was sent without a
        result: what was refused is in the log by an earlier sending, or it was the session that ended.
        It goes to the next epoch, which a producer that ends on failures never begins. Otherwise it
        fails."""
        resolved = i.refused is not None or i.error.ends_session
        if self.window.flight or not resolved or self.options.end_on_failure:
            self.fail(i)
        else:
            self._begin_epoch(i.error.epoch)

    def fail(self, i: Interruption) -> None:
        """Settles everything without a result: the request that the interruption is about, or else the
        oldest, with its error, and the others as behind it. The epoch ends, so that later records are
        not taken for those that failed."""
        failed = [*self.window.fail(), *self.queue, *([self.forming] if self.forming else ())]
        self.queue.clear()
        self.forming = None
        if self.options.end_on_failure or i.error.reason in ("LOG_REPLACED", "CLOSED"):
            self.stop(i.error)
        self._begin_epoch(i.error.epoch)
        for n, r in enumerate(failed):
            self._release(r)
            first = r is i.refused if i.refused is not None else n == 0
            self.settle_error(r, i.error.but(outcome=r.outcome) if first else behind(i.error, r.outcome))

    def _begin_epoch(self, above: int) -> None:
        if self.session is not None:
            self.session = replace(self.session, epoch=max(self.session.epoch, above) + 1)
            self.next = 0

    def stop(self, error: Error) -> None:
        """Lets the producer accept nothing more."""
        if self.ended is None:
            self.ended = error.but(outcome=Outcome.NOT_DONE)
            self._admit()

    def stats(self) -> Stats:
        stats = self.counts._snapshot()
        waiting = [r for r in self.window.flight if r.state is not State.FAILED]
        stats.in_flight_requests = len(waiting)
        stats.in_flight_records = sum(r.count for r in waiting)
        stats.in_flight_bytes = sum(r.size for r in waiting)
        stats.buffered_bytes = self._buffered
        return stats

    def close(self) -> None:
        self.stop(closed("producer"))


def _encoded(record: Record) -> tuple[log_pb2.Record, int]:
    """Returns a record as it is sent, and its size. It is encoded on its own: a request that others
    share would keep the part written before an error."""
    wire = log_pb2.Record()
    try:
        record._write(wire)
        return wire, record.size
    except (TypeError, ValueError) as error:
        raise Error("INVALID", f"the record cannot be encoded: {error}") from error


def _check_size(size: int, records: int = 1) -> None:
    size -= OVERHEAD * records
    if size > MAX_RECORD_BYTES:
        raise Error(
            "TOO_LARGE",
            f"a record of {size} bytes, the limit is {MAX_RECORD_BYTES}",
            facts={"limit": str(MAX_RECORD_BYTES)},
        )
