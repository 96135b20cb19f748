"""Records, and what describes logs and sessions."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

from google.protobuf import timestamp_pb2

from strandline.holds import Hold
from strandline.placement import PlacementRule
from strandline.v1 import log_pb2

OVERHEAD = 24  # about what a record takes beside its key and value

MAX_RECORD_BYTES = 16 << 20
"""Bounds one record: its key, value and headers together. It also bounds what append_batch takes."""


@dataclass(slots=True)
class Record:
    """One record of a log. A key or value of None is Kafka's null, which differs from an empty one."""

    value: bytes | None = None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp: datetime | None = None
    """The producer's time, in milliseconds. An append that leaves it out gets the server's. One that was
    read and lies beyond what datetime can hold is its least or greatest value, in UTC."""
    offset: int = -1
    """Where the record is in its log. Appends ignore it."""

    @property
    def size(self) -> int:
        """About how many bytes it takes on the wire."""
        size = OVERHEAD + len(self.value or b"") + len(self.key or b"")
        for name, value in self.headers:
            size += 12 + 3 * len(name) + len(value or b"")
        return size

    def _write(self, to: log_pb2.Record) -> None:
        if self.value is not None:
            to.value = self.value
        if self.key is not None:
            to.key = self.key
        if self.timestamp is not None:
            to.timestamp.FromDatetime(self.timestamp)
        for name, value in self.headers:
            header = to.headers.add(key=name)
            if value is not None:
                header.value = value


_EPOCH = datetime.fromtimestamp(0, timezone.utc)


def _moment(stamp: timestamp_pb2.Timestamp) -> datetime:
    return moment(stamp.seconds, stamp.nanos)


def moment(seconds: int, nanos: int) -> datetime:
    # Producers may write any number, such as microseconds in the place of milliseconds.
    try:
        return _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError:
        return (datetime.min if seconds < 0 else datetime.max).replace(tzinfo=timezone.utc)


def _read(r: log_pb2.Record) -> Record:
    return Record(
        r.value if r.HasField("value") else None,
        r.key if r.HasField("key") else None,
        tuple((h.key, h.value if h.HasField("value") else None) for h in r.headers) if r.headers else (),
        _moment(r.timestamp),
        r.offset,
    )


class Durability(enum.Enum):
    """What an acknowledgement rests on."""

    DISK = "disk"
    """fsynced on a majority of replicas"""
    MEMORY = "memory"
    """in the memory of a majority of replicas, nothing on disk"""


@dataclass(frozen=True)
class LogConfig:
    """What a log is created with, and can be changed to."""

    durability: Durability = Durability.DISK
    retention: timedelta | None = None
    """Records older than this are trimmed."""
    retention_bytes: int = 0
    """The oldest records beyond this are trimmed; 0: never."""
    replicas: int = 0
    """How many nodes are to hold it; 0: three, or as many as there are."""
    fenced: bool = False
    """Once a writer term has been acquired, appends without one are refused."""
    revision: int = 0
    """Of the configuration that was read; configure_log refuses another one. 0: whichever there is."""
    rule: PlacementRule | None = None
    """The log's own. None leaves it to configure_log as it is; PlacementRule() takes it away, so that the
    one of the longest prefix of the log's name holds."""

    def _wire(self) -> log_pb2.LogConfig:
        wire = log_pb2.LogConfig(
            durability=log_pb2.DURABILITY_MEMORY
            if self.durability is Durability.MEMORY
            else log_pb2.DURABILITY_DISK,
            retention_bytes=self.retention_bytes,
            replicas=self.replicas,
            fenced=self.fenced,
            revision=self.revision,
        )
        if self.retention is not None:
            wire.retention.FromTimedelta(self.retention)
        if self.rule is not None:
            wire.rule.CopyFrom(self.rule._wire())
        return wire


@dataclass(frozen=True)
class ReplicaAddress:
    """Where one replica of a log can be reached."""

    node: str
    address: str
    leader: bool
    read_replica: bool = False
    """It follows for ever, and counts for no majority."""
    labels: Sequence[str] = ()
    """Of the node: KEY=VALUE."""
    lag: int | None = None
    """How many records it has less than the leader. None: not known; only Admin.info sets it."""

    @staticmethod
    def _read(w: log_pb2.ReplicaAddress) -> ReplicaAddress:
        lag = w.lag if w.HasField("lag") else None
        return ReplicaAddress(w.node, w.address, w.leader, w.read_replica, tuple(w.labels), lag)


@dataclass(frozen=True)
class LogInfo:
    """A log as the node that answered knows it. Offsets in [start, end) can be read."""

    name: str
    id: int
    config: LogConfig
    created: datetime
    start: int
    end: int
    bytes_used: int
    bytes_free: int
    writer_term: int
    open_sessions: int
    leader: str
    sealed: bool
    problem: str
    unknown: bool
    replicas: Sequence[ReplicaAddress] = field(default=())
    holds: Sequence[Hold] = field(default=())
    """By name. Only Admin.info sets them."""

    @staticmethod
    def _read(w: log_pb2.LogInfo) -> LogInfo:
        c = w.config
        memory = c.durability == log_pb2.DURABILITY_MEMORY
        return LogInfo(
            name=w.name,
            id=w.id,
            config=LogConfig(
                durability=Durability.MEMORY if memory else Durability.DISK,
                retention=c.retention.ToTimedelta() if c.HasField("retention") else None,
                retention_bytes=c.retention_bytes,
                replicas=c.replicas,
                fenced=c.fenced,
                revision=c.revision,
                rule=PlacementRule._read(c.rule) if c.HasField("rule") else None,
            ),
            created=w.created.ToDatetime(timezone.utc),
            start=w.start_offset,
            end=w.end_offset,
            bytes_used=w.bytes_used,
            bytes_free=w.bytes_free,
            writer_term=w.writer_term,
            open_sessions=w.open_sessions,
            leader=w.leader,
            sealed=w.sealed,
            problem=w.problem,
            unknown=w.unknown,
            replicas=tuple(ReplicaAddress._read(r) for r in w.replicas),
            holds=tuple(Hold._read(h) for h in w.holds),
        )


@dataclass(frozen=True)
class Session:
    """Makes appends at most once and in order. A producer opens and keeps its own."""

    id: int
    epoch: int
    lease: float
    log_id: int


class ResolveState(enum.Enum):
    """What became of one record."""

    COMMITTED = 1
    """in the log"""
    PENDING = 2
    """on its way; ask again"""
    NOT_NOW = 3
    """not in the log, but a request still under way may bring it"""
    NEVER = 4
    """not in the log, and it never will be"""
    FORGOTTEN = 5
    """below the low-water mark or too old; the log no longer knows"""


@dataclass(frozen=True)
class Resolution:
    """The outcome of one record of a session."""

    state: ResolveState
    offset: int
    """Where the record is, if committed."""
    epoch: int
    """The session's, now."""
    next: int | None
    """The first sequence of the epoch asked for that is not in the log; all below are in it. None: the
    log does not know the epoch any more."""
