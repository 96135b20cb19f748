"""The nodes, and what is known of who leads which log."""

from __future__ import annotations

import asyncio
import ipaddress
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import grpc

from strandline.bounded import Late, bounded
from strandline.errors import Error, Outcome, closed, unreachable

_MAX_MESSAGE = 64 << 20
_OPTIONS: list[tuple[str, Any]] = [
    ("grpc.max_receive_message_length", _MAX_MESSAGE),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.max_reconnect_backoff_ms", 250),
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.http2.lookahead_bytes", 4 << 20),
]

CONNECT_PATIENCE = 1.0
"""How long, in seconds, a node may take to take a connection while there are others to try."""


class Peer:
    """One node."""

    def __init__(self, address: str, credentials: grpc.ChannelCredentials | None) -> None:
        self.address = address
        if credentials is None:
            self.channel = grpc.aio.insecure_channel(address, options=_OPTIONS)
        else:
            self.channel = grpc.aio.secure_channel(address, credentials, options=_OPTIONS)
        self.state = self.channel.get_state()
        self._changed = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await self.channel.close()
        self._set(grpc.ChannelConnectivity.SHUTDOWN)

    async def _watch(self) -> None:
        """Keeps the state of the connection, and wakes those who wait for it to change."""
        while True:
            await self.channel.wait_for_state_change(self.state)
            self._set(self.channel.get_state())

    def _set(self, state: grpc.ChannelConnectivity) -> None:
        if state != self.state:
            self.state = state
            self._changed.set()
            self._changed = asyncio.Event()

    async def connect(self, patience: float | None) -> None:
        """Waits until the connection is up. With an error nothing has been sent."""
        loop = asyncio.get_running_loop()
        until = None if patience is None else loop.time() + patience
        self._set(self.channel.get_state(try_to_connect=True))
        if self._watching is None:
            self._watching = loop.create_task(self._watch())
        while self.state != grpc.ChannelConnectivity.READY:
            if self.state == grpc.ChannelConnectivity.TRANSIENT_FAILURE:
                raise unreachable(Outcome.NOT_DONE, f"no connection to {self.address}")
            if self.state == grpc.ChannelConnectivity.SHUTDOWN:
                raise closed("client")
            if self.state == grpc.ChannelConnectivity.IDLE:
                self.channel.get_state(try_to_connect=True)
            if not await self.change(None if until is None else until - loop.time()):
                raise unreachable(Outcome.NOT_DONE, f"{self.address} takes no connection for now")

    async def change(self, seconds: float | None) -> bool:
        """Waits for the state of the connection to change. False: it did not in time."""
        try:
            await bounded(self._changed.wait(), seconds)
        except Late:
            return False
        return True


@dataclass
class _Lead:
    """Who is believed to lead a log."""

    address: str
    named: bool = False  # by a node; else it is only the next to be asked
    turn: int = 0  # of the dialled addresses
    hops: int = 0  # hints followed in a row
    moved: float = 0.0


_MAX_HOPS = 2  # nodes that know too little can point at each other
_HOPS_FORGOTTEN = 1.0


class Peers:
    """All nodes that a client knows."""

    def __init__(self, addresses: Sequence[str], credentials: grpc.ChannelCredentials | None, anywhere: bool):
        self.addresses = list(addresses)
        self.closed = False
        self._credentials = credentials
        self._anywhere = anywhere
        self._known: dict[str, Peer] = {}
        self._leads: dict[str, _Lead] = {}

    async def close(self) -> None:
        self.closed = True
        await asyncio.gather(*(peer.close() for peer in self._known.values()))

    def _lead(self, log: str) -> _Lead:
        return self._leads.setdefault(log, _Lead(self.addresses[0]))

    def leader(self, log: str) -> str:
        return self._lead(log).address

    def named(self, log: str) -> bool:
        """Whether a node has said who leads the log, and nothing has spoken against it since."""
        return self._lead(log).named

    def at(self, address: str) -> Peer:
        if self.closed:
            raise closed("client")
        if address not in self._known:
            self._known[address] = Peer(address, self._credentials)
        return self._known[address]

    async def connect(self, peer: Peer) -> None:
        if self.closed:
            raise closed("client")
        await peer.connect(CONNECT_PATIENCE if len(self.addresses) > 1 else None)

    def prefer(self, log: str, address: str) -> None:
        """Remembers who is said to lead a log."""
        if self.usable(address):
            lead = self._lead(log)
            lead.address, lead.named = address, True

    def usable(self, hint: str) -> bool:
        """Whether a hint is worth following."""
        try:
            check_address(hint, self._anywhere)
        except Error:
            return False
        host = hint.rpartition(":")[0].strip("[]")
        if host in ("", "0.0.0.0", "::"):
            return False
        known = self._known.get(hint)
        return known is None or known.state != grpc.ChannelConnectivity.TRANSIENT_FAILURE

    def look_elsewhere(self, log: str, tried: Peer | None, hint: str) -> None:
        """Notes that the node tried last does not serve the log: the next one is whom it named, or
        the next dialled address. Of callers that tried the same node in vain only the first moves on."""
        lead = self._lead(log)
        if tried is None or lead.address != tried.address:
            return
        now = time.monotonic()
        if now - lead.moved > _HOPS_FORGOTTEN:
            lead.hops = 0
        lead.moved = now
        if hint != tried.address and lead.hops < _MAX_HOPS and self.usable(hint):
            lead.address, lead.named = hint, True
            lead.hops += 1
            return
        lead.named, lead.hops = False, 0
        for _ in self.addresses:
            lead.turn = (lead.turn + 1) % len(self.addresses)
            lead.address = self.addresses[lead.turn]
            if lead.address != tried.address:
                return


def check_address(address: str, anywhere: bool) -> None:
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        raise Error("INVALID", f"address {address!r} is not HOST:PORT")
    if anywhere or host == "localhost":
        return
    try:
        if ipaddress.ip_address(host.strip("[]")).is_loopback:
            return
    except ValueError:
        pass
    raise Error("INVALID", f"address {address} is not loopback: it needs tls, or insecure=True")


_FIRST_DELAY, _LAST_DELAY = 0.010, 0.100


class Pauses:
    """Lie between tries. The longest that one can be doubles, and each is between half and all of
    that, so that clients which lost the same node do not come back together."""

    def __init__(self) -> None:
        self.delay = _FIRST_DELAY
        self._tries = 0  # since the last pause, each at another node

    async def between(self, tried: Peer | None, width: int) -> None:
        """Pauses only when so many nodes have been tried since the last pause."""
        self._tries += 1
        if self._tries < width:
            await asyncio.sleep(0)
            return
        await self.wait(tried)

    async def wait(self, tried: Peer | None = None) -> None:
        """Pauses, or less if the connection to a node that could not be reached changes before."""
        delay = self.delay * random.uniform(0.5, 1)
        self.delay = min(2 * self.delay, _LAST_DELAY)
        if tried is not None and tried.state == grpc.ChannelConnectivity.TRANSIENT_FAILURE:
            await tried.change(delay)
        else:
            await asyncio.sleep(delay)
        self._tries = 0
