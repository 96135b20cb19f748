"""The verbs beside append and read."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncGenerator

from google.protobuf import duration_pb2

from strandline.calls import CATALOG, Calls, within
from strandline.errors import Error, Fenced, HoldNotFound, Outcome, Position, time_span
from strandline.holds import Hold
from strandline.records import LogConfig, LogInfo, Resolution, ResolveState, Session
from strandline.states import states
from strandline.v1 import catalog_pb2, log_pb2, session_pb2
from strandline.writers import WriterClaim, WriterGrant, WriterState

_LAST = 2**64 - 1
_PAGE_LIMIT = 10_000
"""How many logs of a list a call takes at once: the server divides it by bytes."""


def duration(seconds: float) -> duration_pb2.Duration:
    whole = duration_pb2.Duration()
    whole.FromNanoseconds(int(seconds * 1e9))
    return whole


def place(from_start: bool, from_end: bool) -> log_pb2.ReadPosition | None:
    """Where a hold is put; None: at its offset."""
    if from_start:
        return log_pb2.READ_POSITION_START
    return log_pb2.READ_POSITION_TAIL if from_end else None


def hold_request(log: str, hold: Hold, position: log_pb2.ReadPosition | None) -> log_pb2.SetHoldRequest:
    request = log_pb2.SetHoldRequest(log=log, hold=hold._wire())
    if position is not None:
        request.position = position
    return request


async def release_writer(calls: Calls, request: log_pb2.ReleaseWriterRequest) -> None:
    """Ends a writer lease. An earlier try may have done so: then the refusal is about its own effect."""
    try:
        await calls.to_leader(request.log, "ReleaseWriter", request, log_pb2.ReleaseWriterResponse)
    except Fenced as error:
        if error.outcome == Outcome.NOT_DONE:
            raise


class Admin:
    """Creates, describes and trims logs, and keeps sessions and writer terms for those who do without
    a producer. Its methods keep trying for the client's retry_time while no node can answer; timeout,
    in seconds, bounds all of a call."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def create_log(
        self, name: str, config: LogConfig | None = None, *, timeout: float | None = None
    ) -> LogInfo:
        """Creates a log. Where an answer was lost, the log that an earlier try created is returned."""
        request = catalog_pb2.CreateLogRequest(
            name=name, config=(config or LogConfig())._wire(), request_id=uuid.uuid4().hex
        )
        made = self._calls.to_leader(CATALOG, "CreateLog", request, catalog_pb2.CreateLogResponse)
        return LogInfo._read((await within(timeout, made)).info)

    async def list_logs(self, *, internal: bool = False, timeout: float | None = None) -> list[LogInfo]:
        """Lists all logs by name, with the system's own if internal is set."""
        return await within(timeout, self._list_logs(internal))

    async def _list_logs(self, internal: bool) -> list[LogInfo]:
        logs: list[LogInfo] = []
        after = ""
        while True:
            request = catalog_pb2.ListLogsRequest(include_internal=internal, after=after, limit=_PAGE_LIMIT)
            page = await self._calls.to_leader(CATALOG, "ListLogs", request, catalog_pb2.ListLogsResponse)
            # A node of before lists came in parts answers with all.
            logs += [LogInfo._read(info) for info in page.logs if info.name > after]
            if not page.next:
                return logs
            if page.next <= after:
                raise Error("CORRUPT", "the server answered with a list that does not advance")
            after = page.next

    async def configure_log(self, name: str, config: LogConfig, *, timeout: float | None = None) -> LogInfo:
        """Gives a log a whole new configuration. To change a part of it, replace that in what info
        returns: somebody else's change in between is Precondition then."""
        request = catalog_pb2.ConfigureLogRequest(name=name, config=config._wire())
        made = self._calls.to_leader(CATALOG, "ConfigureLog", request, catalog_pb2.ConfigureLogResponse)
        return LogInfo._read((await within(timeout, made)).info)

    async def delete_log(self, name: str, *, timeout: float | None = None) -> None:
        """Removes a log with all its records. It never removes another log that got the name while an
        answer was lost."""
        await within(timeout, self._delete_log(name))

    async def _delete_log(self, name: str) -> None:
        request = log_pb2.GetInfoRequest(log=name, allow_stale=True)
        try:
            asked = await self._calls.to_leader(CATALOG, "GetInfo", request, log_pb2.GetInfoResponse)
        except Error as error:
            raise error.but(outcome=Outcome.NOT_DONE) from None  # it was a question
        try:
            await self._delete_by_id(name, asked.info.id)
        except Error as error:
            if error.reason != "LOG_REPLACED" or error.outcome != Outcome.NOT_DONE:
                raise
            # The node that named the id did not know of the newest log.
            await self._delete_by_id(name, error.log_id)

    async def _delete_by_id(self, name: str, log_id: int) -> None:
        request = catalog_pb2.DeleteLogRequest(name=name, log_id=log_id)
        try:
            await self._calls.to_leader(CATALOG, "DeleteLog", request, catalog_pb2.DeleteLogResponse)
        except Error as error:
            # An earlier try has deleted it: the refusal is about its own effect.
            if error.outcome == Outcome.NOT_DONE or error.reason not in ("LOG_NOT_FOUND", "LOG_REPLACED"):
                raise

    async def info(self, log: str, *, log_id: int = 0, timeout: float | None = None) -> LogInfo:
        """Describes a log."""
        request = log_pb2.GetInfoRequest(log=log, log_id=log_id)
        asked = self._calls.to_leader(log, "GetInfo", request, log_pb2.GetInfoResponse)
        return LogInfo._read((await within(timeout, asked)).info)

    async def watch_info(self, log: str, interval: float | None = None) -> AsyncGenerator[LogInfo, None]:
        """Yields the log's description now and after changes, at most once per interval (None: 1 s). A
        broken connection, or a node that stands still, ends it with an error."""
        request = log_pb2.WatchInfoRequest(log=log)
        if interval is not None:
            request.min_interval.CopyFrom(duration(interval))
        answers = states(self._calls, log, "WatchInfo", request, log_pb2.WatchInfoResponse)
        async with contextlib.aclosing(answers):
            async for answer in answers:
                yield LogInfo._read(answer.info)

    async def trim(
        self, log: str, before: int, *, fast_forward: bool = False, timeout: float | None = None
    ) -> tuple[int, int]:
        """Removes every record below an offset, and returns the start and the end of the log. With
        fast_forward the offset may lie beyond the end: the log continues there."""
        request = log_pb2.TrimRequest(log=log, before=before, fast_forward=fast_forward)
        answer = await within(timeout, self._calls.to_leader(log, "Trim", request, log_pb2.TrimResponse))
        return answer.start_offset, answer.end_offset

    async def set_hold(
        self,
        log: str,
        hold: Hold,
        *,
        from_start: bool = False,
        from_end: bool = False,
        timeout: float | None = None,
    ) -> tuple[int, int]:
        """Sets a hold, or moves the one of its name with all that belongs to it, and returns where it
        begins and where the log ends. With from_start or from_end it is put where the log starts, or
        ends, by then. OffsetTrimmed: records from the offset on are gone; once it has succeeded, all
        are there."""
        request = hold_request(log, hold, place(from_start, from_end))
        answer = await within(
            timeout, self._calls.to_leader(log, "SetHold", request, log_pb2.SetHoldResponse)
        )
        return answer.offset, answer.end_offset

    async def keep_hold(self, log: str, name: str, *, timeout: float | None = None) -> None:
        """Renews a hold's lease, as set_hold does. HoldNotFound: it has expired, or was released or
        broken."""
        request = log_pb2.KeepHoldRequest(log=log, name=name)
        await within(timeout, self._calls.to_leader(log, "KeepHold", request, log_pb2.KeepHoldResponse))

    async def release_hold(self, log: str, name: str, *, timeout: float | None = None) -> None:
        """Ends a hold, whoever has set it."""
        request = log_pb2.ReleaseHoldRequest(log=log, name=name)
        made = self._calls.to_leader(log, "ReleaseHold", request, log_pb2.ReleaseHoldResponse)
        try:
            await within(timeout, made)
        except HoldNotFound as error:
            if error.outcome == Outcome.NOT_DONE:
                raise  # or else an earlier try has released it

    async def acquire_writer(self, log: str, *, timeout: float | None = None) -> tuple[int, int]:
        """Raises the log's writer term, and returns it with the end of the log then. Appends with an
        older term are refused with Fenced from then on; every one that got in lies below that end."""
        request = log_pb2.AcquireWriterRequest(log=log)
        answer = await within(
            timeout, self._calls.to_leader(log, "AcquireWriter", request, log_pb2.AcquireWriterResponse)
        )
        return answer.writer_term, answer.end_offset

    async def lease_writer(
        self, log: str, claim: WriterClaim, *, wait: float = 0.0, timeout: float | None = None
    ) -> WriterGrant:
        """Acquires the writer lease of a log: raises the log's writer term, as acquire_writer does, if no
        other program has the lease. Otherwise it waits in line for up to wait seconds, at most 60, and
        returns a grant without a term if that did not suffice. The lease lasts as long as keep_writer is
        called, or records are appended with the term. Client.lease_writer does that."""
        request = claim._wire(log, 0, wait)
        made = self._calls.to_leader(log, "LeaseWriter", request, log_pb2.LeaseWriterResponse, in_line=True)
        return WriterGrant._read(await within(timeout, made))

    async def keep_writer(self, log: str, term: int, *, timeout: float | None = None) -> None:
        """Renews the writer lease that was granted with a term, as appends with the term do. Fenced: it has
        ended."""
        request = log_pb2.KeepWriterRequest(log=log, writer_term=term)
        await within(timeout, self._calls.to_leader(log, "KeepWriter", request, log_pb2.KeepWriterResponse))

    async def release_writer(
        self, log: str, term: int, *, to: str = "", timeout: float | None = None
    ) -> None:
        """Ends the writer lease that was granted with a term: the first program in line gets it at once,
        or the one named to. Precondition: none of that name waits, and the lease stays. Fenced: the lease
        had ended."""
        request = log_pb2.ReleaseWriterRequest(log=log, writer_term=term, to=to)
        await within(timeout, release_writer(self._calls, request))

    async def watch_writer(
        self, log: str, interval: float | None = None
    ) -> AsyncGenerator[WriterState, None]:
        """Yields which program has the writer lease of a log: now, after each change, and every interval
        (None: 1 s; at least 0.1 s). It continues when another node leads the log. Each state is one that the
        log has had; a program may have had the lease between two of them."""
        request = log_pb2.WatchWriterRequest(log=log)
        if interval is not None:
            request.interval.CopyFrom(duration(interval))
        answers = states(self._calls, log, "WatchWriter", request, log_pb2.WatchWriterResponse, lasting=True)
        async with contextlib.aclosing(answers):
            async for answer in answers:
                yield WriterState._read(answer.state)

    async def open_session(
        self, log: str, *, lease: float | None = None, log_id: int = 0, timeout: float | None = None
    ) -> Session:
        """Begins a session at epoch 0, sequence 0. The lease is in seconds; None: 60."""
        request = session_pb2.OpenSessionRequest(log=log, log_id=log_id)
        if lease is not None:
            time_span("lease", lease)
            request.lease.CopyFrom(duration(lease))
        answer = await within(
            timeout, self._calls.to_leader(log, "OpenSession", request, session_pb2.OpenSessionResponse)
        )
        return Session(answer.session_id, answer.epoch, answer.lease.ToMilliseconds() / 1000, answer.log_id)

    async def keep_session(
        self, log: str, session: int, *, log_id: int = 0, timeout: float | None = None
    ) -> None:
        """Renews the lease of a session. Every append does so too."""
        request = session_pb2.KeepSessionRequest(log=log, session_id=session, log_id=log_id)
        await within(
            timeout, self._calls.to_leader(log, "KeepSession", request, session_pb2.KeepSessionResponse)
        )

    async def _renew_session(self, log: str, session: Session, lease: float) -> None:
        request = session_pb2.KeepSessionRequest(log=log, session_id=session.id, log_id=session.log_id)
        await self._calls.to_leader(log, "KeepSession", request, session_pb2.KeepSessionResponse, lease=lease)

    async def close_session(
        self, log: str, session: int, *, log_id: int = 0, timeout: float | None = None
    ) -> None:
        """Ends a session: its appends are refused from then on."""
        request = session_pb2.CloseSessionRequest(log=log, session_id=session, log_id=log_id)
        await within(
            timeout, self._calls.to_leader(log, "CloseSession", request, session_pb2.CloseSessionResponse)
        )

    async def resolve(
        self, log: str, at: Position, *, final: bool = False, timeout: float | None = None
    ) -> Resolution:
        """Returns what became of a record whose answer was lost: see Error.position. With final, a
        record that is not in the log never will be: the session's epoch ends."""
        request = session_pb2.ResolveRequest(
            log=log,
            log_id=at.log_id,
            session_id=at.session,
            epoch=at.epoch,
            sequence=at.next,
            final=final,
        )
        answer = await within(
            timeout, self._calls.to_leader(log, "Resolve", request, session_pb2.ResolveResponse)
        )
        known = answer.HasField("next_sequence")
        try:
            state = ResolveState(answer.state)
        except ValueError:  # of a later version: nothing is known
            state = ResolveState.FORGOTTEN
        return Resolution(state, answer.offset, answer.epoch, answer.next_sequence if known else None)

    async def end_epoch(self, log: str, at: Position, *, timeout: float | None = None) -> Resolution:
        """Ends the epoch of a position for good. The answer's next is how many records of it are in
        the log, and no other ever will be: so a program that was restarted finds out where to resume."""
        last = Position(at.log_id, at.session, at.epoch, _LAST)
        return await self.resolve(log, last, final=True, timeout=timeout)
