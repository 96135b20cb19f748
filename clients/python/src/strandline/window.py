"""Requests on their way, and how many of them may be. Nothing here waits or calls anybody."""

from __future__ import annotations

import asyncio
import enum
from dataclasses import dataclass, field

from strandline.errors import Outcome
from strandline.v1 import log_pb2

# The automatic window. Few small requests at a time make callers that wait for each append meet in
# one; many large ones fill a long link.
_REQUESTS, _SMALL, _LARGE, _BYTES = 64, 4, 64 << 10, 16 << 20


class State(enum.Enum):
    ACCEPTED = 1  # it forms or is queued, and has no place in its session
    IN_FLIGHT = 2  # it is in the window
    FAILED = 3  # it was settled with one in front of it, while its own answer is still to come


@dataclass(eq=False)
class Request:
    """Records that travel together: accepted, sealed, sent, perhaps sent again, and settled once."""

    accepted: float  # when the first record came
    message: log_pb2.AppendRequest = field(default_factory=log_pb2.AppendRequest)
    futures: list[asyncio.Future[int]] = field(default_factory=list)  # one for each record
    # Callers have the futures, and may cancel them.
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    size: int = 0
    urgent: bool = False  # does not linger
    state: State = State.ACCEPTED
    session: int = 0  # with epoch and first: the place in the session, once in flight
    epoch: int = 0
    first: int = 0
    sends: int = 0
    sent: float = 0.0  # when first
    outcome: Outcome = Outcome.NOT_DONE  # of all sendings that have ended

    @property
    def count(self) -> int:
        return len(self.futures)


class Window:
    """The requests in flight, oldest first: those that were put, or are just being put, on a stream and
    have no answer. A request enters before its first byte leaves."""

    def __init__(self, requests: int | None, size: int | None) -> None:
        self._requests = requests or _REQUESTS
        self._small = requests or _SMALL
        self._most = size or _BYTES
        self.flight: list[Request] = []
        self.sent = 0  # of them, on the stream that is open now
        self.held = False  # nothing more is put on that stream
        self._bytes = 0

    def admits(self, size: int) -> bool:
        """Whether a request of that size may be sent now. One that is larger than the window goes alone."""
        n = len(self.flight)
        if self.held:
            return False
        if n == 0:
            return True
        if n >= self._requests or self._bytes + size > self._most:
            return False
        return n < self._small or size >= _LARGE

    def push(self, r: Request) -> None:
        self.flight.append(r)
        self._bytes += r.size

    def unsent(self) -> Request | None:
        """The next request that has to be sent on this stream."""
        return self.flight[self.sent] if self.sent < len(self.flight) and not self.held else None

    def oldest(self) -> Request | None:
        """The request that the next answer is for."""
        return self.flight[0] if self.sent else None

    def pop(self) -> Request:
        r = self.flight.pop(0)
        self._bytes -= r.size
        self.sent = max(0, self.sent - 1)
        return r

    def reset(self) -> None:
        """For a stream that has ended: all has to be sent again, but for what has failed already."""
        self.flight = [r for r in self.flight if r.state is not State.FAILED]
        self._bytes = sum(r.size for r in self.flight)
        self.sent, self.held = 0, False

    def fail(self) -> list[Request]:
        """Takes out what is not on the stream, marks the rest, and returns all that had not failed."""
        ended = [r for r in self.flight if r.state is not State.FAILED]
        for r in self.flight[: self.sent]:
            r.state = State.FAILED
        del self.flight[self.sent :]
        self._bytes = sum(r.size for r in self.flight)
        return ended

    def low_water(self) -> int:
        """The sequence below which all answers are there. There is a request that waits."""
        return next(r.first for r in self.flight if r.state is not State.FAILED)

    def doubtful(self) -> bool:
        """Whether a request may be in the log by an earlier sending."""
        return any(r.outcome != Outcome.NOT_DONE and r.state is not State.FAILED for r in self.flight)
