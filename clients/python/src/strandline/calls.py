"""Unary calls: which node is asked, and how often."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import grpc
from google.protobuf.message import Message

from strandline.bounded import Late, bounded
from strandline.errors import Error, Outcome, closed, deadline, from_rpc, silent, unreachable
from strandline.near import Near
from strandline.peers import CONNECT_PATIENCE, Pauses, Peer, Peers, check_address
from strandline.token import Token, TokenFile, check_token
from strandline.v1 import log_pb2

if TYPE_CHECKING:
    from strandline.renewed import Renewed

A = TypeVar("A", bound=Message)
T = TypeVar("T")

METHODS = {
    "CatalogService": ("CreateLog", "ListLogs", "ConfigureLog", "DeleteLog"),
    "SessionService": ("OpenSession", "KeepSession", "CloseSession", "Resolve"),
    "LogService": (
        *("Append", "Read", "Trim", "GetInfo", "WatchInfo", "AcquireWriter"),
        *("LeaseWriter", "KeepWriter", "ReleaseWriter", "WatchWriter"),
        *("SetHold", "KeepHold", "ReleaseHold", "Digest", "Prove"),
    ),
}
PATHS = {name: f"/strandline.v1.{service}/{name}" for service, names in METHODS.items() for name in names}

CATALOG = ""
"""Stands for the log of logs where a call names none."""

SUSPECT_AFTER = 1.0
"""How long, in seconds, a node may be without any answer before it is suspected to stand still."""

Metadata = tuple[tuple[str, str], ...]


class Route(Protocol):
    """Finds the node to ask."""

    async def connect(self) -> Peer:
        """The node whose turn it is, with a connection that is up. With an error nothing has been sent."""

    def tried(self) -> Peer | None:
        """The node that connect tried last."""

    def elsewhere(self, failure: Error) -> None:
        """Notes that the node tried does not serve, and moves on."""

    def width(self, failure: Error) -> int:
        """How many nodes may be tried, after a failure, before it is time to pause."""


class ToLeader:
    """The way to the node that leads a log. All who use it share what is known. A read has to ask
    first: it is not turned away by a node that does not lead."""

    def __init__(self, calls: Calls, log: str, ask: bool = False) -> None:
        self._calls, self._peers, self._log, self._ask = calls, calls.peers, log, ask
        self._tried: Peer | None = None

    async def connect(self) -> Peer:
        await self._to_leader()
        if self._ask and not self._peers.named(self._log):
            try:
                info = await self._calls.known_info(self._peer, self._log)
            except Error:
                return self._peer  # which answers the read, or says why it does not
            self._peers.prefer(self._log, info.leader)
            await self._to_leader()
        return self._peer

    async def _to_leader(self) -> None:
        self._peer = self._tried = self._peers.at(self._peers.leader(self._log))
        await self._peers.connect(self._peer)

    def tried(self) -> Peer | None:
        return self._tried

    def elsewhere(self, failure: Error) -> None:
        self._peers.look_elsewhere(self._log, self._tried, failure.leader)

    def width(self, failure: Error) -> int:
        return len(self._peers.addresses) + (1 if failure.leader else 0)


class ToDialled:
    """Stays with one of the dialled addresses as long as it serves, and follows no hint."""

    def __init__(self, peers: Peers) -> None:
        self._peers, self.turn = peers, 0
        self._tried: Peer | None = None

    async def connect(self) -> Peer:
        self._tried = self._peers.at(self._peers.addresses[self.turn])
        await self._peers.connect(self._tried)
        return self._tried

    def tried(self) -> Peer | None:
        return self._tried

    def elsewhere(self, failure: Error) -> None:
        self.turn = (self.turn + 1) % len(self._peers.addresses)

    def width(self, failure: Error) -> int:
        return len(self._peers.addresses)


class ToReplica:
    """The way to the replicas of a log, the best first. Who they are is asked again when all have been
    tried.

    With labels those are best whose nodes have the first of them, then the second, and so on, and of
    equal ones the nearest by measured round trip. With None, voters that do not lead are tried at random,
    then read replicas, which may be far away, and the leader last."""

    def __init__(self, calls: Calls, log: str, labels: Sequence[str] | None) -> None:
        self._calls, self._peers, self._log = calls, calls.peers, log
        self._labels = labels
        self._key = None if labels is None else ",".join(labels)
        self._ask = ToDialled(calls.peers)
        self._holders: list[str] = []
        self._found = 0
        self._tried: Peer | None = None

    async def connect(self) -> Peer:
        if not self._holders:
            self._tried = None
            await self._find()
        self._tried = self._peers.at(self._holders[0])
        await self._peers.connect(self._tried)
        return self._tried

    async def _find(self) -> None:
        info = await self._ask_near()
        if info is None:
            info = await self._calls.known_info(await self._ask.connect(), self._log)
        usable = []
        for replica in info.replicas:
            try:
                check_address(replica.address, self._calls.anywhere)
                usable.append(replica)
            except Error:
                pass
        self._holders = await self._sort(usable) or [self._peers.addresses[self._ask.turn]]
        self._found = len(self._holders)

    async def _ask_near(self) -> log_pb2.LogInfo | None:
        """What the node knows that was the nearest for an earlier reader: a dialled one may be far away.
        None: there is no such node, or it does not answer."""
        address = self._calls.near.at(self._key)
        if address is None:
            return None
        try:
            peer = self._peers.at(address)
            await peer.connect(CONNECT_PATIENCE)
            return await self._calls.known_info(peer, self._log)
        except Error:
            self._calls.near.forget(self._key, address)
            return None

    def _rank(self, replica: log_pb2.ReplicaAddress) -> int:
        if self._labels is None:
            return 2 if replica.leader else 1 if replica.read_replica else 0
        ranks = (rank for rank, label in enumerate(self._labels) if label in replica.labels)
        return next(ranks, len(self._labels))

    async def _sort(self, replicas: list[log_pb2.ReplicaAddress]) -> list[str]:
        random.shuffle(replicas)
        replicas.sort(key=self._rank)
        addresses = [r.address for r in replicas]
        if self._key is None or not replicas:
            return addresses
        best = sum(self._rank(r) == self._rank(replicas[0]) for r in replicas)
        if best > 1:
            addresses[:best] = await self._calls.near.sort(self._calls, addresses[:best], self._log)
        self._calls.near.remember(self._key, addresses[0])
        return addresses

    def tried(self) -> Peer | None:
        return self._tried or self._ask.tried()

    def elsewhere(self, failure: Error) -> None:
        if self._tried is not None:
            self._calls.near.forget(self._key, self._tried.address)
            if self._holders and self._tried.address == self._holders[0]:
                del self._holders[0]
        if not self._holders:
            self._ask.elsewhere(failure)

    def width(self, failure: Error) -> int:
        return max(self._found, len(self._peers.addresses))


class Tries:
    """What is known of one call over all tries of it, on whatever nodes."""

    def __init__(self) -> None:
        self.outcome = Outcome.NOT_DONE
        self._answered: Error | None = None

    def failed(self, newest: Error) -> Error:
        """Adds a try that failed, and returns its error with the outcome of all tries."""
        self.outcome = max(self.outcome, newest.outcome)
        failure = newest.but(outcome=self.outcome)
        if failure.reason != "UNREACHABLE":
            self._answered = failure
        return failure

    def verdict(self, failure: Error) -> Error:
        """The error of the call when the newest try was the last: what a node has answered says more
        than that another one cannot be reached."""
        if failure.reason == "UNREACHABLE" and self._answered is not None:
            failure = self._answered
        return failure.but(outcome=self.outcome)


class Sign(NamedTuple):
    """What a node answers to a question that costs nothing."""

    alive: bool = False
    leader: str = ""  # of the log, as far as the node knows
    term: int = 0


def newest(signs: list[Sign]) -> Sign:
    """The sign that names the leader of the newest term; an empty one where none names any."""
    return max((s for s in signs if s.leader), key=lambda s: s.term, default=Sign())


class Calls:
    """Makes the calls of a client."""

    def __init__(
        self,
        peers: Peers,
        anywhere: bool,
        retry_time: float,
        token: Token | None,
        on_trouble: Callable[[str, Error | None], None] | None = None,
    ) -> None:
        self._on_trouble = on_trouble
        self.peers, self.anywhere, self.retry_time = peers, anywhere, retry_time
        self.near = Near()
        self.kept: set[Renewed] = set()
        # Writer leases that this client was granted and has not released, by log and name.
        self.unreleased: set[tuple[str, str]] = set()
        self._token = token

    def metadata(self, *, anew: bool = False) -> Metadata:
        """What goes with every call and stream: the token. anew: past what is kept of it."""
        if self._token is None:
            return ()
        if isinstance(self._token, str):
            token = self._token
        else:
            give = self._token.anew if anew and isinstance(self._token, TokenFile) else self._token
            try:
                token = check_token(give())
            except Error:
                raise
            except Exception as error:
                message = f"the function that gives the token failed: {type(error).__name__}"
                raise unreachable(Outcome.NOT_DONE, message) from error
        return (("authorization", f"Bearer {token}"),)

    def another(self, shown: Metadata) -> Metadata | None:
        """What to show after the token that was shown has been refused. None: there is no other."""
        try:
            newest = self.metadata(anew=True)
        except Error:
            return None
        return newest if newest != shown else None

    async def close(self) -> None:
        """Ends every connection, and what runs beside."""
        self.peers.closed = True
        kept = list(self.kept)
        for one in kept:
            one._end(closed("client", Outcome.NOT_DONE))
        await asyncio.gather(*(one._stop() for one in kept))
        await self.near.close()
        await self.peers.close()

    def trouble(self, log: str, failure: Error | None) -> None:
        """Tells the application that a producer or reader of a log tries again, or continues."""
        if self._on_trouble is None or self.peers.closed:
            return
        try:
            self._on_trouble(log, failure)
        except Exception as error:
            # A handler that fails must end neither the producer nor the reader.
            loop = asyncio.get_running_loop()
            loop.call_exception_handler({"message": "on_trouble failed", "exception": error})

    def failure(self, error: BaseException) -> Error:
        """What an error means to a user. A call that ends because the client was closed says so."""
        failure = from_rpc(error)
        return closed("client", failure.outcome) if self.peers.closed else failure

    def hung_up(self) -> bool:
        """Reports whether the CancelledError that the current task has caught comes from closing the
        client, which cancels its calls. Otherwise the task itself was cancelled."""
        task = asyncio.current_task()
        # Before Python 3.11 a task does not know.
        return self.peers.closed and not getattr(task, "cancelling", int)()

    async def on(
        self, peer: Peer, method: str, request: Message, answer: type[A], timeout: float | None = None
    ) -> A:
        """Makes a call once, on one node."""
        call = peer.channel.unary_unary(
            PATHS[method],
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )
        shown = self.metadata()
        try:
            try:
                made: A = await call(request, metadata=shown, timeout=timeout)
            except grpc.aio.AioRpcError as error:
                refused = from_rpc(error)
                if refused.reason != "UNAUTHENTICATED" or refused.outcome != Outcome.NOT_DONE:
                    raise
                another = self.another(shown)
                if another is None:
                    raise
                made = await call(request, metadata=another, timeout=timeout)
        except asyncio.CancelledError:
            if self.hung_up():
                raise closed("client", Outcome.MAYBE_DONE) from None
            raise
        return made

    async def alive(self, peer: Peer, log: str) -> bool:
        """Reports whether a node answers at all. Those who wait for the same node ask it together."""
        if peer.asked is None:
            peer.asked = asyncio.ensure_future(self._alive(peer, log))
            peer.asked.add_done_callback(lambda _: setattr(peer, "asked", None))
        return await asyncio.shield(peer.asked)

    async def _alive(self, peer: Peer, log: str) -> bool:
        return (await self._sign(peer, log)).alive

    async def _sign(self, peer: Peer, log: str, patience: float | None = None) -> Sign:
        """Asks a node who leads a log. Whatever it answers, it is there."""
        try:
            info = await self.known_info(peer, log, patience)
        except Error as error:
            return Sign(error.reason not in ("UNREACHABLE", "CANCELLED", "CLOSED"))
        return Sign(True, info.leader, info.leader_term)

    async def _beside(self, address: str, log: str, patience: float | None = None) -> list[Sign]:
        """Asks all nodes but one who leads a log."""
        if patience is None:
            patience = CONNECT_PATIENCE

        async def ask(other: str) -> Sign:
            try:
                peer = self.peers.at(other)
                await peer.connect(patience)
            except Error:
                return Sign()
            return await self._sign(peer, log, patience)

        async def in_time(other: str) -> Sign:
            try:
                return await bounded(ask(other), patience)
            except Late:
                return Sign()

        return await asyncio.gather(*(in_time(other) for other in self.peers.others(address)))

    async def newer_leader(self, log: str, than: str) -> str | None:
        """Asks the nodes beside one who leads a log. None: that one, or nobody knows."""
        leader = newest(await self._beside(than, log)).leader
        return None if leader in ("", than) else leader

    async def answered(
        self,
        peer: Peer,
        log: str,
        doing: Awaitable[T],
        leads: bool = False,
        lease: float | None = None,
        quiet: float = 0.0,
    ) -> T:
        """Waits for an answer of a node, which may take its time: a leader that stands still, or is cut off,
        keeps its connections. Whenever it has been silent for a second, or for quiet, it is asked whether it
        is there, and others are: see _suspect. What was sent may have been done.

        The answer to the renewal of a lease is waited for so that another node is asked while the lease
        lasts, which the next leader gives anew: even the look that begins just before another node leads,
        and the next one, take half of it together."""
        suspect, look = max(SUSPECT_AFTER, quiet), CONNECT_PATIENCE
        if lease is not None:
            suspect, look = min(suspect, lease / 6), min(look, lease / 6)
        task = asyncio.ensure_future(doing)
        asking: asyncio.Future[Error | None] | None = None
        try:
            while True:
                waits: set[asyncio.Future[Any]] = {task} if asking is None else {task, asking}
                patience = suspect if asking is None else None
                await asyncio.wait(waits, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                if task.done():
                    return task.result()
                if asking is None:
                    asking = asyncio.ensure_future(self._suspect(peer, log, leads, look))
                elif asking.done():
                    failure, asking = asking.result(), None
                    if failure is not None:
                        raise failure
        finally:
            for one in (task, asking):
                if one is not None and not one.done():
                    one.cancel()
                    await asyncio.wait({one})
                if one is not None and not one.cancelled():
                    one.exception()  # nobody else asks for it

    async def _suspect(self, peer: Peer, log: str, leads: bool, look: float) -> Error | None:
        """Why a call to a node that is silent is to be made elsewhere: the node does not even answer a
        question that costs nothing, while another one does; or, if it is to be the leader, another node
        leads in a newer term than it knows of. None: nothing speaks for that."""
        if not self.peers.others(peer.address):
            return None  # the connection's keep-alive finds out
        if leads:
            own, beside = await asyncio.gather(
                self._sign(peer, log, look), self._beside(peer.address, log, look)
            )
        elif await self.alive(peer, log):
            return None
        else:
            own, beside = Sign(), await self._beside(peer.address, log)
        led = newest(beside) if leads else Sign()
        another = led.leader not in ("", peer.address)
        if another and own.alive and own.leader and led.term > own.term:
            return silent(led.leader)
        if own.alive or led.leader == peer.address or not any(s.alive for s in beside):
            return None  # the next look may find more
        peer.note_silence()
        if another:
            return silent(led.leader)
        return unreachable(Outcome.MAYBE_DONE, f"{peer.address} does not answer for now")

    async def known_info(self, peer: Peer, log: str, patience: float | None = None) -> log_pb2.LogInfo:
        """Asks a node what it knows of a log, without its asking others. It has as long as a connection may
        take, or patience."""
        try:
            answer = await self.on(
                peer,
                "GetInfo",
                log_pb2.GetInfoRequest(log=log, allow_stale=True),
                log_pb2.GetInfoResponse,
                CONNECT_PATIENCE if patience is None else patience,
            )
        except grpc.aio.AioRpcError as error:
            if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                raise unreachable(Outcome.NOT_DONE, f"{peer.address} does not answer for now") from None
            raise from_rpc(error) from None
        return answer.info

    async def to_leader(
        self,
        log: str,
        method: str,
        request: Message,
        answer: type[A],
        lease: float | None = None,
        *,
        in_line: bool = False,
    ) -> A:
        """Makes a call to the node that leads a log, as often as retry_time allows. The call does no
        harm when it is made twice, or the node recognises it. With a lease it renews that: see answered.
        With in_line it waits for its turn: that time does not count."""
        return await self.by(
            ToLeader(self, log),
            lambda peer: self.answered(
                peer, log, self.on(peer, method, request, answer), log != CATALOG, lease
            ),
            in_line=in_line,
        )

    async def by(self, route: Route, do: Callable[[Peer], Awaitable[T]], *, in_line: bool = False) -> T:
        began = time.monotonic()
        pauses, tries, count = Pauses(), Tries(), 0
        while True:
            count += 1
            called = None
            try:
                peer = await route.connect()
                called = time.monotonic()
                return await do(peer)
            except Exception as error:
                failure = tries.failed(self.failure(error))
            if in_line and called is not None:
                began += time.monotonic() - called
            if not failure.again:
                raise tries.verdict(failure)
            width = 1
            if failure.elsewhere:
                route.elsewhere(failure)
                width = route.width(failure)
            if count >= width and time.monotonic() - began + pauses.delay > failure.within(self.retry_time):
                raise tries.verdict(failure)
            await pauses.between(route.tried(), width)


class Shown:
    """The token with which a stream was opened that is opened again when it ends."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._shown: Metadata = ()
        # The stream was opened again for another token, and no node has said since that it knows that one.
        self._renewed = False

    def metadata(self) -> Metadata:
        """What goes with the stream that is opened now."""
        self._shown = self._calls.metadata()
        return self._shown

    def progressed(self) -> None:
        """Notes that the token is good."""
        self._renewed = False

    def failure(self, failure: Error) -> Error:
        """What the failure of the stream means: a token that was refused is one to try again after if
        there is another, but not twice in a row. What is final reaches the application, and what it
        does next may be tried with another token again."""
        if failure.reason == "UNREACHABLE":
            return failure
        renewed, self._renewed = self._renewed, False
        if failure.reason != "UNAUTHENTICATED" or renewed or self._calls.another(self._shown) is None:
            return failure
        self._renewed = True
        return failure.but(retryable=True)


async def within(timeout: float | None, doing: Awaitable[T], outcome: Outcome = Outcome.MAYBE_DONE) -> T:
    """Bounds a call by a deadline, in seconds."""
    if timeout is None:
        return await doing
    try:
        return await bounded(doing, timeout)
    except Late:
        raise deadline(outcome) from None
