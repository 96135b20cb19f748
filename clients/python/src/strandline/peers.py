"""The nodes, and what is known of who leads which log."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import grpc

from strandline.bounded import Late, bounded
from strandline.errors import Error, Outcome, closed, invalid, unreachable

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
    # What a reader that is not read from holds: left alone, gRPC widens the window while a read is fast.
    ("grpc.http2.lookahead_bytes", 4 << 20),
    ("grpc.http2.bdp_probe", 0),
]

_CHECK = "/strandline.v1.LogService/GetInfo"

CONNECT_PATIENCE = 1.0
"""How long, in seconds, a node may take to take a connection while there are others to try."""


_SILENCE_REMEMBERED = 1.0
"""For so long, in seconds, hints to a node that did not answer are not followed."""

_CAUSE_PATIENCE = 0.5

_LASTING = (
    "CERTIFICATE_VERIFY_FAILED",
    "WRONG_VERSION_NUMBER",
    "Hostname Verification Check failed",
    "is not in peer certificate",
    "TSI_DATA_CORRUPTED",
)
"""What gRPC says where trying again cannot help: a node's certificate is not believed, does not name the
node, the node does not encrypt, or it refuses the client's certificate or the lack of one: its alert comes
after the handshake, and gRPC only logs which it is."""

_process: int | None = None  # in which gRPC was used first


def check_process() -> None:
    """Refuses to use gRPC in a process that was forked from one that used it: gRPC's threads are not
    there, so calls would wait for ever, or abort the process."""
    if _process not in (None, os.getpid()):
        raise invalid(
            "this process was forked from one that had used a client, which gRPC does not survive: "
            "start it with the method spawn or forkserver of multiprocessing, or fork before the first client"
        )


Credentials = Callable[[], grpc.ChannelCredentials]
"""Gives what holds for a connection that is made now: the same object while nothing has changed."""


class Peer:
    """One node."""

    def __init__(self, address: str, credentials: Credentials | None) -> None:
        global _process
        _process = os.getpid()
        self.address = address
        self.silent_until = 0.0
        self.asked: asyncio.Future[bool] | None = None  # whether it is there; see Calls.alive
        self._closed = False
        self._credentials = credentials
        self._shown = None if credentials is None else credentials()
        self.channel = self._dial()
        self.state = self.channel.get_state()
        self._changed = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    def _dial(self) -> grpc.aio.Channel:
        if self._shown is None:
            return grpc.aio.insecure_channel(self.address, options=_OPTIONS)
        return grpc.aio.secure_channel(self.address, self._shown, options=_OPTIONS)

    async def _renew(self) -> None:
        """Replaces a channel without a connection when its certificates have been."""
        if self._credentials is None or self._closed or self.state == grpc.ChannelConnectivity.READY:
            return
        newest = self._credentials()
        if newest is self._shown:
            return
        old, watching = self.channel, self._watching
        self._shown, self._watching = newest, None
        self.channel = self._dial()
        self._set(self.channel.get_state())
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        await old.close()

    async def close(self) -> None:
        self._closed = True
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
        await self._renew()
        if self._watching is None:
            self._watching = loop.create_task(self._watch())
        while self.state != grpc.ChannelConnectivity.READY:
            if self.state == grpc.ChannelConnectivity.TRANSIENT_FAILURE:
                if cause := await self._cause():
                    raise cause
                self._set(self.channel.get_state())
                continue
            if self._closed or self.state == grpc.ChannelConnectivity.SHUTDOWN:
                raise closed("client")
            if self.state == grpc.ChannelConnectivity.IDLE:
                self.channel.get_state(try_to_connect=True)
            if not await self.change(None if until is None else until - loop.time()):
                raise unreachable(Outcome.NOT_DONE, f"{self.address} accepts no connections now")

    async def _cause(self) -> Error | None:
        """Why there is no connection. Only a call says so; it fails at once, and if the connection is up
        by then, the node refuses it, as it names no log: None."""
        channel = self.channel
        ask = channel.unary_unary(_CHECK)
        words = ""
        try:
            await ask(b"", timeout=_CAUSE_PATIENCE)
        except grpc.aio.AioRpcError as error:
            if error.code() == grpc.StatusCode.UNAVAILABLE:
                words = error.details() or ""
            elif error.code() != grpc.StatusCode.DEADLINE_EXCEEDED:
                return None
        except asyncio.CancelledError:
            if channel is not self.channel:
                return None  # it was replaced meanwhile
            if not self._closed or getattr(asyncio.current_task(), "cancelling", int)():
                raise
        except Exception:
            if channel is not self.channel:
                return None
            if not self._closed:
                raise
        if self._closed:
            return closed("client")
        message = f"no connection to {self.address}: {words.rpartition('last error: ')[2]}".rstrip(": ")
        if "TSI_DATA_CORRUPTED" in words:
            message += ": the node refuses the client's certificate, or the lack of one"
        failure = unreachable(Outcome.NOT_DONE, message)
        failure._lasting = any(sign in words for sign in _LASTING)
        failure.retryable = not failure._lasting
        return failure

    def note_silence(self) -> None:
        self.silent_until = time.monotonic() + _SILENCE_REMEMBERED

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

    def __init__(self, addresses: Sequence[str], credentials: Credentials | None, anywhere: bool):
        self.addresses = list(addresses)
        self.closed = False
        self._credentials = credentials
        self._anywhere = anywhere
        self._known: dict[str, Peer] = {}
        self._leads: dict[str, _Lead] = {}

    def others(self, address: str) -> list[str]:
        """All nodes that are known, but for one."""
        return [a for a in dict.fromkeys((*self.addresses, *self._known)) if a != address]

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
        check_process()
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
        return known is None or (
            known.state != grpc.ChannelConnectivity.TRANSIENT_FAILURE
            and known.silent_until <= time.monotonic()
        )

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


_FIRST_DELAY, _LAST_DELAY, _SLOWEST_DELAY = 0.010, 0.100, 1.0
"""A client that has lost its leader soon finds the next one. The queries of a thousand that have waited
for long would take the processors that nodes need to find each other."""


class Pauses:
    """Lie between tries. The longest that one can be doubles, and later is a tenth of the time since the
    first; each is between half and all of that, so that clients which lost the same node do not come back
    together."""

    def __init__(self) -> None:
        self.delay = _FIRST_DELAY
        self._began: float | None = None  # the first pause
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
        delay = self._draw(time.monotonic())
        if tried is not None and tried.state == grpc.ChannelConnectivity.TRANSIENT_FAILURE:
            await tried.change(delay)
        else:
            await asyncio.sleep(delay)
        self._tries = 0

    def _draw(self, now: float) -> float:
        """How long a pause that begins now is."""
        if self._began is None:
            self._began = now
        delay = self.delay * random.uniform(0.5, 1)
        self.delay = min(2 * self.delay, max(_LAST_DELAY, (now - self._began) / 10), _SLOWEST_DELAY)
        return delay
