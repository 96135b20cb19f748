"""Errors: what went wrong, whether to retry, and whether it may have been done."""

from __future__ import annotations

import base64
import enum
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from strandline.holds import Hold
from strandline.v1 import log_pb2

_LASTING_TIME = 0.5


class Outcome(enum.IntEnum):
    """What is known of the effect of a call, over all its tries. What is known never falls
    back: of two outcomes the greater one holds."""

    NOT_DONE = 0
    """It has had no effect, and never will have."""
    MAYBE_DONE = 1
    """It may have happened, or may yet happen. Admin.resolve settles an append in a session."""
    DONE = 2
    """It has happened, although its result is not known."""


_OUTCOMES = {"not_done": Outcome.NOT_DONE, "maybe_done": Outcome.MAYBE_DONE, "done": Outcome.DONE}


@dataclass(frozen=True)
class Position:
    """A place in a session: what a program keeps to continue the session after a restart."""

    log_id: int = 0
    session: int = 0
    epoch: int = 0
    next: int = 0
    """The sequence of the record; of a producer, that of the record accepted next."""


class Error(Exception):
    """An error of a call that reached, or tried to reach, a log.

    Catch one reason by its class (`except strandline.OffsetTrimmed`), or look at `reason`, whose
    values are on the page errors.md.
    """

    kinds: ClassVar[dict[str, type[Error]]] = {}
    REASON = ""

    _lasting = False  # a node that cannot be reached will not be later either: its certificate is wrong

    reason: str
    message: str
    retryable: bool
    """The same call may succeed later or elsewhere. An append whose outcome is not NOT_DONE
    would then be a second append."""
    outcome: Outcome
    """What is known of the effect. It means nothing for a call that only reads."""
    position: Position | None
    """Of an append in doubt: where Admin.resolve finds out about it."""
    start_offset: int
    """OFFSET_TRIMMED: the start of the log. CHECK_TOO_OLD: the least offset since which it can check."""
    end_offset: int
    """OFFSET_BEYOND_END, END_MISMATCH: the end of the log."""
    epoch: int
    """STALE_EPOCH: the epoch of the session."""
    expected_sequence: int
    """SEQUENCE_GAP: what the log would have taken."""
    writer_term: int
    """FENCED: the term that holds the log."""
    leader: str
    """NOT_LEADER: the address of the leader, if it is known."""
    log_id: int
    """LOG_REPLACED: the id of the log that has the name now."""
    limit: int
    """TOO_LARGE: the limit."""
    offset: int
    """FILTER_FAILED, CONFLICT: that of the record."""
    key: bytes | None
    """CONFLICT: the key of the record at `offset`, which matches the check. None if it has none, or one of
    more than 1 KiB."""
    line: int
    """FILTER_INVALID, with column: the place in the expression, both from 1, in characters."""
    column: int
    hold: Hold | None
    """HELD: the lowest hold, which keeps what was to be trimmed. OFFSET_TRIMMED: the highest that has a
    pointer, if any: who has loaded what the pointer leads to can continue at its offset."""

    def __init_subclass__(cls) -> None:
        Error.kinds[cls.REASON] = cls

    def __new__(cls, reason: str, *args: object, **facts: object) -> Error:
        return super().__new__(Error.kinds.get(reason, Error))

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        retryable: bool = False,
        outcome: Outcome = Outcome.NOT_DONE,
        facts: Mapping[str, str] | None = None,
        position: Position | None = None,
        hold: Hold | None = None,
    ) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason, self.message, self.retryable, self.outcome = reason, message, retryable, outcome
        self.position, self.hold = position, hold
        self.facts = dict(facts or {})
        self.start_offset = self._number("start_offset")
        self.end_offset = self._number("end_offset")
        self.epoch = self._number("epoch")
        self.expected_sequence = self._number("expected_sequence")
        self.writer_term = self._number("writer_term")
        self.log_id = self._number("log_id")
        self.limit = self._number("limit")
        self.offset = self._number("offset")
        self.key = self._key()
        self.line = self._number("line")
        self.column = self._number("column")
        self.leader = self.facts.get("leader", "")

    def _number(self, name: str) -> int:
        try:
            return int(self.facts.get(name, "0"))
        except ValueError:
            return 0

    def _key(self) -> bytes | None:
        if "key" in self.facts:
            return self.facts["key"].encode()
        try:
            return base64.b64decode(self.facts["key_base64"]) if "key_base64" in self.facts else None
        except ValueError:
            return None

    def __reduce__(self) -> tuple[Any, ...]:
        what = (self.reason, self.message, self.retryable, self.outcome, self.facts, self.position, self.hold)
        return _copied, (*what, self.__cause__), self.__dict__

    def but(
        self,
        *,
        outcome: Outcome | None = None,
        position: Position | None = None,
        retryable: bool | None = None,
    ) -> Error:
        """A copy with another outcome or position, or one to try again after."""
        made = Error(
            self.reason,
            self.message,
            retryable=self.retryable if retryable is None else retryable,
            outcome=self.outcome if outcome is None else outcome,
            facts=self.facts,
            position=position or self.position,
            hold=self.hold,
        )
        made.__cause__, made._lasting = self.__cause__, self._lasting
        return made

    def within(self, retry_time: float) -> float:
        """How long, in seconds, to try again after this, of the time that a retry may take. After a lasting
        reason it is longer than a connection that failed waits before the next attempt, so that the reason
        is one of now, and certificates that were replaced count."""
        return min(_LASTING_TIME, retry_time) if self._lasting else retry_time

    @property
    def again(self) -> bool:
        """Whether a producer repeats what was refused. FULL is for the application: only a trim helps."""
        return (self.retryable or self._lasting) and self.reason != "FULL"

    @property
    def elsewhere(self) -> bool:
        """Whether another node, or another connection, may do better."""
        return self.again and self.reason not in ("BUSY", "UNAUTHENTICATED")

    @property
    def renewed(self) -> bool:
        """Whether a token was refused and there is another one."""
        return self.retryable and self.reason == "UNAUTHENTICATED"

    @property
    def ends_session(self) -> bool:
        return self.reason in ("SESSION_EXPIRED", "SESSION_NOT_FOUND")


