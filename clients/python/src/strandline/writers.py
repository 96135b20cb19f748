"""Which of several programs is the writer of a log."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from strandline.errors import time_span
from strandline.v1 import log_pb2


@dataclass(frozen=True)
class WriterClaim:
    """A program that wants the writer lease of a log."""

    name: str
    """Tells the program from others that want the lease: 1 to 128 bytes of text. If the program that has
    the lease has this name, the lease passes to this one at once."""
    lease: timedelta
    """How long the lease lasts without a sign of life of its holder, 1 s to 1 h."""
    payload: bytes = b""
    """For those who watch, such as the address of the program: up to 4 KiB."""

    def _wire(self, log: str, log_id: int, wait: float) -> log_pb2.LeaseWriterRequest:
        time_span("lease", self.lease.total_seconds())
        time_span("wait", wait, zero=True)
        wire = log_pb2.LeaseWriterRequest(log=log, log_id=log_id, name=self.name, payload=self.payload)
        wire.lease.FromTimedelta(self.lease)
        if wait > 0:
            wire.wait.FromTimedelta(timedelta(seconds=wait))
        return wire


@dataclass(frozen=True)
class WriterState:
    """Which program has the writer lease of a log."""

    term: int
    """The newest writer term of the log. It was granted with the lease, if that is held."""
    waiting: int
    """Programs in line."""
    holder: WriterClaim | None = None
    """The claim of the program that has the lease. None: none has it, and the rest is None too."""
    since: datetime | None = None
    """When the lease was granted, by the clock of the log's leader."""
    left: timedelta | None = None
    """How long it lasts without another sign of life."""

    @staticmethod
    def _read(w: log_pb2.WriterState) -> WriterState:
        if not w.name:
            return WriterState(w.writer_term, w.waiting)
        return WriterState(
            w.writer_term,
            w.waiting,
            WriterClaim(w.name, w.lease.ToTimedelta(), w.payload),
            w.since.ToDatetime(timezone.utc),
            w.left.ToTimedelta(),
        )


@dataclass(frozen=True)
class WriterGrant:
    """The answer to a program that wants the writer lease."""

    term: int
    """The granted writer term, for Client.producer; 0: another program has the lease, see state."""
    end: int
    """The end of the log when the term began: all records of older writers are below it."""
    log_id: int
    state: WriterState

    @staticmethod
    def _read(w: log_pb2.LeaseWriterResponse) -> WriterGrant:
        return WriterGrant(w.writer_term, w.end_offset, w.log_id, WriterState._read(w.state))
