"""Where logs end, asked for by many at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from strandline.errors import Error, Outcome, closed


class Ends:
    """The ends of logs that are being asked for. Who comes while a call is under way is answered by the
    next one, with all others who came: what was acknowledged before lies below."""

    def __init__(self, ask: Callable[[str], Awaitable[int]]) -> None:
        self._ask = ask
        self._next: dict[str, asyncio.Future[int] | None] = {}  # by log: who came while a call is under way
        self._running: set[asyncio.Task[None]] = set()

    async def end(self, log: str) -> int:
        """The answer to a call that begins from now on."""
        answer = self._next.get(log)
        if answer is None:
            answer = asyncio.get_running_loop().create_future()
            answer.add_done_callback(_take_note)
            if log in self._next:
                self._next[log] = answer
            else:
                self._next[log] = None
                running = asyncio.ensure_future(self._run(log, answer))
                self._running.add(running)
                running.add_done_callback(self._running.discard)
        try:
            return await asyncio.shield(answer)
        except Error as error:
            raise error.but() from None  # each caller gets one of its own

    async def _run(self, log: str, answer: asyncio.Future[int] | None) -> None:
        """Asks, and then for those who have come meanwhile, until nobody has."""
        try:
            while answer is not None:
                try:
                    answer.set_result(await self._ask(log))
                except Exception as error:
                    answer.set_exception(error)
                answer, self._next[log] = self._next[log], None
        finally:
            # Where this is cancelled the event loop, or the client, is about to end.
            for left in (answer, self._next.pop(log)):
                if left is not None and not left.done():
                    left.set_exception(closed("client", Outcome.NOT_DONE))


def _take_note(answer: asyncio.Future[int]) -> None:
    if not answer.cancelled():
        answer.exception()  # nobody may wait for it any more
