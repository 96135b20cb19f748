"""Reading the records of a log in order, each once."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, TypeVar

import grpc

from strandline.admin import duration
from strandline.bounded import Late, bounded
from strandline.calls import PATHS, Calls, Route, Shown, ToDialled, ToLeader, ToReplica, within
from strandline.errors import Error, Outcome, closed, invalid, time_span, unreachable, whole
from strandline.filters import Filter, Projection
from strandline.peers import Pauses, Peer
from strandline.records import Record, _read
from strandline.v1 import log_pb2

T = TypeVar("T")

_LEAST_STALENESS = 0.1
"""The least bound that a node takes, in seconds."""


@dataclass(frozen=True)
class ReaderOptions:
    """What a reader reads: see Client.read."""

    offset: int | None = None
    time: datetime | None = None
    tail: bool = False
    log_id: int = 0
    follow: bool = False
    max_records: int | None = None
    max_bytes: int | None = None
    until_offset: int | None = None
    until_time: datetime | None = None
    any_replica: bool = False
    at_least: int | None = None
    max_staleness: float | None = None
    prefer_follower: bool = False
    nearest: bool | str | Sequence[str] = False
    heartbeat: float = 5.0
    filter: Filter | None = None
    projection: Projection | None = None
    on_progress: Callable[[int, int], None] | None = None

    def check(self) -> None:
        if sum((self.offset is not None, self.time is not None, self.tail)) > 1:
            raise Error("INVALID", "a read must begin at only one of an offset, a time and the tail")
        if self.prefer_follower and self.nearest is not False:
            raise Error("INVALID", "a read cannot both use the nearest replica and prefer followers")
        for name in ("offset", "at_least", "max_records", "max_bytes", "until_offset"):
            value = getattr(self, name)
            if value is not None:
                whole(name, value)
        whole("log_id", self.log_id, 64)
        time_span("heartbeat", self.heartbeat)
        if self.max_staleness is not None:
            time_span("max_staleness", self.max_staleness)
            if self.max_staleness < _LEAST_STALENESS:
                raise invalid(
                    f"max_staleness is {self.max_staleness!r} s, and has to be {_LEAST_STALENESS} or more: "
                    "a leader sends its end to the others about as often"
                )

    @property
    def linearizable(self) -> bool:
        return not self.any_replica and self.at_least is None and self.max_staleness is None

    def route(self, calls: Calls, log: str) -> Route:
        """The way to the nodes that the options allow."""
        if self.prefer_follower:
            return ToReplica(calls, log, None)
        if self.nearest is not False:
            labels = () if self.nearest is True else self.nearest
            return ToReplica(calls, log, [labels] if isinstance(labels, str) else labels)
        return ToLeader(calls, log, ask=True) if self.linearizable else ToDialled(calls.peers)

    @property
    def limited(self) -> bool:
        """Whether the server may end a read that follows."""
        limits = (self.max_records, self.max_bytes, self.until_offset, self.until_time)
        return any(limit is not None for limit in limits)


_BROKEN_STREAMS = 10
"""How often in a row servers that can be reached may break a stream before its first frame, without
saying that another try may help."""


class _Trouble:
    """What a reader has had since its last frame."""

    def __init__(self) -> None:
        self.count = 0
        self.pauses = Pauses()
        self._broken = 0
        self._began = time.monotonic()

    def worth_another(
        self, failure: Error, reached: bool, placed: bool, width: int, retry_time: float
    ) -> bool:
        """Whether to open another stream: on each of width nodes, and then again. A reader that has
        had a frame waits for its servers for ever; one that has not, or whose bound no replica keeps,
        for the retry time."""
        self.count += 1
        if reached and not (failure.retryable and failure.reason != "UNREACHABLE"):
            self._broken += 1
        patient = placed and failure.reason != "STALE"
        in_time = time.monotonic() - self._began < failure.within(retry_time)
        worth = patient or self.count < width or in_time
        return self._broken <= _BROKEN_STREAMS and worth


class Reader:
    """Reads one log. When the connection breaks, or the node can no longer serve it, it resumes at the
    next offset on another. Made by Client.read; it belongs to one task.

        async with client.read("orders", follow=True) as records:
            async for record in records:
                ...
    """

    _call: Any = None
    _loop: asyncio.AbstractEventLoop | None = None  # of the call

    def __init__(self, calls: Calls, log: str, options: ReaderOptions) -> None:
        options.check()
        self.log = log
        self.log_id = options.log_id
        """The id of the log that is read; 0 before the first frame. An offset has a meaning only in the
        log with its id: who keeps one keeps the other, too."""
        self.end = 0
        """The committed end of the log as far as servers have said: it never goes back."""
        self.age: float | None = None
        """How old, in seconds, the knowledge of end was when the newest frame was made; from a leader, how
        long ago a majority followed it. None before the first frame, and while the node read from has not
        heard from a leader."""
        self._calls, self._options = calls, options
        self._shown = Shown(calls)
        self._route = options.route(calls, log)
        self._next: int | None = options.offset  # None: known with the first frame
        self._looked = 0  # with a filter: where the next frame begins
        self._placed = False  # a frame has come
        self._given, self._took = 0, 0  # records, and about how many bytes
        # Those of the newest frame from _at to _until have not been given. They are made into records when
        # they are: a reader that nobody reads from would hold several times the bytes of the frame.
        self._records: Sequence[log_pb2.Record] = ()
        self._at = self._until = 0
        self._peer: Peer | None = None  # that the call is to
        self._connecting: asyncio.Future[Any] | None = None
        self._trouble = _Trouble()
        self._failure: Error | None = None  # final
        self._ended = False
        self._closed = False

    @property
    def offset(self) -> int | None:
        """That of the next record, or with a filter, where the search for it goes on; None before the
        first has been found."""
        return self._next

    async def open(self, *, timeout: float | None = None) -> Reader:
        """Finds the tail, where the read begins there; otherwise it asks nobody."""
        if self._options.tail and self._next is None:
            await within(timeout, self._until_closed(self._find_tail()), Outcome.NOT_DONE)
        return self

    async def _until_closed(self, doing: Coroutine[Any, Any, T]) -> T:
        """Waits for something that close ends."""
        if self._failure is not None:
            doing.close()
            raise self._failure.but()
        task = asyncio.ensure_future(doing)
        self._connecting = task
        try:
            return await task
        except asyncio.CancelledError:
            if self._closed_meanwhile():
                raise closed("reader") from None
            raise
        finally:
            self._connecting = None

    def _closed_meanwhile(self) -> bool:
        """Reports whether the CancelledError that the current task has caught comes from close."""
        # Before Python 3.11 a task does not know whether it was cancelled itself.
        return self._closed and not getattr(asyncio.current_task(), "cancelling", int)()

    async def _find_tail(self) -> None:
        """Asking first gives the tail a fixed place, which a broken connection cannot move."""
        request = log_pb2.GetInfoRequest(log=self.log, log_id=self.log_id)
        if self._options.any_replica:
            request.allow_stale = True
            answer = await self._calls.by(
                self._route,
                lambda peer: self._calls.answered(
                    peer, self.log, self._calls.on(peer, "GetInfo", request, log_pb2.GetInfoResponse)
                ),
            )
        else:
            answer = await self._calls.to_leader(self.log, "GetInfo", request, log_pb2.GetInfoResponse)
        self.log_id = answer.info.id
        self._next = self.end = answer.info.end_offset

    async def __aenter__(self) -> Reader:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> Reader:
        return self

    async def __anext__(self) -> Record:
        record = await self.next()
        if record is None:
            raise StopAsyncIteration
        return record

    async def next(self, *, timeout: float | None = None) -> Record | None:
        """Returns the next record, or None at the end of what was asked for; a read that follows waits
        there. After a timeout, in seconds, it may be called again."""
        if self._at == self._until and not await within(timeout, self._fill(), Outcome.NOT_DONE):
            return None
        record = _read(self._records[self._at])
        self._at += 1
        self._given += 1
        self._next = record.offset + 1
        return record

    async def next_batch(self, *, timeout: float | None = None) -> list[Record]:
        """Returns what is left of a frame: faster than next, and otherwise the same. It is empty at
        the end."""
        if self._at == self._until and not await within(timeout, self._fill(), Outcome.NOT_DONE):
            return []
        batch = [_read(r) for r in self._records[self._at : self._until]]
        self._at = self._until
        self._given += len(batch)
        self._next = batch[-1].offset + 1
        return batch

    async def close(self) -> None:
        """Ends the read. Who waits for a record in another task gets the error Closed."""
        self._closed, self._failure = True, closed("reader")
        self._records, self._at, self._until = (), 0, 0
        if self._connecting is not None:
            self._connecting.cancel()
        self._hang_up()

    def __del__(self) -> None:
        """Ends the read that nobody holds any more, such as one whose loop was left by break. The last
        reference may go in any thread."""
        call, loop = self._call, self._loop
        if call is not None and loop is not None and not loop.is_closed():
            with contextlib.suppress(RuntimeError):  # it was closed meanwhile
                loop.call_soon_threadsafe(call.cancel)

    async def _fill(self) -> bool:
        """Gets records. False: there are no more."""
        await self.open()
        while self._at == self._until:
            self._records, self._at, self._until = (), 0, 0
            self._progress()
            if self._failure is not None:
                raise self._failure.but()
            if self._ended or self._done():
                self._ended = True
                self._hang_up()
                return False
            await self._fetch()
        return True

    def _progress(self) -> None:
        """Moves behind what was looked at without a record."""
        if self._next is not None and self._next < self._looked:
            self._next = self._looked
            if self._options.on_progress is not None:
                self._options.on_progress(self._next, self.end)

    def _done(self) -> bool:
        """Whether a limit has been reached, of which a stream that is opened now would know nothing."""
        o = self._options
        return (
            (o.max_records is not None and self._given >= o.max_records)
            or (o.max_bytes is not None and self._took >= o.max_bytes)
            or (o.until_offset is not None and self._next is not None and self._next >= o.until_offset)
        )

    async def _fetch(self) -> None:
        """Receives one frame, or repairs the stream so that the next call can."""
        reached = self._call is not None
        try:
            if self._call is None:
                peer = await self._until_closed(self._route.connect())
                reached = True
                self._peer, self._loop = peer, asyncio.get_running_loop()
                self._call = peer.channel.unary_stream(
                    PATHS["Read"],
                    request_serializer=log_pb2.ReadRequest.SerializeToString,
                    response_deserializer=log_pb2.ReadResponse.FromString,
                )(self._request(), metadata=self._shown.metadata())
            frame = await self._receive()
        except asyncio.CancelledError as error:
            if self._closed_meanwhile():
                return
            if not self._calls.hung_up():
                self._hang_up()
                raise
            self._fail(self._calls.failure(error))
            return
        except Exception as error:
            if not self._closed:
                await self._recover(self._shown.failure(self._calls.failure(error)), reached)
            return
        if self._closed:
            return
        if frame is not None:
            if self._trouble.count > 0:
                self._calls.trouble(self.log, None)
            self._trouble = _Trouble()
            self._shown.progressed()
            try:
                self._take(frame)
            except Error as error:
                self._fail(error)
        elif not self._options.follow or self._options.limited:
            self._ended = True
        else:
            await self._recover(unreachable(Outcome.NOT_DONE, "the server ended the stream"), True)

    async def _receive(self) -> log_pb2.ReadResponse | None:
        """A frame; None at the end of the stream. One that follows may not be silent for long; one that
        does not relies on the keep-alive of the connection. Either leaves a node that stands still."""
        silence = 3 * self._options.heartbeat if self._options.follow else None
        assert self._peer is not None
        try:
            frame = await bounded(self._calls.answered(self._peer, self.log, self._call.read()), silence)
        except Late:
            raise unreachable(Outcome.NOT_DONE, f"the server was silent for {silence:g} s") from None
        return None if frame is grpc.aio.EOF else frame

    async def _recover(self, failure: Error, reached: bool) -> None:
        """Decides, after a stream could not be opened or broke, whether to try another, and pauses."""
        self._hang_up()
        width = 1
        move = failure.elsewhere or self._only_here(failure)
        if move:
            self._route.elsewhere(failure)
            width = self._route.width(failure)
        worth = (move or failure.again) and self._trouble.worth_another(
            failure, reached, self._placed, width, self._calls.retry_time
        )
        if not worth:
            self._fail(failure)
            return
        self._calls.trouble(self.log, failure)
        if self._trouble.count > 1:
            await self._trouble.pauses.between(self._route.tried(), width)

    def _only_here(self, failure: Error) -> bool:
        """Whether another replica may do better than the one whose refusal is final there: one that
        lags behind what this reader has seen, or whose copy is damaged."""
        if failure.reason == "OFFSET_BEYOND_END":
            return self._next is not None and self._next <= self.end
        return failure.reason == "CORRUPT" and self._route.width(failure) > 1

    def _fail(self, failure: Error) -> None:
        self._failure = failure
        self._hang_up()

    def _take(self, f: log_pb2.ReadResponse) -> None:
        """Accepts a frame."""
        self.log_id = self.log_id or f.log_id
        if f.log_id != self.log_id:
            message = f"log {self.log!r} with id {self.log_id} was deleted; another one has its name"
            raise Error("LOG_REPLACED", message, facts={"log_id": str(f.log_id)})
        if self._next is None:
            self._next = f.first_offset
        if f.first_offset > self._next or f.record_count != len(f.records):
            raise Error("CORRUPT", "received a frame that does not follow the one before")
        o = self._options
        selects = o.filter is not None or o.projection is not None
        if selects and not f.HasField("next_offset"):
            message = "the server does not know filters and projections: it needs a later version"
            raise Error("UNSUPPORTED", message)
        # Another replica may know less: what was committed once stays so.
        self.end, self._placed = max(self.end, f.end_offset), True
        self.age = f.age.ToNanoseconds() / 1e9 if f.HasField("age") else None
        if selects:
            self._take_selected(f, self._next)
            return
        until = f.first_offset + f.record_count
        if o.until_offset is not None:
            until = min(until, o.until_offset)
        if o.max_records is not None:
            until = min(until, self._next + o.max_records - self._given)
        self._give(f.records, self._next, until)

    def _take_selected(self, f: log_pb2.ReadResponse, begin: int) -> None:
        """Accepts the frame of a read with a filter, which the server has cut."""
        at = f.first_offset
        for r in f.records:
            if not at <= r.offset < f.next_offset:
                message = f"received a record of offset {r.offset} where one from {at} on was due"
                raise Error("CORRUPT", message)
            at = r.offset + 1
        if f.next_offset < at:
            raise Error("CORRUPT", "received a frame that ends before it begins")
        self._looked = f.next_offset
        self._give(f.records, begin, f.next_offset)
        o = self._options
        for failed in f.failed:
            if o.filter is not None and o.filter.on_failed is not None and failed.offset >= begin:
                o.filter.on_failed(failed.offset, failed.message)

    def _give(self, records: Sequence[log_pb2.Record], begin: int, until: int) -> None:
        """Gives those of a frame whose offsets lie between two."""
        self._records, self._at, self._until = records, 0, len(records)
        while self._at < self._until and records[self._at].offset < begin:
            self._at += 1
        while self._at < self._until and records[self._until - 1].offset >= until:
            self._until -= 1
        if self._options.max_bytes is not None:
            self._took += sum(_read(r).size for r in records[self._at : self._until])

    def _request(self) -> log_pb2.ReadRequest:
        """Asks for what has not been given yet."""
        o = self._options
        q = log_pb2.ReadRequest(
            log=self.log,
            log_id=self.log_id,
            follow=o.follow,
            format=log_pb2.READ_FORMAT_RECORDS,
            heartbeat=duration(o.heartbeat),
            filter=None if o.filter is None else o.filter._wire(),
            projection=None if o.projection is None else o.projection._wire(),
        )
        if self._next is not None:
            q.offset = self._next
        elif o.time is not None:
            q.time.FromDatetime(o.time)
        else:
            q.position = log_pb2.READ_POSITION_START
        if o.at_least is not None:
            q.at_least_offset = o.at_least
        elif o.max_staleness is not None:
            q.max_age.CopyFrom(duration(o.max_staleness))
        else:
            q.level = log_pb2.READ_CONSISTENCY_ANY if o.any_replica else log_pb2.READ_CONSISTENCY_LINEARIZABLE
        if o.max_records is not None:
            q.max_records = o.max_records - self._given
        if o.max_bytes is not None:
            q.max_bytes = o.max_bytes - self._took
        if o.until_offset is not None:
            q.until_offset = o.until_offset
        if o.until_time is not None:
            q.until_time.FromDatetime(o.until_time)
        return q

    def _hang_up(self) -> None:
        if self._call is not None:
            self._call.cancel()
            self._call = None
