"""Client of Strandline, a replicated write-ahead log.

    import asyncio, strandline

    async def main():
        async with strandline.Client("127.0.0.1:7171") as client:
            async with await client.producer("orders") as producer:
                print(await producer.append(b"a record"))
            async for record in client.read("orders"):
                print(record.offset, record.value)

    asyncio.run(main())

strandline.sync has the same without asyncio. Every error is an Error.
"""

from strandline.admin import Admin
from strandline.checks import Check
from strandline.client import TLS, Client
from strandline.digests import Digest
from strandline.errors import (
    BehindFailed,
    Busy,
    Cancelled,
    CheckTooOld,
    Closed,
    Conflict,
    Corrupt,
    DataLost,
    EndMismatch,
    Error,
    Fenced,
    FilterFailed,
    FilterInvalid,
    Full,
    Held,
    HoldNotFound,
    Invalid,
    LogExists,
    LogNotFound,
    LogReplaced,
    OffsetBeyondEnd,
    OffsetTrimmed,
    Outcome,
    OutcomeForgotten,
    PermissionDenied,
    Position,
    Precondition,
    Sealed,
    SessionExpired,
    SessionNotFound,
    Stale,
    StaleEpoch,
    TimedOut,
    TooLarge,
    Unauthenticated,
    Unproven,
    Unreachable,
)
from strandline.filters import Filter, Projection
from strandline.holds import Hold
from strandline.kept_hold import KeptHold
from strandline.placement import PlacementRule, ReadReplicas
from strandline.producer import Producer
from strandline.reader import Reader
from strandline.records import (
    MAX_RECORD_BYTES,
    Durability,
    LogConfig,
    LogInfo,
    Record,
    ReplicaAddress,
    Resolution,
    ResolveState,
    Session,
)
from strandline.stats import Histogram, Stats
from strandline.token import token_file
from strandline.writer_lease import WriterLease
from strandline.writers import WriterClaim, WriterGrant, WriterState

__all__ = [
    "MAX_RECORD_BYTES",
    "TLS",
    "Admin",
    "BehindFailed",
    "Busy",
    "Cancelled",
    "Check",
    "CheckTooOld",
    "Client",
    "Closed",
    "Conflict",
    "Corrupt",
    "DataLost",
    "Digest",
    "Durability",
    "EndMismatch",
    "Error",
    "Fenced",
    "Filter",
    "FilterFailed",
    "FilterInvalid",
    "Full",
    "Held",
    "Histogram",
    "Hold",
    "HoldNotFound",
    "Invalid",
    "KeptHold",
    "LogConfig",
    "LogExists",
    "LogInfo",
    "LogNotFound",
    "LogReplaced",
    "OffsetBeyondEnd",
    "OffsetTrimmed",
    "Outcome",
    "OutcomeForgotten",
    "PermissionDenied",
    "PlacementRule",
    "Position",
    "Precondition",
    "Producer",
    "Projection",
    "ReadReplicas",
    "Reader",
    "Record",
    "ReplicaAddress",
    "Resolution",
    "ResolveState",
    "Sealed",
    "Session",
    "SessionExpired",
    "SessionNotFound",
    "Stale",
    "StaleEpoch",
    "Stats",
    "TimedOut",
    "TooLarge",
    "Unauthenticated",
    "Unproven",
    "Unreachable",
    "WriterClaim",
    "WriterGrant",
    "WriterLease",
    "WriterState",
    "token_file",
]
