"""The client without asyncio: the same verbs, which wait.

    from strandline import sync

    with sync.Client("127.0.0.1:7171") as client:
        with client.producer("orders") as producer:
            print(producer.append(b"a record"))
        for record in client.read("orders"):
            print(record.offset, record.value)

An event loop in a thread does the work of all clients. A Client and a Producer may be used from any number
of threads, a Reader from one at a time.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import os
import threading
import time
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

import strandline
from strandline.checks import Check
from strandline.digests import Digest
from strandline.environment import environment
from strandline.errors import Closed, Error, Outcome, Position, closed, deadline
from strandline.holds import Hold
from strandline.peers import check_process
from strandline.records import LogConfig, LogInfo, Record, Resolution, Session
from strandline.stats import Stats
from strandline.writers import WriterClaim, WriterGrant, WriterState

T = TypeVar("T")


_CALLS_END_WITHIN = 1.0
"""How long, in seconds, calls may take to end by themselves once their client is closed."""


class _Thread:
    """The event loop of all clients of this process, and the thread that runs it while there are any. gRPC
    hands every event to whichever loop looks first: with a loop for each client, those of one that was
    closed would be lost, and others with them. So the loop is never closed."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.set_task_factory(_owned)
        self._lock = threading.Lock()
        self._clients = 0
        self._thread: threading.Thread | None = None

    def join(self) -> None:
        """Has the thread run for one more client."""
        with self._lock:
            self._clients += 1
            if self._clients == 1:
                run = self.loop.run_forever
                self._thread = threading.Thread(target=run, name="strandline", daemon=True)
                self._thread.start()

    def leave(self) -> None:
        """Ends the thread with its last client."""
        with self._lock:
            self._clients -= 1
            if self._clients == 0 and self._thread is not None:
                self.loop.call_soon_threadsafe(self.loop.stop)
                self._thread.join()
                self._thread = None


_owner: contextvars.ContextVar[_Loop | None] = contextvars.ContextVar("_owner", default=None)