class Invalid(Error):
    """The request is malformed."""

    REASON = "INVALID"


class TooLarge(Error):
    """Over a limit."""

    REASON = "TOO_LARGE"


class LogNotFound(Error):
    """There is no log of that name."""

    REASON = "LOG_NOT_FOUND"


class LogExists(Error):
    """The name is taken."""

    REASON = "LOG_EXISTS"


class LogReplaced(Error):
    """The log was deleted, and another one has its name."""

    REASON = "LOG_REPLACED"


class OffsetTrimmed(Error):
    """The offset is gone; start_offset is the oldest that is there."""

    REASON = "OFFSET_TRIMMED"


class OffsetBeyondEnd(Error):
    """The log ends before, at end_offset."""

    REASON = "OFFSET_BEYOND_END"


class SessionExpired(Error):
    """The session was closed, or its lease ran out."""

    REASON = "SESSION_EXPIRED"


class SessionNotFound(Error):
    """The session was never opened, or ended long ago."""

    REASON = "SESSION_NOT_FOUND"


class StaleEpoch(Error):
    """The session has moved on to another epoch."""

    REASON = "STALE_EPOCH"


class OutcomeForgotten(Error):
    """A duplicate whose offset is no longer known: it was appended."""

    REASON = "OUTCOME_FORGOTTEN"


class Fenced(Error):
    """A newer writer, of writer_term, holds the log."""

    REASON = "FENCED"


class EndMismatch(Error):
    """The log ends elsewhere, at end_offset."""

    REASON = "END_MISMATCH"


class Conflict(Error):
    """A record that matches the check of the append is in the log, at offset."""

    REASON = "CONFLICT"


class CheckTooOld(Error):
    """The log can check from start_offset on, and not from before."""

    REASON = "CHECK_TOO_OLD"


class Full(Error):
    """The disk is nearly full."""

    REASON = "FULL"


class Busy(Error):
    """A queue or budget of the node is full."""

    REASON = "BUSY"


class Sealed(Error):
    """The log takes no more appends."""

    REASON = "SEALED"


class Corrupt(Error):
    """Stored bytes do not match their checksum, or what was received does not fit."""

    REASON = "CORRUPT"


class DataLost(Error):
    """A memory log lost its memory; start_offset is where it resumes."""

    REASON = "DATA_LOST"


class Stale(Error):
    """No replica keeps the bound of staleness that the read asks for."""

    REASON = "STALE"


class Precondition(Error):
    """The cluster is not in the state that the change needs."""

    REASON = "PRECONDITION"


class Held(Error):
    """A hold keeps what was to be trimmed: hold."""

    REASON = "HELD"


class HoldNotFound(Error):
    """There is no hold of that name: it was released, expired, broken or never set."""

    REASON = "HOLD_NOT_FOUND"


class FilterInvalid(Error):
    """The expression of a filter is wrong at line and column."""

    REASON = "FILTER_INVALID"


class FilterFailed(Error):
    """The expression of a filter fails on the record at offset."""

    REASON = "FILTER_FAILED"


class Unauthenticated(Error):
    """The caller has not proved who it is, or its token was revoked or has expired."""

    REASON = "UNAUTHENTICATED"


class PermissionDenied(Error):
    """The caller has no right to do that."""

    REASON = "PERMISSION_DENIED"


class Unreachable(Error):
    """No node answered, or the connection broke."""

    REASON = "UNREACHABLE"


class TimedOut(Error):
    """A record had no answer within the producer's record_timeout."""

    REASON = "TIMED_OUT"


class Cancelled(Error):
    """The deadline of the call ended first."""

    REASON = "CANCELLED"


class Closed(Error):
    """The client, producer or reader has been closed."""

    REASON = "CLOSED"


class BehindFailed(Error):
    """A record before this one failed, and none slips ahead. __cause__ is that error."""

    REASON = "BEHIND_FAILED"


class Unproven(Error):
    """What a server sent does not prove that the record is in the log."""

    REASON = "UNPROVEN"


