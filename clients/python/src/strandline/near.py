"""Which nodes are near."""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING

from strandline.errors import Error
from strandline.peers import CONNECT_PATIENCE

if TYPE_CHECKING:
    from strandline.calls import Calls

_TRIP_LASTS = 60.0
"""How long, in seconds, a measured round trip is believed: where nodes are changes rarely, and a measure
is one question to each."""


class Near:
    """Knows how far nodes are, and for those who want the same labels a node that is near."""

    def __init__(self) -> None:
        self._nodes: dict[str, str] = {}  # addresses
        self._trips: dict[str, tuple[float, float]] = {}  # how long, and when it was measured
        self._asking: dict[str, asyncio.Task[bool]] = {}

    async def close(self) -> None:
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    def at(self, key: str | None) -> str | None:
        return None if key is None else self._nodes.get(key)

    def remember(self, key: str, address: str) -> None:
        self._nodes[key] = address

    def forget(self, key: str | None, address: str) -> None:
        """Notes that a node did not serve."""
        if key is not None and self._nodes.get(key) == address:
            del self._nodes[key]

    def _trip(self, address: str) -> float | None:
        took, at = self._trips.get(address, (0.0, -math.inf))
        return took if time.monotonic() - at < _TRIP_LASTS else None

    async def sort(self, calls: Calls, addresses: list[str], log: str) -> list[str]:
        """Sorts nodes by how long they take to answer. Those of which that is not known are all asked at
        once. It waits for the first, and then as long again: who takes longer is far away. Where one is
        known already, the others are asked for the next reader."""
        asked = {self._ask(calls, a, log) for a in addresses if self._trip(a) is None}
        if len(asked) == len(addresses):
            began = time.monotonic()
            answered = False
            until = began + CONNECT_PATIENCE
            while asked and until > time.monotonic():
                done, asked = await asyncio.wait(
                    asked, timeout=until - time.monotonic(), return_when=asyncio.FIRST_COMPLETED
                )
                if not answered and any(not task.cancelled() and task.result() for task in done):
                    answered = True
                    until = 2 * time.monotonic() - began
        trips = {address: self._trip(address) for address in addresses}
        return sorted(addresses, key=lambda a: math.inf if (took := trips[a]) is None else took)

    def _ask(self, calls: Calls, address: str, log: str) -> asyncio.Task[bool]:
        if address not in self._asking:
            task = asyncio.get_running_loop().create_task(self._measure(calls, address, log))
            self._asking[address] = task
            task.add_done_callback(lambda _: self._asking.pop(address, None))
        return self._asking[address]

    async def _measure(self, calls: Calls, address: str, log: str) -> bool:
        """Asks a node something that it knows, once there is a connection. False: it does not answer."""
        took = math.inf
        try:
            peer = calls.peers.at(address)
            await peer.connect(2 * CONNECT_PATIENCE)
            began = time.monotonic()
            await calls.known_info(peer, log)
            took = time.monotonic() - began
        except Error:
            pass
        self._trips[address] = took, time.monotonic()
        return took < math.inf