def _owned(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
    """Makes a task that ends with the client for which it was begun."""
    task = asyncio.Task(work, loop=loop, **options)
    if (owner := _owner.get()) is not None:
        owner.tasks.add(task)
    return task


_threads: dict[int, _Thread] = {}  # by process
_threads_lock = threading.Lock()


def _thread() -> _Thread:
    with _threads_lock:
        if os.getpid() not in _threads:
            _threads[os.getpid()] = _Thread()
        return _threads[os.getpid()]


class _Loop:
    """The part of one client in the event loop."""

    def __init__(self) -> None:
        check_process()
        self._thread = _thread()
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._closed = False
        self._under_way: set[concurrent.futures.Future[Any]] = set()
        self.tasks: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()
        self._thread.join()

    @property
    def forked(self) -> bool:
        """Reports whether this is another process, where the thread is not."""
        return self._process != os.getpid()

    def start(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Begins work in the loop."""
        try:
            check_process()
        except Error:
            work.close()
            raise
        with self._lock:
            if self._closed:
                work.close()
                raise closed("client")
            owned = _owner.set(self)
            try:
                future = asyncio.run_coroutine_threadsafe(work, self._thread.loop)
            finally:
                _owner.reset(owned)
            self._under_way.add(future)
        future.add_done_callback(self._ended)
        return future

    def _ended(self, future: concurrent.futures.Future[Any]) -> None:
        with self._lock:
            self._under_way.discard(future)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Waits for work in the loop. A caller that is interrupted cancels it."""
        future = self.start(work)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            if self._closed:
                raise closed("client", Outcome.MAYBE_DONE) from None
            raise
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Ends what is left of the client, and the thread with the last one."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            under_way = list(self._under_way)
        # Once the client is closed its calls end with errors of their own, which say more.
        concurrent.futures.wait(under_way, timeout=_CALLS_END_WITHIN)
        asyncio.run_coroutine_threadsafe(self._cancel_all(), self._thread.loop).result()
        self._thread.leave()

    async def _cancel_all(self) -> None:
        tasks = set(self.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _copy(answer: asyncio.Future[T], to: concurrent.futures.Future[T]) -> None:
    error = answer.exception()
    if error is not None:
        to.set_exception(error)
    else:
        to.set_result(answer.result())


_SENDS_AHEAD = 64
"""How many records may be on their way from threads to their acceptance. To wait for each would cost a
turn of both threads, in which the answers of those before come."""


class Client:
    """strandline.Client, whose calls wait. It takes the same arguments."""

    def __init__(self, addresses: str | Sequence[str], **options: Any) -> None:
        async def connect() -> strandline.Client:
            return strandline.Client(addresses, **options)

        self._loop = _Loop()
        try:
            self._client = self._loop.run(connect())
        except BaseException:
            self._loop.close()
            raise
        self.admin = Admin(self._loop, self._client.admin)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None, **options: Any) -> Client:
        """strandline.Client.from_environment."""
        addresses, found = environment(environ)
        if "tls" in found:
            found["tls"] = strandline.TLS(**found["tls"])
        return cls(addresses, **{**found, **options})

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends every connection; calls that wait in other threads end with Closed. Close producers first."""
        if self._loop.forked:
            return  # the connections are the parent's
        with contextlib.suppress(Closed):  # already
            self._loop.run(self._client.close())
        self._loop.close()

    def end(self, log: str, *, timeout: float | None = None) -> int:
        """strandline.Client.end."""
        return self._loop.run(self._client.end(log, timeout=timeout))

    def digest(
        self, log: str, at: int | None = None, *, known: bool = False, timeout: float | None = None
    ) -> Digest:
        """strandline.Client.digest."""
        return self._loop.run(self._client.digest(log, at, known=known, timeout=timeout))

    def prove(
        self, log: str, offset: int, trusted: Digest, *, known: bool = False, timeout: float | None = None
    ) -> Record:
        """strandline.Client.prove."""
        proving = self._client.prove(log, offset, trusted, known=known, timeout=timeout)
        return self._loop.run(proving)

    def hold(
        self,
        log: str,
        hold: Hold,
        *,
        from_start: bool = False,
        from_end: bool = False,
        timeout: float | None = None,
    ) -> KeptHold:
        """strandline.Client.hold."""
        made = self._client.hold(log, hold, from_start=from_start, from_end=from_end, timeout=timeout)
        return KeptHold(self._loop, self._loop.run(made))

    def lease_writer(self, log: str, claim: WriterClaim, *, timeout: float | None = None) -> WriterLease:
        """strandline.Client.lease_writer."""
        made = self._client.lease_writer(log, claim, timeout=timeout)
        return WriterLease(self._loop, self._loop.run(made))

    def producer(self, log: str, **options: Any) -> Producer:
        """strandline.Client.producer."""
        return Producer(self._loop, self._loop.run(self._client.producer(log, **options)))

    def read(self, log: str, **options: Any) -> Reader:
        """strandline.Client.read."""
        return Reader(self._loop, self._client.read(log, **options))


class KeptHold:
    """strandline.KeptHold, whose calls wait. The thread of the clients renews it."""

    def __init__(self, loop: _Loop, kept: strandline.KeptHold) -> None:
        self._loop, self._kept = loop, kept

    def __enter__(self) -> KeptHold:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def hold(self) -> Hold:
        """The hold as it was set or moved last."""
        return self._kept.hold

    @property
    def ended(self) -> bool:
        """Whether the hold is known to have ended, or was released or closed."""
        return self._kept.ended

    @property
    def error(self) -> Error | None:
        """Why it has ended. None before, and after release and close."""
        return self._kept.error

    def wait(self) -> Error | None:
        """Waits until it has ended, or was released or closed, and returns error."""
        return self._loop.run(self._kept.wait())

    def move(self, offset: int, pointer: bytes = b"", *, timeout: float | None = None) -> None:
        """Puts the hold at another offset with another pointer, in one step."""
        self._loop.run(self._kept.move(offset, pointer, timeout=timeout))

    def release(self, *, timeout: float | None = None) -> None:
        """Ends the hold."""
        self._loop.run(self._kept.release(timeout=timeout))

    def close(self) -> None:
        """Ends the renewals and leaves the hold as it is."""
        self._loop.run(self._kept.close())


class WriterLease:
    """strandline.WriterLease, whose calls wait. The thread of the clients renews it."""

    def __init__(self, loop: _Loop, lease: strandline.WriterLease) -> None:
        self._loop, self._lease = loop, lease

    def __enter__(self) -> WriterLease:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def claim(self) -> WriterClaim:
        """The claim with which the lease was acquired."""
        return self._lease.claim

    @property
    def term(self) -> int:
        """The writer term that was granted with the lease, for Client.producer."""
        return self._lease.term

    @property
    def end(self) -> int:
        """The end of the log when the term began: all records of older writers are below it."""
        return self._lease.end

    @property
    def until(self) -> float:
        """Until when the lease lasts at least, by time.monotonic."""
        return self._lease.until

    @property
    def ended(self) -> bool:
        """Whether the lease is known to have ended, or was released, handed over or closed."""
        return self._lease.ended

    @property
    def error(self) -> Error | None:
        """Why it has ended. None before, and after release, hand_over and close."""
        return self._lease.error

    def wait(self) -> Error | None:
        """Waits until it has ended, or was released, handed over or closed, and returns error."""
        return self._loop.run(self._lease.wait())

    def release(self, *, timeout: float | None = None) -> None:
        """Ends the lease: the next program in line gets it at once."""
        self._loop.run(self._lease.release(timeout=timeout))

    def hand_over(self, to: str, *, timeout: float | None = None) -> None:
        """Ends the lease in favor of the program in line that has a name."""
        self._loop.run(self._lease.hand_over(to, timeout=timeout))

    def close(self) -> None:
        """Releases the lease. If that fails, the lease ends when it runs out."""
        self._loop.run(self._lease.close())


class Producer:
    """strandline.Producer, whose calls wait."""

    def __init__(self, loop: _Loop, producer: strandline.Producer) -> None:
        self._loop, self._producer = loop, producer
        self._to_be_accepted = threading.Semaphore(_SENDS_AHEAD)

    def __enter__(self) -> Producer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def append(self, record: Record | bytes, *, timeout: float | None = None) -> int:
        """Appends a record, waits until it is durable, and returns its offset."""
        return self._loop.run(self._producer.append(record, timeout=timeout))

    def send(self, record: Record | bytes, *, timeout: float | None = None) -> concurrent.futures.Future[int]:
        """Begins to append a record, and returns the future of its offset, which cannot be cancelled.
        Records of one thread keep their order. It waits while as much as buffer_bytes is without answers
        and 64 records more are to be accepted; the timeout bounds that, and the acceptance."""
        until = None if timeout is None else time.monotonic() + timeout
        if not self._to_be_accepted.acquire(timeout=timeout):
            raise deadline(Outcome.NOT_DONE)
        sent: concurrent.futures.Future[int] = concurrent.futures.Future()
        sent.set_running_or_notify_cancel()

        async def accept() -> None:
            left = None if until is None else until - time.monotonic()
            try:
                answer = await self._producer.send(record, timeout=left)
            except asyncio.CancelledError:
                sent.set_exception(closed("client", Outcome.MAYBE_DONE))
                raise
            except Exception as error:
                sent.set_exception(error)
            else:
                answer.add_done_callback(lambda answer: _copy(answer, sent))
            finally:
                self._to_be_accepted.release()

        try:
            self._loop.start(accept())
        except Closed:
            self._to_be_accepted.release()
            raise
        return sent

    def append_batch(
        self,
        records: Sequence[Record | bytes],
        *,
        expected_end: int | None = None,
        atomic: bool = False,
        check: Check | None = None,
        timeout: float | None = None,
    ) -> list[int]:
        """Appends records in one request, and returns their offsets."""
        made = self._producer.append_batch(
            records, expected_end=expected_end, atomic=atomic, check=check, timeout=timeout
        )
        return self._loop.run(made)

    def flush(self, *, timeout: float | None = None) -> None:
        """Waits until every record accepted before has its answer."""
        self._loop.run(self._producer.flush(timeout=timeout))

    def close(self, *, timeout: float | None = None) -> None:
        """Waits for the answers that are missing, and closes the session."""
        self._loop.run(self._producer.close(timeout=timeout))

    @property
    def position(self) -> Position:
        """Where the producer stands in its session."""
        return self._ask(lambda: self._producer.position)

    @property
    def stats(self) -> Stats:
        """What the producer has done and is doing, as of now."""
        return self._ask(lambda: self._producer.stats)

    @property
    def session(self) -> Session | None:
        """The session now."""
        return self._ask(lambda: self._producer.session)

    def _ask(self, what: Callable[[], T]) -> T:
        async def answer() -> T:
            return what()

        return self._loop.run(answer())


class Reader:
    """strandline.Reader, whose calls wait."""

    def __init__(self, loop: _Loop, reader: strandline.Reader) -> None:
        self._loop, self._reader = loop, reader

    def __enter__(self) -> Reader:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Record]:
        while batch := self.next_batch():
            yield from batch

    def open(self, *, timeout: float | None = None) -> Reader:
        """Finds the tail, where the read begins there."""
        self._loop.run(self._reader.open(timeout=timeout))
        return self

    def next(self, *, timeout: float | None = None) -> Record | None:
        """Returns the next record, or None at the end."""
        return self._loop.run(self._reader.next(timeout=timeout))

    def next_batch(self, *, timeout: float | None = None) -> list[Record]:
        """Returns what is left of a frame. It is empty at the end."""
        return self._loop.run(self._reader.next_batch(timeout=timeout))

    def close(self) -> None:
        """Ends the read."""
        self._loop.run(self._reader.close())

    @property
    def offset(self) -> int | None:
        """That of the next record, or with a filter, where the search for it goes on."""
        return self._reader.offset

    @property
    def end(self) -> int:
        """The committed end of the log as far as servers have said."""
        return self._reader.end

    @property
    def age(self) -> float | None:
        """How old, in seconds, the knowledge of end is; None: not known."""
        return self._reader.age

    @property
    def log_id(self) -> int:
        """The id of the log that is read."""
        return self._reader.log_id


class Admin:
    """strandline.Admin, whose calls wait."""

    def __init__(self, loop: _Loop, admin: strandline.Admin) -> None:
        self._loop, self._admin = loop, admin

    def create_log(
        self, name: str, config: LogConfig | None = None, *, timeout: float | None = None
    ) -> LogInfo:
        return self._loop.run(self._admin.create_log(name, config, timeout=timeout))

    def list_logs(self, *, internal: bool = False, timeout: float | None = None) -> list[LogInfo]:
        return self._loop.run(self._admin.list_logs(internal=internal, timeout=timeout))

    def configure_log(self, name: str, config: LogConfig, *, timeout: float | None = None) -> LogInfo:
        return self._loop.run(self._admin.configure_log(name, config, timeout=timeout))

    def delete_log(self, name: str, *, timeout: float | None = None) -> None:
        self._loop.run(self._admin.delete_log(name, timeout=timeout))

    def info(self, log: str, *, log_id: int = 0, timeout: float | None = None) -> LogInfo:
        return self._loop.run(self._admin.info(log, log_id=log_id, timeout=timeout))

    def watch_info(self, log: str, interval: float | None = None) -> Iterator[LogInfo]:
        return self._each(self._admin.watch_info(log, interval))

    def watch_writer(self, log: str, interval: float | None = None) -> Iterator[WriterState]:
        return self._each(self._admin.watch_writer(log, interval))

    def _each(self, watched: AsyncGenerator[T, None]) -> Iterator[T]:
        async def following() -> T | None:
            return await anext(watched, None)

        async def close() -> None:
            await watched.aclose()

        try:
            while (state := self._loop.run(following())) is not None:
                yield state
        finally:
            with contextlib.suppress(Closed):  # with the client the watch has ended, too
                self._loop.run(close())

    def trim(
        self, log: str, before: int, *, fast_forward: bool = False, timeout: float | None = None
    ) -> tuple[int, int]:
        return self._loop.run(self._admin.trim(log, before, fast_forward=fast_forward, timeout=timeout))

    def set_hold(
        self,
        log: str,
        hold: Hold,
        *,
        from_start: bool = False,
        from_end: bool = False,
        timeout: float | None = None,
    ) -> tuple[int, int]:
        made = self._admin.set_hold(log, hold, from_start=from_start, from_end=from_end, timeout=timeout)
        return self._loop.run(made)

    def keep_hold(self, log: str, name: str, *, timeout: float | None = None) -> None:
        self._loop.run(self._admin.keep_hold(log, name, timeout=timeout))

    def release_hold(self, log: str, name: str, *, timeout: float | None = None) -> None:
        self._loop.run(self._admin.release_hold(log, name, timeout=timeout))

    def acquire_writer(self, log: str, *, timeout: float | None = None) -> tuple[int, int]:
        return self._loop.run(self._admin.acquire_writer(log, timeout=timeout))

    def lease_writer(
        self, log: str, claim: WriterClaim, *, wait: float = 0.0, timeout: float | None = None
    ) -> WriterGrant:
        return self._loop.run(self._admin.lease_writer(log, claim, wait=wait, timeout=timeout))

    def keep_writer(self, log: str, term: int, *, timeout: float | None = None) -> None:
        self._loop.run(self._admin.keep_writer(log, term, timeout=timeout))

    def release_writer(self, log: str, term: int, *, to: str = "", timeout: float | None = None) -> None:
        self._loop.run(self._admin.release_writer(log, term, to=to, timeout=timeout))

    def open_session(
        self, log: str, *, lease: float | None = None, log_id: int = 0, timeout: float | None = None
    ) -> Session:
        return self._loop.run(self._admin.open_session(log, lease=lease, log_id=log_id, timeout=timeout))

    def keep_session(self, log: str, session: int, *, log_id: int = 0, timeout: float | None = None) -> None:
        self._loop.run(self._admin.keep_session(log, session, log_id=log_id, timeout=timeout))

    def close_session(self, log: str, session: int, *, log_id: int = 0, timeout: float | None = None) -> None:
        self._loop.run(self._admin.close_session(log, session, log_id=log_id, timeout=timeout))

    def resolve(
        self, log: str, at: Position, *, final: bool = False, timeout: float | None = None
    ) -> Resolution:
        return self._loop.run(self._admin.resolve(log, at, final=final, timeout=timeout))

    def end_epoch(self, log: str, at: Position, *, timeout: float | None = None) -> Resolution:
        return self._loop.run(self._admin.end_epoch(log, at, timeout=timeout))
