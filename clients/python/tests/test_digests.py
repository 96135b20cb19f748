"""Proofs that a record is in a log, and what is none."""

import hashlib
from pathlib import Path

import pytest

import strandline
from strandline.digests import check, record_of

_VECTOR = Path(__file__).parents[3] / "internal/digest/testdata/vector.txt"
BATCHES = [bytes.fromhex(line.split()[0]) for line in _VECTOR.read_text().splitlines()]
ROOT = bytes.fromhex(_VECTOR.read_text().split()[-1])


def leaf(batch: bytes) -> bytes:
    return hashlib.sha256(b"\0" + batch[:8] + hashlib.sha256(batch[21:]).digest()).digest()


def node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


L = [leaf(batch) for batch in BATCHES]
L01, L23 = node(L[0], L[1]), node(L[2], L[3])
PATHS = [[L[1], L23, L[4]], [L[0], L23, L[4]], [L[3], L01, L[4]], [L[2], L01, L[4]], [node(L01, L23)]]


@pytest.mark.parametrize("number", range(5))
def test_a_batch_is_proved_at_its_place_and_nowhere_else(number: int) -> None:
    batch, path = BATCHES[number], PATHS[number]
    check(batch, number, 5, path, ROOT)
    wrong = [
        (batch[:60], number, 5, path, ROOT),
        (batch + b"\0", number, 5, path, ROOT),
        (batch[:-1] + bytes([batch[-1] ^ 1]), number, 5, path, ROOT),
        (batch[:7] + bytes([batch[7] ^ 1]) + batch[8:], number, 5, path, ROOT),
        (batch, (number + 1) % 5, 5, path, ROOT),
        (batch, number, 100, path, ROOT),
        (batch, 5, 5, path, ROOT),
        (batch, number, 5, path[:-1], ROOT),
        (batch, number, 5, [*path, L[0]], ROOT),
        (batch, number, 5, [*path[:-1], b"short"], ROOT),
        (batch, number, 5, path, L[0]),
    ]
    for arguments in wrong:
        with pytest.raises(strandline.Unproven):
            check(*arguments)


def test_the_record_of_a_batch_is_read() -> None:
    record = record_of(BATCHES[3], 8)
    assert (record.value, record.key, record.offset) == (b"batch 3, record 2", b"key", 8)
    assert record.timestamp is not None and record.timestamp.timestamp() == 1_700_000_000.002
    for offset in (5, 10):
        with pytest.raises(strandline.Unproven):
            record_of(BATCHES[3], offset)
    with pytest.raises(strandline.Error) as compressed:
        record_of(BATCHES[2], 3)
    assert compressed.value.reason == "UNSUPPORTED" and "gzip" in compressed.value.message
    with pytest.raises(strandline.Unproven):
        record_of(BATCHES[3][:63], 8)


def test_the_records_of_a_batch_with_the_time_of_its_append_have_that_one() -> None:
    batch = bytearray(BATCHES[3])
    batch[22] |= 8
    batch[35:43] = (1_700_000_009_000).to_bytes(8, "big")
    for offset in (6, 8):
        record = record_of(bytes(batch), offset)
        assert record.timestamp is not None and record.timestamp.timestamp() == 1_700_000_009


def test_a_digest_is_written_and_read() -> None:
    digest = strandline.Digest.parse(str(strandline.Digest(ROOT, 15)), 15)
    assert digest == strandline.Digest(ROOT, 15)
    for wrong in ("", "zz" * 32, "00" * 31):
        with pytest.raises(strandline.Invalid):
            strandline.Digest.parse(wrong, 0)
