"""Holds, which keep records of a log from being trimmed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from strandline.v1 import log_pb2


@dataclass(frozen=True)
class Hold:
    """While it is there, nothing trims the records of its log from offset on."""

    name: str
    """Names it within its log: 1 to 128 bytes of text."""
    offset: int = 0
    owner: str = ""
    """For people: who to ask before it is released. At most 256 bytes."""
    lease: timedelta | None = None
    """How long it stays without being set or kept, 1 s to 30 days; None: until it is released."""
    max_bytes: int = 0
    """Once what it keeps takes more, the log's leader breaks it; 0: no bound."""
    max_age: timedelta | None = None
    """Once the oldest record that it keeps is older, the log's leader breaks it."""
    pointer: bytes = b""
    """Where the state lies that the records below offset have made, for readers that come too late:
    up to 4 KiB that the log does not look at."""
    kept_bytes: int = 0
    """What the records from offset on take, on the node that answered Admin.info."""
    principal: str = ""
    """Who set or moved it last, such as user/alice, as Admin.info knows. Empty: the caller may not set
    holds of the log, or it is not known, as where rights are not enforced. It is not sent."""

    def _wire(self) -> log_pb2.Hold:
        wire = log_pb2.Hold(
            name=self.name,
            offset=self.offset,
            owner=self.owner,
            max_bytes=self.max_bytes,
            pointer=self.pointer,
        )
        if self.lease is not None:
            wire.lease.FromTimedelta(self.lease)
        if self.max_age is not None:
            wire.max_age.FromTimedelta(self.max_age)
        return wire

    @staticmethod
    def _read(w: log_pb2.Hold) -> Hold:
        return Hold(
            name=w.name,
            offset=w.offset,
            owner=w.owner,
            lease=w.lease.ToTimedelta() if w.HasField("lease") else None,
            max_bytes=w.max_bytes,
            max_age=w.max_age.ToTimedelta() if w.HasField("max_age") else None,
            pointer=w.pointer,
            kept_bytes=w.kept_bytes,
            principal=w.principal,
        )
