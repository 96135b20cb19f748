import copy
import pickle

import grpc
import pytest
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

import strandline
from strandline.errors import Error, Fenced, Held, Outcome, Position, from_refusal, from_rpc
from strandline.holds import Hold
from strandline.v1 import log_pb2


def rpc_error(code: grpc.StatusCode, details: bytes | None = None) -> grpc.aio.AioRpcError:
    trailer = [("grpc-status-details-bin", details)] if details is not None else []
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(*trailer), "words")


def details(domain: str, reason: str, **facts: str) -> bytes:
    info = any_pb2.Any()
    info.Pack(error_details_pb2.ErrorInfo(domain=domain, reason=reason, metadata=facts))
    return bytes(status_pb2.Status(code=9, details=[info]).SerializeToString())


def test_a_reason_is_a_class_of_its_own() -> None:
    with pytest.raises(strandline.OffsetTrimmed) as caught:
        raise Error("OFFSET_TRIMMED", "gone", facts={"start_offset": "7"})
    assert caught.value.start_offset == 7
    assert type(Error("OF_A_LATER_VERSION", "")) is Error


def test_the_facts_of_a_status_are_read() -> None:
    status = details("strandline.dev", "FENCED", retryable="false", outcome="not_done", writer_term="4")
    error = from_rpc(rpc_error(grpc.StatusCode.ABORTED, status))
    assert isinstance(error, strandline.Fenced)
    assert (error.writer_term, error.retryable, error.outcome) == (4, False, Outcome.NOT_DONE)


@pytest.mark.parametrize(
    ("facts", "key"),
    [
        ({"key": "caf\u00e9"}, b"caf\xc3\xa9"),
        ({"key_base64": "/wA="}, b"\xff\x00"),
        ({"key": ""}, b""),
        ({"key_base64": "no"}, None),
        ({}, None),
    ],
)
def test_a_conflict_has_the_key_of_the_record_whatever_bytes_it_is(
    facts: dict[str, str], key: bytes | None
) -> None:
    error = from_refusal(log_pb2.Refusal(reason="CONFLICT", metadata={**facts, "offset": "7"}))
    assert isinstance(error, strandline.Conflict)
    assert (error.offset, error.key) == (7, key)


@pytest.mark.parametrize("status", [b"\xff\xff", details("example.org", "FENCED", outcome="not_done")])
def test_what_is_not_from_a_log_may_be_done(status: bytes) -> None:
    error = from_rpc(rpc_error(grpc.StatusCode.UNAVAILABLE, status))
    assert (error.reason, error.retryable, error.outcome) == ("UNREACHABLE", True, Outcome.MAYBE_DONE)


def test_what_a_refusal_leaves_out_is_assumed_to_be_bad() -> None:
    error = from_refusal(log_pb2.Refusal(reason="INVALID", metadata={"end_offset": "no number"}))
    assert (error.retryable, error.outcome, error.end_offset) == (False, Outcome.MAYBE_DONE, 0)


def test_full_and_busy_are_not_alike() -> None:
    full, busy = Error("FULL", "", retryable=True), Error("BUSY", "", retryable=True)
    assert not full.again
    assert busy.again and not busy.elsewhere


def test_an_error_survives_pickling_and_copying() -> None:
    first = Error("FENCED", "a newer writer", facts={"writer_term": "4"})
    hold = Hold("backup", 7)
    error = Error(
        "HELD", "kept", outcome=Outcome.MAYBE_DONE, retryable=True, position=Position(1, 2, 3, 4), hold=hold
    )
    error.__cause__ = first
    for made in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(made) is Held
        assert str(made) == str(error)
        assert (made.retryable, made.outcome, made.position, made.hold) == (
            True,
            Outcome.MAYBE_DONE,
            Position(1, 2, 3, 4),
            hold,
        )
        assert type(made.__cause__) is Fenced and made.__cause__.writer_term == 4
