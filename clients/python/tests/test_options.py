"""Values that cannot be right are refused where they are given, and never reach a node."""

import asyncio
import math
import ssl
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from silent import Silent

import strandline
from strandline import sync
from strandline.backlog import ProducerOptions
from strandline.reader import ReaderOptions

BAD_NUMBERS: tuple[Any, ...] = (-1, 1.5, math.nan, math.inf, "1", True, 1 << 64)
BAD_TIMES: tuple[Any, ...] = (-1, math.nan, math.inf, "1", True, 1e12)
PRODUCER = [
    *((name, bad) for name in ("writer_term", "buffer_bytes", "max_in_flight") for bad in BAD_NUMBERS),
    *((name, bad) for name in ("lease", "linger", "record_timeout") for bad in BAD_TIMES),
    *((name, 0) for name in ("lease", "record_timeout", "max_request_bytes", "max_in_flight_bytes")),
    *(("resume", strandline.Position(**{name: -1})) for name in ("log_id", "session", "epoch", "next")),
    ("resume", strandline.Position(epoch=1 << 32)),
]
READER = [
    *((name, bad) for name in ("offset", "at_least", "max_records", "until_offset") for bad in BAD_NUMBERS),
    *((name, bad) for name in ("heartbeat", "max_staleness") for bad in (0, *BAD_TIMES)),
    ("max_staleness", 0.099),
]
RECORDS: list[Any] = [
    *(None, 5, 1.5, "text", [b"a"], {"value": b"a"}),
    *(strandline.Record("text"), strandline.Record(5), strandline.Record(b"a", key=5)),  # type: ignore[arg-type]
    strandline.Record(b"a", headers=[("name", 5)]),  # type: ignore[list-item]
    strandline.Record(b"a", headers=[(5, b"a")]),  # type: ignore[list-item]
    strandline.Record(b"a", timestamp=5),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("name", "value"), PRODUCER)
def test_a_producer_refuses(name: str, value: Any) -> None:
    with pytest.raises(strandline.Invalid):
        ProducerOptions(**{name: value}).check()


@pytest.mark.parametrize(("name", "value"), READER)
def test_a_reader_refuses(name: str, value: Any) -> None:
    with pytest.raises(strandline.Invalid):
        ReaderOptions(**{name: value}).check()


class OfAnotherLibrary:
    def __index__(self) -> int:
        return 5


def test_whole_numbers_of_other_libraries_are_taken() -> None:
    ProducerOptions(writer_term=OfAnotherLibrary()).check()  # type: ignore[arg-type]


def test_what_is_large_and_right_is_taken() -> None:
    ProducerOptions(writer_term=(1 << 64) - 1, lease=86400 * 365, record_timeout=None).check()
    ReaderOptions(offset=(1 << 63) - 1, log_id=(1 << 64) - 1).check()


def test_a_bad_record_fails_alone() -> None:
    server = Silent()

    async def append() -> None:
        async with strandline.Client(server.address) as client:
            producer = await client.producer("orders")
            last = datetime(9999, 12, 31, tzinfo=timezone.utc)
            await producer.send(strandline.Record(b"a", timestamp=last))
            for bad in RECORDS:
                with pytest.raises(strandline.Invalid):
                    await producer.send(bad)
                with pytest.raises(strandline.Invalid):
                    await producer.append_batch([b"a", bad])
            for end in BAD_NUMBERS:
                with pytest.raises(strandline.Invalid):
                    await producer.append_batch([b"a"], expected_end=end)
            assert producer.position.next == 1
            with pytest.raises(strandline.Cancelled):
                await producer.close(timeout=0.01)

    asyncio.run(append())
    server.close()


@pytest.mark.parametrize("token", ["secret\n", "secret\r\n", " secret", "sec ret", "secr\u00e9t", ""])
def test_a_token_that_no_header_can_carry_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(strandline.Invalid) as caught:
        sync.Client("127.0.0.1:1", token=token)
    assert "secret" not in str(caught.value)


def test_a_certificate_and_its_key_belong_together(tmp_path: Path) -> None:
    certificate, key, garbage = tmp_path / "a.pem", tmp_path / "a.key", tmp_path / "garbage"
    make = "openssl req -x509 -newkey rsa:2048 -nodes -days 9 -subj /CN=x -keyout {} -out {}"
    subprocess.run(make.format(key, certificate).split(), check=True, capture_output=True)
    garbage.write_text("garbage")
    for wrong in (
        strandline.TLS(certificate=certificate),
        strandline.TLS(key=key),
        strandline.TLS(certificate=certificate, key=garbage),
        strandline.TLS(certificate=garbage, key=key),
        strandline.TLS(authority=garbage),
        strandline.TLS(authority=tmp_path / "nowhere"),
    ):
        with pytest.raises(strandline.Invalid):
            sync.Client("127.0.0.1:1", tls=wrong)
    sync.Client("127.0.0.1:1", tls=strandline.TLS(certificate, certificate, key)).close()
    assert ssl.OPENSSL_VERSION


FORK = """
import os, sys
import strandline
from strandline import sync

client = sync.Client(sys.argv[1], retry_time=0)
try:
    client.admin.info("orders")
except strandline.Unreachable:
    pass
child = os.fork()
if child == 0:
    refused = 0
    for use in (lambda: client.admin.info("orders"), lambda: sync.Client(sys.argv[1])):
        try:
            use()
        except strandline.Invalid:
            refused += 1
    client.close()
    os._exit(refused)
_, status = os.waitpid(child, 0)
client.close()
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_a_client_is_refused_in_a_process_that_was_forked() -> None:
    made = subprocess.run([sys.executable, "-c", FORK, "127.0.0.1:1"], timeout=60, capture_output=True)
    assert made.returncode == 2, made.stderr.decode()
