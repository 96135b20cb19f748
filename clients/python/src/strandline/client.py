"""A client of a cluster."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc

from strandline.admin import Admin, place
from strandline.backlog import ProducerOptions
from strandline.calls import Calls, within
from strandline.digests import Digest, digest, prove
from strandline.ends import Ends
from strandline.environment import environment
from strandline.errors import Error, Outcome, Position, invalid, time_span
from strandline.filters import Filter, Projection
from strandline.holds import Hold
from strandline.kept_hold import KeptHold
from strandline.peers import Peers, check_address, check_process
from strandline.producer import Producer
from strandline.reader import Reader, ReaderOptions
from strandline.records import Record
from strandline.token import Token, check_token
from strandline.writer_lease import WriterLease
from strandline.writers import WriterClaim


def _no_password() -> str:
    raise invalid("the key has a password, which the client does not ask for")


@dataclass(frozen=True)
class TLS:
    """Encrypts every connection. The values are paths of PEM files. When they change they are read again for
    the next connections, and passed over while they cannot be used."""

    authority: str | Path | None = None
    """The authorities by whose certificates nodes are believed; None: those of the system."""
    certificate: str | Path | None = None
    """With key: shows who the client is. None: nobody."""
    key: str | Path | None = None

    def _check(self) -> None:
        """Refuses what gRPC would abort the process for, or take and fail with later."""
        if (self.certificate is None) != (self.key is None):
            raise invalid("a certificate needs its key, and a key its certificate")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        of = f"the authority {self.authority}"
        try:
            if self.authority is not None:
                context.load_verify_locations(cafile=self.authority)
            if self.certificate is not None:
                of = f"the certificate {self.certificate} with the key {self.key}"
                context.load_cert_chain(self.certificate, self.key, password=_no_password)
        except ssl.SSLError as error:
            raise invalid(f"{of} cannot be used: not PEM, or they do not match ({error})") from error
        except OSError as error:
            raise invalid(f"{of} cannot be read: {error}") from error

    def _credentials(self) -> grpc.ChannelCredentials:
        def read(path: str | Path | None) -> bytes | None:
            return None if path is None else Path(path).read_bytes()

        self._check()
        return grpc.ssl_channel_credentials(read(self.authority), read(self.key), read(self.certificate))


class _Reloaded:
    """What the files of a TLS hold, read again when they have changed."""

    def __init__(self, tls: TLS) -> None:
        self._tls = tls
        self._newest = tls._credentials()
        self._seen = self._stamp()

    def _stamp(self) -> list[object]:
        """Differs when a file has been replaced."""
        stamp: list[object] = []
        for path in (self._tls.authority, self._tls.certificate, self._tls.key):
            try:
                found = None if path is None else Path(path).stat()
            except OSError:
                found = None
            stamp.append(found and (found.st_mtime_ns, found.st_size, found.st_ino))
        return stamp

    def __call__(self) -> grpc.ChannelCredentials:
        """The same object while nothing has changed."""
        now = self._stamp()
        if now != self._seen:
            try:
                self._newest = self._tls._credentials()
                self._seen = now
            except (Error, OSError):
                pass  # they may be under way: the next connection looks again
        return self._newest


class Client:
    """Holds the connections to a cluster, one to each node that it needs.

        async with strandline.Client("127.0.0.1:7171") as client:
            async with await client.producer("orders") as producer:
                offset = await producer.append(b"a record")

    The addresses (HOST:PORT, one string or several) are those of nodes, of which one that is up is
    enough; the leader of each log is found. Nothing is connected before something is asked for.
    Addresses other than loopback are refused without tls, unless insecure is set.

    tls encrypts. token is sent with every call, as `authorization: Bearer`; without tls in clear, also to
    the addresses that insecure allows. A function is called for it with every call and stream, and must
    return at once: see token_file. retry_time is how long, in seconds, calls of admin, and the opening
    of a producer or reader, keep looking for a node that can answer; 0 tries every address once.

    on_trouble is called with a log and an error whenever a producer or reader of it cannot continue and
    tries again, and with None in the place of the error when it continues. It runs in the event loop and
    must return soon.
    """

    def __init__(
        self,
        addresses: str | Sequence[str],
        *,
        tls: TLS | None = None,
        insecure: bool = False,
        token: Token | None = None,
        retry_time: float = 5.0,
        on_trouble: Callable[[str, Error | None], None] | None = None,
    ) -> None:
        all_addresses = [addresses] if isinstance(addresses, str) else list(addresses)
        if not all_addresses:
            raise invalid("a client needs an address")
        check_process()
        if isinstance(token, str):
            check_token(token)
        time_span("retry_time", retry_time, zero=True)
        anywhere = insecure or tls is not None
        for address in all_addresses:
            check_address(address, anywhere)
        credentials = None if tls is None else _Reloaded(tls)
        self._calls = Calls(
            Peers(all_addresses, credentials, anywhere), anywhere, retry_time, token, on_trouble
        )
        self.admin = Admin(self._calls)
        """The verbs beside append and read."""
        self._ends = Ends(self._end_of)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None, **options: Any) -> Client:
        """A client of STRANDLINE_SERVER (addresses with commas between them; 127.0.0.1:7171), with
        STRANDLINE_TLS_CA, STRANDLINE_TLS_CERT, STRANDLINE_TLS_KEY, STRANDLINE_TOKEN_FILE or else
        STRANDLINE_TOKEN, and STRANDLINE_INSECURE, which the command line takes too. The options given count
        more."""
        addresses, found = environment(environ)
        if "tls" in found:
            found["tls"] = TLS(**found["tls"])
        return cls(addresses, **{**found, **options})

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends every connection. Close producers first: what they have in flight is in doubt otherwise."""
        await self._calls.close()

    async def _end_of(self, log: str) -> int:
        return (await self.admin.info(log)).end

    async def end(self, log: str, *, timeout: float | None = None) -> int:
        """Where a log ends, by its leader and a majority of its replicas: every record that was
        acknowledged before lies below. Callers share calls: those who come while one is under way are
        answered together by the next."""
        return await within(timeout, self._ends.end(log), Outcome.NOT_DONE)

    async def digest(
        self, log: str, at: int | None = None, *, known: bool = False, timeout: float | None = None
    ) -> Digest:
        """The digest of a log as of an offset from its start to its end; None: its end. Precondition: there
        was none yet. With known it is of what the replica of the first address that answers knows to be
        committed, which may be less than others do; that needs no leader."""
        return await within(timeout, digest(self._calls, log, at, known), Outcome.NOT_DONE)

    async def prove(
        self, log: str, offset: int, trusted: Digest, *, known: bool = False, timeout: float | None = None
    ) -> Record:
        """Returns a record once it is proved to be in the log that has the hash of trusted as of its at:
        a digest that was kept, or comes from elsewhere. Unproven: what the server sent does not prove it.
        Error with reason UNSUPPORTED: it is proved, but compressed. known is as for digest."""
        return await within(timeout, prove(self._calls, log, offset, trusted, known), Outcome.NOT_DONE)

    async def hold(
        self,
        log: str,
        hold: Hold,
        *,
        from_start: bool = False,
        from_end: bool = False,
        timeout: float | None = None,
    ) -> KeptHold:
        """Sets a hold as Admin.set_hold does and, if it has a lease, renews that until it is released or
        closed, or the client is closed: a program that dies keeps nothing for longer than the lease."""
        opening = KeptHold(self._calls, log, hold)._open(place(from_start, from_end))
        return await within(timeout, opening)

    async def lease_writer(
        self, log: str, claim: WriterClaim, *, timeout: float | None = None
    ) -> WriterLease:
        """Waits in line until this program has the writer lease of a log, and renews it until it is released,
        handed over or closed, or the client is closed. Append with the term of the lease as writer_term.

        If the client has had the lease under the name before and has not released it, this pauses for up to
        a second first: another program of the name may have taken it."""
        return await within(timeout, WriterLease(self._calls, log, claim)._open())

    async def producer(
        self,
        log: str,
        *,
        max_in_flight: int | None = None,
        max_in_flight_bytes: int | None = None,
        max_request_bytes: int = 1 << 20,
        buffer_bytes: int = 64 << 20,
        linger: float = 0.0,
        lease: float = 60.0,
        writer_term: int = 0,
        session: bool = True,
        resume: Position | None = None,
        end_on_failure: bool = False,
        record_timeout: float | None = 30.0,
        timeout: float | None = None,
    ) -> Producer:
        """Begins to append to a log that exists. Of an error nothing is in the log. Times are seconds.

        max_in_flight: requests that wait for their answers, counted before the bytes leave; records
            that come while all are out leave together. None: up to 4 of any size, and up to 64 of at
            least 64 KiB.
        max_in_flight_bytes: the same in bytes; a larger request goes alone. None: 16 MiB.
        max_request_bytes: closes a request when the next record would make it larger.
        buffer_bytes: records that have been accepted and have no answer; beyond, appends wait.
        linger: holds a request that is not full back for so long, for more records to join it.
        lease: how long the session outlives the last request. An idle producer renews it.
        writer_term: of lease_writer or Admin.acquire_writer: appends fail with Fenced once there is a newer.
        session: False sends every request once: a lost answer is in doubt, and a refusal stands alone.
        resume: continues the session of an earlier producer where its position was.
        end_on_failure: the first record that fails ends the producer, so that each record has the
            sequence that its position said.
        record_timeout: how long a record may be without an answer, re-sends included.
        timeout: bounds the opening.
        """
        options = ProducerOptions(
            max_in_flight,
            max_in_flight_bytes,
            max_request_bytes,
            buffer_bytes,
            linger,
            lease,
            writer_term,
            session,
            resume,
            end_on_failure,
            record_timeout,
        )
        options.check()
        return await within(timeout, Producer(self._calls, log, options)._open(), Outcome.NOT_DONE)

    def read(
        self,
        log: str,
        *,
        offset: int | None = None,
        time: datetime | None = None,
        tail: bool = False,
        log_id: int = 0,
        follow: bool = False,
        max_records: int | None = None,
        max_bytes: int | None = None,
        until_offset: int | None = None,
        until_time: datetime | None = None,
        any_replica: bool = False,
        at_least: int | None = None,
        max_staleness: float | None = None,
        prefer_follower: bool = False,
        nearest: bool | str | Sequence[str] = False,
        heartbeat: float = 5.0,
        filter: Filter | None = None,
        projection: Projection | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> Reader:
        """Reads a log: `async for record in client.read(...)`. It asks nobody yet.

        It begins at offset, at the first record appended at or after time (by the leader's clock), at
        the tail as it is when the reader is opened, or else at the oldest record. It ends at the end of
        the log, unless it is to follow, or at the first limit: max_records, max_bytes (about as they
        are stored; at least one batch), until_offset, until_time.

        It reads from the leader, everything that was acknowledged before it began. any_replica reads
        what the answering node knows, at_least waits until that is up to an offset, and max_staleness
        bounds its age in seconds, 0.1 or more: these ask only the addresses given to the client, unless one
        of the next two is there.

        prefer_follower reads from a voter that does not lead, while there is one, then from a read replica,
        which may be far away, and from the leader last. nearest reads from the nearest replica, whatever its
        role: one on a node with the first of the labels (KEY=VALUE, such as "dc=syd"), then with the second,
        and so on; without labels (True), and among equal ones, the one that answers soonest. With any_replica
        or max_staleness the read costs no round trip to the leader; without, it is linearizable, and the
        replica asks the leader once, at the beginning. When its node is lost, or refuses, the reader
        continues at the next offset on the next nearest, and stays there; the log never goes back for it.

        log_id is that of the log in which a kept offset has its meaning. heartbeat is how often a
        server with nothing to send says so; after three times as long without a frame another
        connection is opened.

        filter and projection have the server send only some records, and only parts of them:
        max_records and max_bytes then count what is sent. While nothing is selected, the reader's
        offset moves all the same, and on_progress(offset, end) is called each time that it does
        without a record: everything below offset has been looked at, and the log ends at end.
        """
        options = ReaderOptions(
            offset,
            time,
            tail,
            log_id,
            follow,
            max_records,
            max_bytes,
            until_offset,
            until_time,
            any_replica,
            at_least,
            max_staleness,
            prefer_follower,
            nearest,
            heartbeat,
            filter,
            projection,
            on_progress,
        )
        return Reader(self._calls, log, options)
