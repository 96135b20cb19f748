import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ResolveState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RESOLVE_STATE_UNSPECIFIED: _ClassVar[ResolveState]
    RESOLVE_STATE_COMMITTED: _ClassVar[ResolveState]
    RESOLVE_STATE_PENDING: _ClassVar[ResolveState]
    RESOLVE_STATE_NOT_NOW: _ClassVar[ResolveState]
    RESOLVE_STATE_NEVER: _ClassVar[ResolveState]
    RESOLVE_STATE_FORGOTTEN: _ClassVar[ResolveState]
RESOLVE_STATE_UNSPECIFIED: ResolveState
RESOLVE_STATE_COMMITTED: ResolveState
RESOLVE_STATE_PENDING: ResolveState
RESOLVE_STATE_NOT_NOW: ResolveState
RESOLVE_STATE_NEVER: ResolveState
RESOLVE_STATE_FORGOTTEN: ResolveState

class OpenSessionRequest(_message.Message):
    __slots__ = ("log", "lease", "log_id")
    LOG_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    log: str
    lease: _duration_pb2.Duration
    log_id: int
    def __init__(self, log: _Optional[str] = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., log_id: _Optional[int] = ...) -> None: ...

class OpenSessionResponse(_message.Message):
    __slots__ = ("session_id", "epoch", "lease", "log_id")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: int
    epoch: int
    lease: _duration_pb2.Duration
    log_id: int
    def __init__(self, session_id: _Optional[int] = ..., epoch: _Optional[int] = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., log_id: _Optional[int] = ...) -> None: ...

class KeepSessionRequest(_message.Message):
    __slots__ = ("log", "session_id", "log_id")
    LOG_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    log: str
    session_id: int
    log_id: int
    def __init__(self, log: _Optional[str] = ..., session_id: _Optional[int] = ..., log_id: _Optional[int] = ...) -> None: ...

class KeepSessionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CloseSessionRequest(_message.Message):
    __slots__ = ("log", "session_id", "log_id")
    LOG_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    log: str
    session_id: int
    log_id: int
    def __init__(self, log: _Optional[str] = ..., session_id: _Optional[int] = ..., log_id: _Optional[int] = ...) -> None: ...

class CloseSessionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResolveRequest(_message.Message):
    __slots__ = ("log", "session_id", "epoch", "sequence", "final", "log_id")
    LOG_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    log: str
    session_id: int
    epoch: int
    sequence: int
    final: bool
    log_id: int
    def __init__(self, log: _Optional[str] = ..., session_id: _Optional[int] = ..., epoch: _Optional[int] = ..., sequence: _Optional[int] = ..., final: _Optional[bool] = ..., log_id: _Optional[int] = ...) -> None: ...

class ResolveResponse(_message.Message):
    __slots__ = ("state", "offset", "epoch", "next_sequence")
    STATE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    NEXT_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    state: ResolveState
    offset: int
    epoch: int
    next_sequence: int
    def __init__(self, state: _Optional[_Union[ResolveState, str]] = ..., offset: _Optional[int] = ..., epoch: _Optional[int] = ..., next_sequence: _Optional[int] = ...) -> None: ...
