"""Digests of logs, and proofs that a record is in one."""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from strandline.calls import Calls, Route, ToDialled, ToLeader
from strandline.errors import Error, Unproven, invalid, whole
from strandline.records import Record, moment
from strandline.v1 import log_pb2

_HASH = 32
_HEADER = 61  # of a batch
_CONTENT = 21  # where the content of a batch begins
_MAGIC = 2
_LOG_APPEND_TIME = 8  # in its attributes: its records have the time when it was appended, its newest
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True)
class Digest:
    """One hash of all records of a log below an offset: equal on every replica, and in a copy that has the
    same batches at the same offsets. str() is the hash in hexadecimal digits."""

    hash: bytes
    at: int
    """The offset as of which it is."""
    from_offset: int = 0
    """Covered are the records from here to covered: whole batches. It is above 0 where the log has records of
    before there were digests."""
    covered: int = 0
    batches: int = 0
    start: int = 0
    """Of the log, as end, as the node that answered knew it."""
    end: int = 0

    def __str__(self) -> str:
        return self.hash.hex()

    @staticmethod
    def parse(text: str, at: int) -> Digest:
        """Reads what str() gives, for Client.prove, with the offset as of which it is."""
        if not re.fullmatch(r"[0-9a-fA-F]{64}", text):
            raise invalid(f"a digest must have 64 hexadecimal digits, not {text!r}")
        return Digest(bytes.fromhex(text), at)


def _route(calls: Calls, log: str, known: bool) -> Route:
    # A follower would answer of its own replica.
    return ToDialled(calls.peers) if known else ToLeader(calls, log, ask=True)


async def digest(calls: Calls, log: str, at: int | None, known: bool) -> Digest:
    request = log_pb2.DigestRequest(log=log, allow_stale=known)
    if at is not None:
        whole("at", at)
        request.at = at
    answer = await calls.by(
        _route(calls, log, known),
        lambda peer: calls.answered(
            peer, log, calls.on(peer, "Digest", request, log_pb2.DigestResponse), leads=not known
        ),
    )
    if len(answer.digest) != _HASH:
        raise Error("CORRUPT", "the server answered with a digest of the wrong length")
    return Digest(
        hash=answer.digest,
        at=answer.at,
        from_offset=getattr(answer, "from"),
        covered=answer.covered,
        batches=answer.batches,
        start=answer.start_offset,
        end=answer.end_offset,
    )


async def prove(calls: Calls, log: str, offset: int, trusted: Digest, known: bool) -> Record:
    whole("offset", offset)
    whole("at", trusted.at)
    request = log_pb2.ProveRequest(log=log, offset=offset, at=trusted.at, allow_stale=known)
    answer = await calls.by(
        _route(calls, log, known),
        lambda peer: calls.answered(
            peer, log, calls.on(peer, "Prove", request, log_pb2.ProveResponse), leads=not known
        ),
    )
    check(answer.batch, answer.number, answer.digest.batches, answer.path, trusted.hash)
    return record_of(answer.batch, offset)


def check(batch: bytes, number: int, batches: int, path: Sequence[bytes], root: bytes) -> None:
    """Raises Unproven unless a batch lies at its base offset in the log whose digest is root. The hash covers
    all of the batch but its place, which the leaf has too."""
    if (
        len(batch) < _HEADER
        or len(batch) - 12 != struct.unpack_from(">i", batch, 8)[0]
        or batch[16] != _MAGIC
    ):
        raise Unproven("UNPROVEN", "the server sent something other than a batch")
    if number >= batches:
        raise Unproven("UNPROVEN", f"the server names batch {number} of {batches}")
    content = hashlib.sha256(batch[_CONTENT:]).digest()
    found = hashlib.sha256(b"\0" + batch[:8] + content).digest()
    at, last = number, batches - 1  # as RFC 9162 walks up the tree
    for beside in path:
        if last == 0 or len(beside) != _HASH:
            raise Unproven("UNPROVEN", "the proof has a wrong number of hashes")
        if at & 1 or at == last:
            found = hashlib.sha256(b"\1" + beside + found).digest()
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            found = hashlib.sha256(b"\1" + found + beside).digest()
        at, last = at >> 1, last >> 1
    if last != 0 or found != root:
        offset = struct.unpack_from(">q", batch)[0]
        raise Unproven("UNPROVEN", f"under the digest there is no such batch at offset {offset}")


def record_of(batch: bytes, offset: int) -> Record:
    """The record of a batch that has been proved."""
    base, attributes = struct.unpack_from(">q", batch)[0], struct.unpack_from(">h", batch, _CONTENT)[0]
    base_time, count = struct.unpack_from(">q", batch, 27)[0], struct.unpack_from(">i", batch, 57)[0]
    if not base <= offset < base + count:
        raise Unproven("UNPROVEN", "the server proved a different batch")
    if attributes & 7:
        codec = attributes & 7
        name = _CODECS[codec] if codec < len(_CODECS) else f"codec {codec}"
        raise Error("UNSUPPORTED", f"the proof is valid, but this client cannot decompress {name}")
    try:
        encoded = _Encoded(batch, _HEADER)
        for _ in range(offset - base):
            encoded.skip(encoded.number())
        record = encoded.record(offset, base_time)
    except (IndexError, ValueError) as error:
        raise Unproven("UNPROVEN", f"the records of the batch cannot be read: {error}") from error
    if attributes & _LOG_APPEND_TIME:
        return replace(record, timestamp=_moment(struct.unpack_from(">q", batch, 35)[0]))
    return record


def _moment(millis: int) -> datetime:
    return moment(millis // 1000, millis % 1000 * 1_000_000)


class _Encoded:
    """Reads the records of a batch."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at

    def number(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            if shift > 63:
                raise ValueError("a number is too long")

    def skip(self, size: int) -> bytes:
        if size < 0 or self._at + size > len(self._data):
            raise ValueError("a length exceeds the remaining bytes")
        self._at += size
        return self._data[self._at - size : self._at]

    def _bytes(self) -> bytes | None:
        size = self.number()
        return None if size == -1 else self.skip(size)

    def record(self, offset: int, base_time: int) -> Record:
        self.number()  # the length
        self.skip(1)  # attributes
        time = base_time + self.number()
        self.number()  # the offset, from that of the batch
        key, value = self._bytes(), self._bytes()
        headers = []
        for _ in range(self.number()):
            name = self._bytes() or b""
            headers.append((name.decode("utf-8", "replace"), self._bytes()))
        return Record(value, key, tuple(headers), _moment(time), offset)
