from datetime import datetime, timedelta, timezone

import pytest

from strandline.records import _read
from strandline.v1 import log_pb2

FIRST = datetime.min.replace(tzinfo=timezone.utc)
LAST = datetime.max.replace(tzinfo=timezone.utc)
YEAR_1 = -62135596800
YEAR_10000 = 253402300800


@pytest.mark.parametrize(
    ("seconds", "nanos", "read"),
    [
        (1, 2_000_000, datetime(1970, 1, 1, 0, 0, 1, 2000, tzinfo=timezone.utc)),
        (-1, 0, datetime(1969, 12, 31, 23, 59, 59, tzinfo=timezone.utc)),
        (YEAR_1, 0, FIRST),
        (YEAR_1 - 1, 0, FIRST),
        (-(2**63), 0, FIRST),
        (YEAR_10000 - 1, 999_000_000, LAST.replace(microsecond=999_000)),
        (YEAR_10000, 0, LAST),
        (1_790_000_000_000, 0, LAST),
        (2**63 - 1, 0, LAST),
    ],
)
def test_every_time_can_be_read(seconds: int, nanos: int, read: datetime) -> None:
    record = log_pb2.Record(value=b"a")
    record.timestamp.seconds, record.timestamp.nanos = seconds, nanos
    got = _read(record).timestamp
    assert got == read
    assert got is not None and got.utcoffset() == timedelta(0)
