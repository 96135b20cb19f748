"""What a producer has done and is doing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Histogram:
    """Counts values in buckets that are an eighth of a power of two wide: a quantile is at most an eighth too
    high."""

    count: int = 0
    sum: int = 0
    _buckets: Counter[int] = field(default_factory=Counter, repr=False)

    def _record(self, value: int) -> None:
        self.count += 1
        self.sum += value
        self._buckets[_top(value)] += 1

    def _copy(self) -> Histogram:
        return Histogram(self.count, self.sum, Counter(self._buckets))

    @property
    def mean(self) -> float:
        """0 if nothing was counted."""
        return self.sum / self.count if self.count else 0.0

    def quantile(self, q: float) -> int:
        """A value that the share q (0 to 1) of the counted ones do not exceed; 0 if nothing was counted."""
        rank, top = int(q * self.count), 0
        for top, n in sorted(self._buckets.items()):
            if n > rank:
                return top
            rank -= n
        return top


def _top(value: int) -> int:
    """The highest value of the bucket: 0 to 15 have buckets of their own, and then eight values of the
    highest four bits share each power of two."""
    if value < 16:
        return value
    shift = value.bit_length() - 4
    return ((value >> shift) + 1 << shift) - 1


@dataclass
class Stats:
    """What a producer has done and is doing. Bytes are about those on the wire."""

    in_flight_requests: int = 0
    """On the wire without an answer, as in_flight_records and in_flight_bytes."""
    in_flight_records: int = 0
    in_flight_bytes: int = 0
    buffered_bytes: int = 0
    """All without an answer, which buffer_bytes bounds."""
    failed: int = 0
    """Records that failed."""
    resent: int = 0
    """Requests that were sent again."""
    streams: int = 0
    """That were opened."""
    request_records: Histogram = field(default_factory=Histogram)
    """Records of each request that was appended."""
    request_bytes: Histogram = field(default_factory=Histogram)
    """Its bytes."""
    latency: Histogram = field(default_factory=Histogram)
    """Microseconds from when it was first sent to its answer."""

    @property
    def requests(self) -> int:
        """That were appended."""
        return self.request_records.count

    @property
    def records(self) -> int:
        """That were appended."""
        return self.request_records.sum

    @property
    def bytes(self) -> int:
        """That were appended."""
        return self.request_bytes.sum

    def _appended(self, records: int, size: int, seconds: float) -> None:
        self.request_records._record(records)
        self.request_bytes._record(size)
        self.latency._record(max(0, int(seconds * 1e6)))

    def _snapshot(self) -> Stats:
        return Stats(
            failed=self.failed,
            resent=self.resent,
            streams=self.streams,
            request_records=self.request_records._copy(),
            request_bytes=self.request_bytes._copy(),
            latency=self.latency._copy(),
        )
