"""The face without asyncio, as far as it needs no server."""

import logging
import multiprocessing
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import StringIO

import pytest
from silent import Silent

import strandline
from strandline import sync
from strandline.backlog import Backlog, ProducerOptions

ROOM = 1024


@pytest.fixture
def client() -> Iterator[sync.Client]:
    with sync.Client("127.0.0.1:1") as client:
        yield client


@pytest.fixture
def producer(client: sync.Client) -> sync.Producer:
    """A producer that accepts, and sends nothing."""

    async def made() -> strandline.Producer:
        return strandline.Producer(client._client._calls, "orders", ProducerOptions(buffer_bytes=ROOM))

    return sync.Producer(client._loop, client._loop.run(made()))


def in_loop(producer: sync.Producer) -> Backlog:
    return producer._producer._backlog


def test_sends_wait_once_the_buffer_is_full(producer: sync.Producer) -> None:
    sent = [producer.send(b"a" * ROOM)]
    sent += [producer.send(b"%d" % n) for n in range(sync._SENDS_AHEAD)]
    with pytest.raises(strandline.Cancelled) as caught:
        producer.send(b"b", timeout=0.05)
    assert caught.value.outcome is strandline.Outcome.NOT_DONE
    assert producer.position.next == 1
    assert not sent[0].done() and not sent[0].cancel()

    async def answer() -> None:
        backlog = in_loop(producer)
        while backlog.newest() is not None:
            first, request = backlog.next, backlog.close_batch()
            backlog.settle(request, range(first, first + request.count))
            backlog.leave()

    async def begin_session() -> None:
        in_loop(producer).session = strandline.Session(1, 0, 60, 1)

    producer._loop.run(begin_session())
    producer._loop.run(answer())
    sent.append(producer.send(b"c"))
    producer._loop.run(answer())
    assert [one.result(60) for one in sent] == list(range(len(sent)))


def test_a_send_that_is_not_accepted_in_time_says_so_in_its_future(producer: sync.Producer) -> None:
    producer.send(b"a" * ROOM)
    with pytest.raises(strandline.Cancelled) as caught:
        producer.send(b"b", timeout=0.05).result(60)
    assert caught.value.outcome is strandline.Outcome.NOT_DONE


def test_a_sent_record_that_fails_says_so_in_its_future(producer: sync.Producer) -> None:
    sent = producer.send(b"a")

    async def fail() -> None:
        backlog = in_loop(producer)
        backlog.settle_error(backlog.close_batch(), strandline.Error("FULL", "no room", retryable=True))

    producer._loop.run(fail())
    with pytest.raises(strandline.Full):
        sent.result(60)


def test_a_thread_that_nothing_would_wake_hears_that_the_client_was_closed(
    client: sync.Client, producer: sync.Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "_CALLS_END_WITHIN", 0.01)
    producer.send(b"a" * ROOM)
    sent = producer.send(b"b")
    with ThreadPoolExecutor() as threads:
        appending = threads.submit(producer.append, b"c")
        while len(in_loop(producer)._waiting) < 2 and not appending.done():
            pass
        client.close()
        for one in (sent, appending):
            with pytest.raises(strandline.Closed) as caught:
                one.result(60)
            assert caught.value.outcome is strandline.Outcome.MAYBE_DONE


def closes_clients() -> None:
    """Fails if a client that is closed has an effect on another one."""
    logged = StringIO()
    logging.basicConfig(stream=logged)
    server = Silent()
    with sync.Client(server.address) as lasting:
        for _ in range(20):
            with sync.Client(server.address) as short, ThreadPoolExecutor(1) as threads:
                asking = threads.submit(short.admin.info, "orders")
                assert lasting.admin.open_session("orders").id == 1
                short.close()
                with pytest.raises(strandline.Closed):
                    asking.result(60)
    server.close()
    assert not logged.getvalue()
    assert not [t for t in threading.enumerate() if t.name == "strandline"]


def test_a_client_that_is_closed_takes_no_events_of_others() -> None:
    # In a process of its own: gRPC hands the loop here events of loops that other tests have closed, which
    # it logs.
    process = multiprocessing.get_context("spawn").Process(target=closes_clients)
    process.start()
    process.join(60)
    assert process.exitcode == 0