def _copied(
    reason: str,
    message: str,
    retryable: bool,
    outcome: Outcome,
    facts: dict[str, str],
    position: Position | None,
    hold: Hold | None,
    cause: BaseException | None,
) -> Error:
    """An error that was pickled or copied."""
    made = Error(
        reason,
        message,
        retryable=retryable,
        outcome=outcome,
        facts=facts,
        position=position,
        hold=hold,
    )
    made.__cause__ = cause
    return made


def invalid(message: str) -> Error:
    return Error("INVALID", message)


def whole(name: str, value: object, bits: int = 63) -> None:
    """Refuses what is no whole number that a message can carry. One of another library, such as an int64
    of numpy, is one."""
    try:
        index = -1 if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        index = -1
    if not 0 <= index < 1 << bits:
        raise invalid(f"{name} is {value!r}, and has to be a whole number from 0 to 2**{bits} - 1")


def time_span(name: str, value: object, *, zero: bool = False) -> None:
    """Refuses what is no time, in seconds, that a message or a clock can carry."""
    real = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not real or not 0 <= value <= _LONGEST or (value == 0 and not zero):  # type: ignore[operator]
        least = "at least 0" if zero else "more than 0"
        raise invalid(f"{name} is {value!r} s, and has to be {least} and at most {_LONGEST:g}")


_LONGEST = 1e9
"""Longer than any time that makes sense, in seconds, and within what a Duration holds."""


def unreachable(outcome: Outcome, message: str) -> Error:
    return Error("UNREACHABLE", message, retryable=True, outcome=outcome)


def silent(leader: str) -> Error:
    """Says that a leader does not answer, and another one is there by now."""
    return Error(
        "NOT_LEADER",
        f"the leader is silent, and {leader} leads now",
        retryable=True,
        outcome=Outcome.MAYBE_DONE,
        facts={"leader": leader},
    )


def closed(what: str, outcome: Outcome = Outcome.NOT_DONE) -> Error:
    return Error("CLOSED", f"the {what} is closed", outcome=outcome)


def deadline(outcome: Outcome) -> Error:
    return Error("CANCELLED", "the deadline of the call has passed", outcome=outcome)


def behind(first: Error, outcome: Outcome) -> Error:
    """The error of a record that waited behind one that failed."""
    made = Error(
        "BEHIND_FAILED", f"an append before it failed: {first}", retryable=first.retryable, outcome=outcome
    )
    made.__cause__ = first
    return made


def from_refusal(refusal: log_pb2.Refusal) -> Error:
    return _from_facts(refusal.reason, refusal.message, refusal.metadata)


def _from_facts(reason: str, message: str, facts: Mapping[str, str], hold: Hold | None = None) -> Error:
    """An error from the words of a server. What is missing is assumed to be bad."""
    return Error(
        reason,
        message,
        retryable=facts.get("retryable") == "true",
        outcome=_OUTCOMES.get(facts.get("outcome", ""), Outcome.MAYBE_DONE),
        facts=facts,
        hold=hold,
    )


def _from_details(message: str, details: Iterable[any_pb2.Any]) -> Error | None:
    """The error that the details of a status describe; None if none of them is of a log."""
    info, wire, hold = error_details_pb2.ErrorInfo(), log_pb2.Hold(), None
    for detail in details:
        if detail.Is(wire.DESCRIPTOR) and detail.Unpack(wire):
            hold = Hold._read(wire)
    for detail in details:
        if detail.Is(info.DESCRIPTOR) and detail.Unpack(info) and info.domain == "strandline.dev":
            return _from_facts(info.reason, message, info.metadata, hold)
    return None


def from_rpc(error: BaseException) -> Error:
    """The error of a call or a stream. Without an ErrorInfo of a log's it comes from something
    between, and what it was about may be done."""
    if isinstance(error, Error):
        return error
    if not isinstance(error, grpc.aio.AioRpcError):
        return unreachable(Outcome.MAYBE_DONE, f"{type(error).__name__}: {error}")
    message = error.details() or ""
    for key, value in error.trailing_metadata() or ():
        if key != "grpc-status-details-bin" or not isinstance(value, bytes):
            continue
        status = status_pb2.Status()
        try:
            status.ParseFromString(value)
        except Exception:  # bytes of somebody else
            continue
        if found := _from_details(message, status.details):
            return found
    code = error.code()
    if code == grpc.StatusCode.DEADLINE_EXCEEDED or code == grpc.StatusCode.CANCELLED:
        return Error("CANCELLED", message, outcome=Outcome.MAYBE_DONE)
    if code == grpc.StatusCode.UNIMPLEMENTED:
        return Error("UNSUPPORTED", message)
    if code == grpc.StatusCode.RESOURCE_EXHAUSTED:
        return Error("TOO_LARGE", message, outcome=Outcome.MAYBE_DONE)
    broken = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.ABORTED, grpc.StatusCode.INTERNAL)
    return Error(
        "UNREACHABLE", f"{code.name}: {message}", retryable=code in broken, outcome=Outcome.MAYBE_DONE
    )
