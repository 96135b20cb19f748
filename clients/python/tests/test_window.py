import asyncio

from strandline.errors import Outcome
from strandline.window import Request, State, Window


def request(size: int, first: int = 0) -> Request:
    return Request(0.0, size=size, first=first)


def test_the_automatic_window_takes_few_small_requests_and_many_large_ones() -> None:
    small, large = Window(None, None), Window(None, None)
    for _ in range(4):
        assert small.admits(100)
        small.push(request(100))
    assert not small.admits(100)
    assert small.admits(64 << 10)
    for _ in range(64):
        assert large.admits(64 << 10)
        large.push(request(64 << 10))
    assert not large.admits(64 << 10)


def test_a_request_larger_than_the_window_goes_alone() -> None:
    w = Window(8, 1000)
    assert w.admits(5000)
    w.push(request(5000))
    assert not w.admits(1)


def test_requests_that_failed_wait_only_for_their_refusals() -> None:
    w = Window(8, None)
    for first in range(4):
        w.push(request(10, first))
    w.sent = 2
    assert [r.first for r in w.fail()] == [0, 1, 2, 3]
    assert [r.state for r in w.flight] == [State.FAILED, State.FAILED]
    w.push(request(10, 7))
    assert w.low_water() == 7
    w.reset()
    assert [r.first for r in w.flight] == [7]
    assert w.sent == 0


def test_doubt_is_about_requests_that_can_still_be_settled() -> None:
    async def made() -> None:
        w = Window(8, None)
        r = request(10)
        w.push(r)
        assert not w.doubtful()
        r.outcome = Outcome.MAYBE_DONE
        assert w.doubtful()
        r.state = State.FAILED
        assert not w.doubtful()

    asyncio.run(made())
