import asyncio
from typing import Any

import pytest

import strandline
from strandline.backlog import Backlog, Interruption, ProducerOptions
from strandline.errors import Error, Outcome, Position
from strandline.records import Record, Resolution, ResolveState, Session
from strandline.rounds import Rounds
from strandline.session import ProducerSession
from strandline.v1 import catalog_pb2, log_pb2

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
            request = backlog.close_batch()
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
            backlog.close_batch()
            backlog.close_batch()
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


def test_without_a_session_each_request_has_its_own_answer_when_a_token_is_refused() -> None:
    async def play() -> None:
        token = "a"
        client = strandline.Client("127.0.0.1:1", token=lambda: token)
        backlog = Backlog(ProducerOptions(session=False, max_request_bytes=1))
        rounds = Rounds(client._calls, "orders", backlog, ProducerSession(client._calls, "orders", backlog))
        rounds._shown.metadata()
        token = "b"
        requests = [(await backlog.add(Record(b"x"), None))[0] for _ in range(4)]
        for _ in range(3):
            backlog.close_batch()
        window = backlog.window
        window.sent = 2  # of three in the window
        why = log_pb2.Refusal(reason="UNAUTHENTICATED", metadata={"outcome": "not_done"})
        refused = log_pb2.AppendResponse(refused=why)
        answers = iter([refused, refused])

        class Call:
            async def read(self) -> log_pb2.AppendResponse:
                assert rounds._interruption is None
                return next(answers)

        await rounds._receive(Call())
        for request in requests[:2]:
            error = request.futures[0].exception()
            assert isinstance(error, strandline.Unauthenticated)
            assert (error.outcome, error.retryable) == (Outcome.NOT_DONE, True)
        assert rounds._interruption is not None and rounds._interruption.error.renewed
        assert window.unsent() is None and not window.admits(0), "nothing more goes on that stream"
        rounds._end_stream(rounds._interruption)
        assert window.unsent() is requests[2] and requests[2].outcome == Outcome.NOT_DONE
        await client.close()

    asyncio.run(play())


def test_a_list_in_parts_advances_and_names_each_log_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        async with strandline.Client("127.0.0.1:1") as client:

            def part(next_part: str, *names: str) -> Any:
                logs = [log_pb2.LogInfo(name=name) for name in names]
                return catalog_pb2.ListLogsResponse(logs=logs, next=next_part)

            parts: list[Any] = []

            async def to_leader(*_: Any) -> Any:
                return parts.pop(0)

            monkeypatch.setattr(client._calls, "to_leader", to_leader)
            parts += [part("a", "a"), part("", "a", "b")]  # the other node does not divide it
            assert [log.name for log in await client.admin.list_logs()] == ["a", "b"]
            parts += [part("a"), part("a")]
            with pytest.raises(strandline.Error) as caught:
                await client.admin.list_logs()
            assert caught.value.reason == "CORRUPT"

    asyncio.run(play())
