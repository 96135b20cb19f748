import asyncio
from typing import Any

import pytest

import strandline
from strandline.backlog import Backlog, Interruption, ProducerOptions
from strandline.errors import Error, Outcome, Position
from strandline.records import Record, Resolution, ResolveState, Session
from strandline.rounds import Rounds
from strandline.session import ProducerSession

TIMED_OUT = Interruption(Error("TIMED_OUT", "no answer in time", retryable=True))


def test_a_record_whose_time_ends_while_the_log_is_asked_gets_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play() -> None:
        client = strandline.Client("127.0.0.1:1")
        backlog = Backlog(ProducerOptions())
        backlog.session = Session(1, 0, 60, 2)
        rounds = Rounds(client._calls, "orders", backlog, ProducerSession(client._calls, "orders", backlog))
        asked, answer, second_round = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def resolve(log: str, at: Position, *, final: bool) -> Resolution:
            asked.set()
            await answer.wait()
            return Resolution(ResolveState.COMMITTED, 7, 0, 1)

        async def run_round(*_: Any) -> None:
            if asked.is_set():
                second_round.set()
                await rounds._over.wait()
                return
            request = backlog.seal()
            backlog.window.sent = 1
            rounds._interrupt(Interruption(Error("SEALED", "", outcome=Outcome.MAYBE_DONE), request))

        monkeypatch.setattr(rounds._admin, "resolve", resolve)
        monkeypatch.setattr(rounds, "_round", run_round)
        running = asyncio.create_task(rounds._run())
        first, _ = await backlog.add(Record(b"a"), None)
        await asyncio.wait_for(asked.wait(), 60)
        second, _ = await backlog.add(Record(b"b"), None)
        rounds._interrupt(TIMED_OUT)
        for _ in range(10):  # whoever waits for an interruption runs
            await asyncio.sleep(0)
        answer.set()
        assert await asyncio.wait_for(first.futures[0], 60) == 7

        # The time of the record behind it has not ended.
        await asyncio.wait_for(second_round.wait(), 60)
        assert not rounds._over.is_set()
        rounds.end(Interruption(Error("CLOSED", "")))
        await running
        assert isinstance(second.futures[0].exception(), strandline.Closed)
        await client.close()

    asyncio.run(play())


def test_an_answer_that_comes_while_the_round_times_out_saves_the_records_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play() -> None:
        client = strandline.Client("127.0.0.1:1")
        backlog = Backlog(ProducerOptions(record_timeout=60, max_request_bytes=1))
        backlog.session = Session(1, 0, 60, 2)
        rounds = Rounds(client._calls, "orders", backlog, ProducerSession(client._calls, "orders", backlog))
        first, _ = await backlog.add(Record(b"a"), None)
        second, _ = await backlog.add(Record(b"b"), None)
        second_round = asyncio.Event()

        async def run_round(*_: Any) -> None:
            if first.futures[0].done():
                second_round.set()
                await rounds._over.wait()
                return
            backlog.seal()
            backlog.seal()
            backlog.window.sent = 2
            first.accepted -= 61  # the watch looks
            rounds._interrupt(TIMED_OUT)
            rounds._settle(first, [0])  # and the answer comes before the stream has ended

        monkeypatch.setattr(rounds, "_round", run_round)
        running = asyncio.create_task(rounds._run())
        await asyncio.wait_for(second_round.wait(), 60)
        assert first.futures[0].result() == 0
        assert backlog.window.flight == [second], "it is sent again"
        rounds.end(Interruption(Error("CLOSED", "")))
        await running
        await client.close()

    asyncio.run(play())
