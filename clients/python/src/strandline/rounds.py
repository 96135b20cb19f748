"""How a producer sends: rounds, each on one stream, and what is repaired between them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from typing import Any

import grpc

from strandline.admin import Admin
from strandline.backlog import Backlog, Interruption
from strandline.bounded import Late, bounded
from strandline.calls import PATHS, SUSPECT_AFTER, Calls, Shown, ToLeader
from strandline.errors import Error, Outcome, Position, closed, from_refusal, silent, unreachable
from strandline.peers import Pauses
from strandline.records import Resolution, ResolveState
from strandline.session import ProducerSession
from strandline.v1 import log_pb2
from strandline.window import Request, State

_RESOLVE_AT_LEAST = 1.0
"""The log is asked for so long even if the oldest record has hardly any time left."""


class Rounds:
    """Sends what a backlog holds. A round begins with a stream and ends with an interruption, which
    says why; between two of them repair decides what becomes of what has no answer."""

    def __init__(self, calls: Calls, log: str, backlog: Backlog, session: ProducerSession) -> None:
        self._calls, self._log, self._backlog, self._session = calls, log, backlog, session
        self._options, self._window = backlog.options, backlog.window
        self._route = ToLeader(calls, log)
        self._admin = Admin(calls)
        self._shown = Shown(calls)
        self._end = asyncio.Event()
        self._interruption: Interruption | None = None
        self._over = asyncio.Event()  # the round is
        self._appended = 0  # requests
        self._troubled = False  # the application was told so
        self._woken = False  # callers whose next records may come at once

    def work(self) -> Iterator[Coroutine[Any, Any, None]]:
        """What has to run: the rounds, and the clocks that watch them."""
        yield self._run()
        yield self._watch()
        if self._options.session:
            yield self._keep()

    def end(self, i: Interruption) -> None:
        """Ends the producer: what has no answer fails."""
        self._end.set()
        self._interrupt(i)

    def _interrupt(self, i: Interruption) -> None:
        """Ends the round, or the next one if there is none now. Of several reasons the first counts."""
        if self._interruption is None:
            self._interruption = i
        self._over.set()
        self._backlog.wake.set()

    async def _run(self) -> None:
        try:
            await self._run_rounds()
        finally:
            # Also where the event loop is about to end: nobody else settles what was accepted.
            i = Interruption(self._calls.failure(closed("producer")))
            self._end_stream(i)
            self._backlog.fail(i)

    async def _run_rounds(self) -> None:
        pauses: Pauses | None = None
        width = 1
        while not self._end.is_set():
            if self._backlog.newest() is None and self._interruption is None:
                pauses = None
                self._backlog.wake.clear()
                await self._backlog.wake.wait()
                continue
            before = self._appended
            await self._round(pauses, width)
            if self._appended != before:
                pauses = None
            elif pauses is None:
                pauses = Pauses()
            i = self._interruption or Interruption(closed("producer"))
            self._interruption = None
            self._over.clear()
            width = self._route.width(i.error) if i.error.elsewhere else 1
            if i.error.again and i.error.reason != "TIMED_OUT" and not self._end.is_set():
                self._troubled = True
                self._calls.trouble(self._log, i.error)
            await self._repair(i)
            if self._interruption is not None and self._interruption.error.reason == "TIMED_OUT":
                # What it was about may be settled by now; else the watch interrupts again.
                self._interruption = None
                self._over.clear()

    async def _round(self, pauses: Pauses | None, width: int) -> None:
        """Runs a round until it is interrupted."""
        serving = asyncio.create_task(self._serve(pauses, width))
        try:
            await self._over.wait()
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    async def _serve(self, pauses: Pauses | None, width: int) -> None:
        try:
            if pauses is not None:
                await pauses.between(self._route.tried(), width)
            peer = await self._route.connect()
            await self._session.reopen()
            metadata = self._shown.metadata()
        except Exception as error:
            self._interrupt(Interruption(self._calls.failure(error)))
            return
        call = peer.channel.stream_stream(
            PATHS["Append"],
            request_serializer=log_pb2.AppendRequest.SerializeToString,
            response_deserializer=log_pb2.AppendResponse.FromString,
        )(metadata=metadata)
        self._backlog.counts.streams += 1
        receiving = asyncio.create_task(self._receive(call))
        try:
            await self._send(call)
        except (Exception, asyncio.CancelledError) as error:  # a client that is closed cancels the call
            self._interrupt(Interruption(self._calls.failure(error)))
        finally:
            receiving.cancel()
            call.cancel()
            await asyncio.gather(receiving, return_exceptions=True)

    async def _send(self, call: Any) -> None:
        """Puts requests on the stream, in order. Why the stream breaks the receiver says."""
        name = self._log
        while True:
            r = await self._take()
            m, low_water = r.message, self._window.low_water()
            m.log, m.log_id, m.writer_term = name, self._backlog.log_id, self._options.writer_term
            m.session_id, m.epoch, m.first_sequence, m.low_water = r.session, r.epoch, r.first, low_water
            if not r.session:
                m.low_water = 0
            self._window.sent += 1
            r.sends += 1
            self._backlog.counts.resent += r.sends > 1
            r.sent = r.sent or time.monotonic()
            try:
                await call.write(m)
            except Exception:
                await self._over.wait()
            name = ""

    async def _take(self) -> Request:
        """Waits for the next request for this stream, in the window already."""
        b = self._backlog
        while True:
            b.wake.clear()
            unsent = self._window.unsent()
            if unsent is not None:
                return unsent
            r = b.candidate()
            if r is None or not self._window.admits(r.size):
                await b.wake.wait()
            elif r is b.forming and (left := self._lingers(r)) > 0:
                try:
                    await bounded(b.wake.wait(), left)
                except Late:
                    pass
            elif r is b.forming and self._woken:
                self._woken = False
                await asyncio.sleep(0)
            else:
                b.close_batch()

    def _lingers(self, r: Request) -> float:
        if self._options.linger == 0 or r.urgent:
            return 0
        return self._options.linger - (time.monotonic() - r.accepted)

    async def _receive(self, call: Any) -> None:
        """Takes the answers of one stream, which come in the order of the requests."""
        last: Interruption | None = None  # which waits for the answers to what was sent
        try:
            while last is None or self._window.sent > 0:
                answer = await call.read()
                if answer is grpc.aio.EOF:
                    raise unreachable(Outcome.MAYBE_DONE, "the server ended the stream")
                r = self._window.oldest()
                if r is None:
                    raise unreachable(Outcome.MAYBE_DONE, "an answer without a request")
                if r.state is State.FAILED:
                    self._backlog.leave()
                elif answer.WhichOneof("result") == "appended":
                    self._take_offsets(r, answer.appended)
                elif last is not None:
                    refused = from_refusal(answer.refused)
                    # It was sent with the same token, and there is another.
                    alike = refused.reason == "UNAUTHENTICATED"
                    self._settle_error(r, refused.but(retryable=True) if alike else refused)
                else:
                    i = self._refused(r, self._shown.failure(from_refusal(answer.refused)))
                    if i is not None and not self._window.held:
                        self._interrupt(i)
                        return
                    last = i
            self._interrupt(last)
        except (Exception, asyncio.CancelledError) as error:  # a client that is closed cancels the call
            self._interrupt(last or Interruption(self._shown.failure(self._calls.failure(error))))

    def _take_offsets(self, r: Request, a: log_pb2.Appended) -> None:
        offsets: list[int] = []
        for run in a.ranges or (log_pb2.OffsetRange(first=a.first_offset, end=a.end_offset),):
            offsets.extend(range(run.first, min(run.end, run.first + r.count - len(offsets) + 1)))
        if len(offsets) == r.count:
            self._settle(r, offsets)
        else:
            self._settle_error(
                r, Error("OUTCOME_FORGOTTEN", "the answer does not match the request", outcome=Outcome.DONE)
            )

    def _settle(self, r: Request, offsets: list[int]) -> None:
        self._appended += 1
        self._shown.progressed()
        self._woken = True
        if self._troubled:
            self._troubled = False
            self._calls.trouble(self._log, None)
        self._backlog.settle(r, offsets)
        self._backlog.leave()

    def _settle_error(self, r: Request, error: Error) -> None:
        self._backlog.settle_error(r, error)
        self._backlog.leave()

    def _refused(self, r: Request, error: Error) -> Interruption | None:
        """Deals with a refusal of the oldest request. What takes more than failing requests ends the
        round."""
        if not self._options.session:
            # Those behind it have answers of their own: without a session nothing else says what became
            # of them.
            self._window.held = error.renewed
            self._settle_error(r, error)
            return Interruption(error, r) if error.elsewhere or error.renewed else None
        if error.outcome == Outcome.DONE:
            # It is in the log, so nothing slips ahead of it: those behind continue.
            self._settle_error(r, error)
            return None
        settled = error.outcome == Outcome.NOT_DONE and not self._window.doubtful()
        if error.again or error.ends_session or not settled:
            return Interruption(error, r)
        self._backlog.fail(Interruption(error, r))
        self._backlog.leave()
        return None

    async def _repair(self, i: Interruption) -> None:
        """Decides what becomes of the requests that a round left without an answer:

        producer or client closed       all fail
        no session                      what was sent fails: sending again could append twice
        another try may help            all stay and are sent again, in order
        no answer for too long          all fail, what was sent as in doubt
        the session is gone, or
        the log refused for good        what is in doubt is resolved, the rest fails; if all that was
                                        sent is in the log, nothing does
        """
        if self._end.is_set():
            i = Interruption(closed("producer"))
        self._end_stream(i)
        if i.error.elsewhere:
            self._route.elsewhere(i.error)
        # Unless its answer came while the stream was being ended.
        timed_out = i.error.reason == "TIMED_OUT" and self._backlog.overdue(time.monotonic())
        if self._end.is_set() or i.error.reason == "CLOSED" or timed_out:
            self._backlog.fail(i)
        elif not self._options.session:
            self._fail_sent(i.error)
            if not i.error.again:
                self._backlog.fail(i)
        elif i.error.again:
            pass
        elif i.error.ends_session:
            await self._resolve(final=False)
            doubtful = self._window.doubtful()
            self._backlog.continue_or_fail(i)
            if doubtful:
                self._backlog.stop(i.error)
            else:
                self._session.forget()
        else:
            await self._resolve(final=True)
            self._backlog.continue_or_fail(i)

    def _end_stream(self, i: Interruption) -> None:
        """Takes note of what the stream that ended has sent: it may be in the log, unless an answer
        says more. Of the request that was refused the refusal does, and in a session that has ended
        nothing sent behind it can be in the log."""
        for r in self._window.flight[: self._window.sent]:
            if r is i.refused:
                r.outcome = max(r.outcome, i.error.outcome)
            elif i.refused is None or not i.error.ends_session:
                r.outcome = max(r.outcome, Outcome.MAYBE_DONE)
        self._window.reset()

    def _fail_sent(self, error: Error) -> None:
        """Settles what was sent without a session and not answered."""
        while self._window.flight and self._window.flight[0].outcome != Outcome.NOT_DONE:
            self._settle_error(self._window.flight[0], error.but(outcome=Outcome.MAYBE_DONE))

    async def _resolve(self, final: bool) -> None:
        """Asks the log what became of the requests in doubt. Those that are in it get their offsets.
        The first that never will be clears those behind it too, as a session has no gaps. What is not
        resolved in time stays in doubt."""
        timeout = self._options.record_timeout
        oldest = self._backlog.oldest()
        if timeout is not None and oldest is not None:
            timeout = max(timeout - (time.monotonic() - oldest.accepted), _RESOLVE_AT_LEAST)
        resolving = asyncio.create_task(self._resolve_all(final))
        # Not any interruption: the watch interrupts for the time, which has its own bound here.
        ending = asyncio.create_task(self._end.wait())
        await asyncio.wait([resolving, ending], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        resolving.cancel()
        ending.cancel()
        await asyncio.gather(resolving, ending, return_exceptions=True)

    async def _resolve_all(self, final: bool) -> None:
        b = self._backlog
        while self._window.flight and self._window.flight[0].outcome != Outcome.NOT_DONE:
            r = self._window.flight[0]
            session = b.session
            assert session is not None
            position = Position(b.log_id, session.id, r.epoch, r.first)
            found = await self._resolve_one(position, final)
            b.session = replace(session, epoch=max(session.epoch, found.epoch))
            if found.state is ResolveState.NEVER:
                for other in self._window.flight:
                    other.outcome = Outcome.NOT_DONE  # the log says so of all sendings together
            if found.state is not ResolveState.COMMITTED:
                return
            # A large request may be in the log in pieces: the last record says whether it is in one.
            last = found
            if r.count > 1:
                last = await self._resolve_one(replace(position, next=r.first + r.count - 1), final)
            if last.state is not ResolveState.COMMITTED:
                return
            run = log_pb2.Appended(first_offset=found.offset, end_offset=last.offset + 1)
            self._take_offsets(r, run)

    async def _resolve_one(self, at: Position, final: bool) -> Resolution:
        """Asks until the answer is not "on its way"."""
        pauses = Pauses()
        while True:
            found = await self._admin.resolve(self._log, at, final=final)
            if found.state is not ResolveState.PENDING:
                return found
            await pauses.wait()

    async def _watch(self) -> None:
        """Ends rounds that take too long, and leaves a leader that has fallen silent."""
        timeout = self._options.record_timeout
        beat = min(1.0, timeout / 4 if timeout else 1.0)
        if self._options.session:
            beat = min(beat, self._options.lease / 12)
        while not self._end.is_set():
            await self._beat(beat)
            now = time.monotonic()
            if self._backlog.overdue(now):
                error = Error("TIMED_OUT", f"no answer within {timeout:g} s", retryable=True)
                self._interrupt(Interruption(error))
            await self._suspect(now)

    async def _beat(self, seconds: float) -> None:
        """Waits, or until the producer ends."""
        try:
            await bounded(self._end.wait(), seconds)
        except Late:
            pass

    async def _suspect(self, now: float) -> None:
        """Ends the round if the node that has our requests is silent and another leads by now. Should
        the others be wrong, that one says so, and what was sent again is recognised."""
        w, node = self._window, self._route.tried()
        if not w.sent or now - max(self._backlog.last_sign, w.flight[0].sent) <= SUSPECT_AFTER:
            return
        # Who is believed to lead does not matter: a call may have found that out meanwhile.
        leader = None if node is None else await self._calls.newer_leader(self._log, node.address)
        if leader is not None and node is self._route.tried():
            self._interrupt(Interruption(silent(leader)))

    async def _keep(self) -> None:
        """Keeps the lease of a session that is idle."""
        while not self._end.is_set():
            await self._beat(min(1.0, self._options.lease / 12))
            error = await self._session.keep()
            if error is not None and error.ends_session:
                self._interrupt(Interruption(error))
