import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ReadFormat(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    READ_FORMAT_UNSPECIFIED: _ClassVar[ReadFormat]
    READ_FORMAT_RECORDS: _ClassVar[ReadFormat]
    READ_FORMAT_BATCHES: _ClassVar[ReadFormat]

class ReadPosition(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    READ_POSITION_UNSPECIFIED: _ClassVar[ReadPosition]
    READ_POSITION_START: _ClassVar[ReadPosition]
    READ_POSITION_TAIL: _ClassVar[ReadPosition]

class ReadConsistency(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    READ_CONSISTENCY_UNSPECIFIED: _ClassVar[ReadConsistency]
    READ_CONSISTENCY_ANY: _ClassVar[ReadConsistency]
    READ_CONSISTENCY_LINEARIZABLE: _ClassVar[ReadConsistency]

class Durability(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DURABILITY_UNSPECIFIED: _ClassVar[Durability]
    DURABILITY_DISK: _ClassVar[Durability]
    DURABILITY_MEMORY: _ClassVar[Durability]
READ_FORMAT_UNSPECIFIED: ReadFormat
READ_FORMAT_RECORDS: ReadFormat
READ_FORMAT_BATCHES: ReadFormat
READ_POSITION_UNSPECIFIED: ReadPosition
READ_POSITION_START: ReadPosition
READ_POSITION_TAIL: ReadPosition
READ_CONSISTENCY_UNSPECIFIED: ReadConsistency
READ_CONSISTENCY_ANY: ReadConsistency
READ_CONSISTENCY_LINEARIZABLE: ReadConsistency
DURABILITY_UNSPECIFIED: Durability
DURABILITY_DISK: Durability
DURABILITY_MEMORY: Durability

class Record(_message.Message):
    __slots__ = ("offset", "timestamp", "key", "value", "headers")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    offset: int
    timestamp: _timestamp_pb2.Timestamp
    key: bytes
    value: bytes
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    def __init__(self, offset: _Optional[int] = ..., timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ...) -> None: ...

class Header(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: bytes
    def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class AppendRequest(_message.Message):
    __slots__ = ("log", "session_id", "epoch", "first_sequence", "low_water", "writer_term", "expected_end", "atomic", "batches", "records", "checked", "log_id", "explain")
    LOG_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    LOW_WATER_FIELD_NUMBER: _ClassVar[int]
    WRITER_TERM_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_END_FIELD_NUMBER: _ClassVar[int]
    ATOMIC_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    CHECKED_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    EXPLAIN_FIELD_NUMBER: _ClassVar[int]
    log: str
    session_id: int
    epoch: int
    first_sequence: int
    low_water: int
    writer_term: int
    expected_end: int
    atomic: bool
    batches: bytes
    records: _containers.RepeatedCompositeFieldContainer[Record]
    checked: CheckedAppend
    log_id: int
    explain: bool
    def __init__(self, log: _Optional[str] = ..., session_id: _Optional[int] = ..., epoch: _Optional[int] = ..., first_sequence: _Optional[int] = ..., low_water: _Optional[int] = ..., writer_term: _Optional[int] = ..., expected_end: _Optional[int] = ..., atomic: _Optional[bool] = ..., batches: _Optional[bytes] = ..., records: _Optional[_Iterable[_Union[Record, _Mapping]]] = ..., checked: _Optional[_Union[CheckedAppend, _Mapping]] = ..., log_id: _Optional[int] = ..., explain: _Optional[bool] = ...) -> None: ...

class CheckedAppend(_message.Message):
    __slots__ = ("since", "keys", "key_prefixes", "headers", "batches", "records")
    SINCE_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    KEY_PREFIXES_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    since: int
    keys: _containers.RepeatedScalarFieldContainer[bytes]
    key_prefixes: _containers.RepeatedScalarFieldContainer[bytes]
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    batches: bytes
    records: _containers.RepeatedCompositeFieldContainer[Record]
    def __init__(self, since: _Optional[int] = ..., keys: _Optional[_Iterable[bytes]] = ..., key_prefixes: _Optional[_Iterable[bytes]] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ..., batches: _Optional[bytes] = ..., records: _Optional[_Iterable[_Union[Record, _Mapping]]] = ...) -> None: ...

class AppendResponse(_message.Message):
    __slots__ = ("appended", "refused", "stages")
    APPENDED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    appended: Appended
    refused: Refusal
    stages: AppendStages
    def __init__(self, appended: _Optional[_Union[Appended, _Mapping]] = ..., refused: _Optional[_Union[Refusal, _Mapping]] = ..., stages: _Optional[_Union[AppendStages, _Mapping]] = ...) -> None: ...

class AppendStages(_message.Message):
    __slots__ = ("receive", "queue", "batch", "write", "sync", "replicas", "answer", "proposed", "acknowledgements")
    RECEIVE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    WRITE_FIELD_NUMBER: _ClassVar[int]
    SYNC_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    PROPOSED_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGEMENTS_FIELD_NUMBER: _ClassVar[int]
    receive: _duration_pb2.Duration
    queue: _duration_pb2.Duration
    batch: _duration_pb2.Duration
    write: _duration_pb2.Duration
    sync: _duration_pb2.Duration
    replicas: _duration_pb2.Duration
    answer: _duration_pb2.Duration
    proposed: _duration_pb2.Duration
    acknowledgements: _containers.RepeatedCompositeFieldContainer[ReplicaAcknowledgement]
    def __init__(self, receive: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., queue: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., batch: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., write: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., sync: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., replicas: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., answer: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., proposed: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., acknowledgements: _Optional[_Iterable[_Union[ReplicaAcknowledgement, _Mapping]]] = ...) -> None: ...

class ReplicaAcknowledgement(_message.Message):
    __slots__ = ("node", "after")
    NODE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    node: str
    after: _duration_pb2.Duration
    def __init__(self, node: _Optional[str] = ..., after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Appended(_message.Message):
    __slots__ = ("first_offset", "end_offset", "ranges", "duplicate")
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    first_offset: int
    end_offset: int
    ranges: _containers.RepeatedCompositeFieldContainer[OffsetRange]
    duplicate: bool
    def __init__(self, first_offset: _Optional[int] = ..., end_offset: _Optional[int] = ..., ranges: _Optional[_Iterable[_Union[OffsetRange, _Mapping]]] = ..., duplicate: _Optional[bool] = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("code", "reason", "message", "metadata")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    code: int
    reason: str
    message: str
    metadata: _containers.ScalarMap[str, str]
    def __init__(self, code: _Optional[int] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ...) -> None: ...

class OffsetRange(_message.Message):
    __slots__ = ("first", "end")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    first: int
    end: int
    def __init__(self, first: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class ReadRequest(_message.Message):
    __slots__ = ("log", "offset", "time", "position", "max_records", "max_bytes", "until_offset", "until_time", "follow", "format", "log_id", "heartbeat", "verify", "level", "at_least_offset", "max_age", "filter", "projection")
    LOG_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    MAX_RECORDS_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    UNTIL_OFFSET_FIELD_NUMBER: _ClassVar[int]
    UNTIL_TIME_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    VERIFY_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MAX_AGE_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    PROJECTION_FIELD_NUMBER: _ClassVar[int]
    log: str
    offset: int
    time: _timestamp_pb2.Timestamp
    position: ReadPosition
    max_records: int
    max_bytes: int
    until_offset: int
    until_time: _timestamp_pb2.Timestamp
    follow: bool
    format: ReadFormat
    log_id: int
    heartbeat: _duration_pb2.Duration
    verify: bool
    level: ReadConsistency
    at_least_offset: int
    max_age: _duration_pb2.Duration
    filter: Filter
    projection: Projection
    def __init__(self, log: _Optional[str] = ..., offset: _Optional[int] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., position: _Optional[_Union[ReadPosition, str]] = ..., max_records: _Optional[int] = ..., max_bytes: _Optional[int] = ..., until_offset: _Optional[int] = ..., until_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., follow: _Optional[bool] = ..., format: _Optional[_Union[ReadFormat, str]] = ..., log_id: _Optional[int] = ..., heartbeat: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., verify: _Optional[bool] = ..., level: _Optional[_Union[ReadConsistency, str]] = ..., at_least_offset: _Optional[int] = ..., max_age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., filter: _Optional[_Union[Filter, _Mapping]] = ..., projection: _Optional[_Union[Projection, _Mapping]] = ...) -> None: ...

class Filter(_message.Message):
    __slots__ = ("keys", "key_prefixes", "headers", "where", "skip_failed")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    KEY_PREFIXES_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    SKIP_FAILED_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[bytes]
    key_prefixes: _containers.RepeatedScalarFieldContainer[bytes]
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    where: str
    skip_failed: bool
    def __init__(self, keys: _Optional[_Iterable[bytes]] = ..., key_prefixes: _Optional[_Iterable[bytes]] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ..., where: _Optional[str] = ..., skip_failed: _Optional[bool] = ...) -> None: ...

class Projection(_message.Message):
    __slots__ = ("drop_key", "drop_value", "drop_headers", "value_bytes", "json_fields")
    DROP_KEY_FIELD_NUMBER: _ClassVar[int]
    DROP_VALUE_FIELD_NUMBER: _ClassVar[int]
    DROP_HEADERS_FIELD_NUMBER: _ClassVar[int]
    VALUE_BYTES_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELDS_FIELD_NUMBER: _ClassVar[int]
    drop_key: bool
    drop_value: bool
    drop_headers: bool
    value_bytes: int
    json_fields: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, drop_key: _Optional[bool] = ..., drop_value: _Optional[bool] = ..., drop_headers: _Optional[bool] = ..., value_bytes: _Optional[int] = ..., json_fields: _Optional[_Iterable[str]] = ...) -> None: ...

class ReadResponse(_message.Message):
    __slots__ = ("first_offset", "record_count", "end_offset", "start_offset", "records", "batches", "age", "log_id", "next_offset", "failed")
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    RECORD_COUNT_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    first_offset: int
    record_count: int
    end_offset: int
    start_offset: int
    records: _containers.RepeatedCompositeFieldContainer[Record]
    batches: bytes
    age: _duration_pb2.Duration
    log_id: int
    next_offset: int
    failed: _containers.RepeatedCompositeFieldContainer[FailedRecord]
    def __init__(self, first_offset: _Optional[int] = ..., record_count: _Optional[int] = ..., end_offset: _Optional[int] = ..., start_offset: _Optional[int] = ..., records: _Optional[_Iterable[_Union[Record, _Mapping]]] = ..., batches: _Optional[bytes] = ..., age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., log_id: _Optional[int] = ..., next_offset: _Optional[int] = ..., failed: _Optional[_Iterable[_Union[FailedRecord, _Mapping]]] = ...) -> None: ...

class FailedRecord(_message.Message):
    __slots__ = ("offset", "message")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    offset: int
    message: str
    def __init__(self, offset: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class TrimRequest(_message.Message):
    __slots__ = ("log", "before", "fast_forward", "log_id")
    LOG_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    FAST_FORWARD_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    log: str
    before: int
    fast_forward: bool
    log_id: int
    def __init__(self, log: _Optional[str] = ..., before: _Optional[int] = ..., fast_forward: _Optional[bool] = ..., log_id: _Optional[int] = ...) -> None: ...

class TrimResponse(_message.Message):
    __slots__ = ("start_offset", "end_offset")
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    start_offset: int
    end_offset: int
    def __init__(self, start_offset: _Optional[int] = ..., end_offset: _Optional[int] = ...) -> None: ...

class SealRequest(_message.Message):
    __slots__ = ("log", "log_id")
    LOG_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    log: str
    log_id: int
    def __init__(self, log: _Optional[str] = ..., log_id: _Optional[int] = ...) -> None: ...

class SealResponse(_message.Message):
    __slots__ = ("start_offset", "end_offset")
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    start_offset: int
    end_offset: int
    def __init__(self, start_offset: _Optional[int] = ..., end_offset: _Optional[int] = ...) -> None: ...

class GetInfoRequest(_message.Message):
    __slots__ = ("log", "allow_stale", "log_id")
    LOG_FIELD_NUMBER: _ClassVar[int]
    ALLOW_STALE_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    log: str
    allow_stale: bool
    log_id: int
    def __init__(self, log: _Optional[str] = ..., allow_stale: _Optional[bool] = ..., log_id: _Optional[int] = ...) -> None: ...

class GetInfoResponse(_message.Message):
    __slots__ = ("info",)
    INFO_FIELD_NUMBER: _ClassVar[int]
    info: LogInfo
    def __init__(self, info: _Optional[_Union[LogInfo, _Mapping]] = ...) -> None: ...

class WatchInfoRequest(_message.Message):
    __slots__ = ("log", "min_interval", "log_id")
    LOG_FIELD_NUMBER: _ClassVar[int]
    MIN_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    log: str
    min_interval: _duration_pb2.Duration
    log_id: int
    def __init__(self, log: _Optional[str] = ..., min_interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., log_id: _Optional[int] = ...) -> None: ...

class WatchInfoResponse(_message.Message):
    __slots__ = ("info",)
    INFO_FIELD_NUMBER: _ClassVar[int]
    info: LogInfo
    def __init__(self, info: _Optional[_Union[LogInfo, _Mapping]] = ...) -> None: ...

class AcquireWriterRequest(_message.Message):
    __slots__ = ("log", "log_id")
    LOG_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    log: str
    log_id: int
    def __init__(self, log: _Optional[str] = ..., log_id: _Optional[int] = ...) -> None: ...

class AcquireWriterResponse(_message.Message):
    __slots__ = ("writer_term", "end_offset")
    WRITER_TERM_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    writer_term: int
    end_offset: int
    def __init__(self, writer_term: _Optional[int] = ..., end_offset: _Optional[int] = ...) -> None: ...

class LeaseWriterRequest(_message.Message):
    __slots__ = ("log", "log_id", "name", "payload", "lease", "wait")
    LOG_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    log: str
    log_id: int
    name: str
    payload: bytes
    lease: _duration_pb2.Duration
    wait: _duration_pb2.Duration
    def __init__(self, log: _Optional[str] = ..., log_id: _Optional[int] = ..., name: _Optional[str] = ..., payload: _Optional[bytes] = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., wait: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class LeaseWriterResponse(_message.Message):
    __slots__ = ("writer_term", "end_offset", "log_id", "state")
    WRITER_TERM_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    writer_term: int
    end_offset: int
    log_id: int
    state: WriterState
    def __init__(self, writer_term: _Optional[int] = ..., end_offset: _Optional[int] = ..., log_id: _Optional[int] = ..., state: _Optional[_Union[WriterState, _Mapping]] = ...) -> None: ...

class WriterState(_message.Message):
    __slots__ = ("writer_term", "name", "payload", "lease", "since", "left", "waiting")
    WRITER_TERM_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    writer_term: int
    name: str
    payload: bytes
    lease: _duration_pb2.Duration
    since: _timestamp_pb2.Timestamp
    left: _duration_pb2.Duration
    waiting: int
    def __init__(self, writer_term: _Optional[int] = ..., name: _Optional[str] = ..., payload: _Optional[bytes] = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., left: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., waiting: _Optional[int] = ...) -> None: ...

class KeepWriterRequest(_message.Message):
    __slots__ = ("log", "log_id", "writer_term")
    LOG_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    WRITER_TERM_FIELD_NUMBER: _ClassVar[int]
    log: str
    log_id: int
    writer_term: int
    def __init__(self, log: _Optional[str] = ..., log_id: _Optional[int] = ..., writer_term: _Optional[int] = ...) -> None: ...

class KeepWriterResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReleaseWriterRequest(_message.Message):
    __slots__ = ("log", "log_id", "writer_term", "to")
    LOG_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    WRITER_TERM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    log: str
    log_id: int
    writer_term: int
    to: str
    def __init__(self, log: _Optional[str] = ..., log_id: _Optional[int] = ..., writer_term: _Optional[int] = ..., to: _Optional[str] = ...) -> None: ...

class ReleaseWriterResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WatchWriterRequest(_message.Message):
    __slots__ = ("log", "log_id", "interval")
    LOG_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    log: str
    log_id: int
    interval: _duration_pb2.Duration
    def __init__(self, log: _Optional[str] = ..., log_id: _Optional[int] = ..., interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class WatchWriterResponse(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: WriterState
    def __init__(self, state: _Optional[_Union[WriterState, _Mapping]] = ...) -> None: ...

class Hold(_message.Message):
    __slots__ = ("name", "offset", "owner", "lease", "max_bytes", "max_age", "pointer", "kept_bytes", "principal")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_AGE_FIELD_NUMBER: _ClassVar[int]
    POINTER_FIELD_NUMBER: _ClassVar[int]
    KEPT_BYTES_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    name: str
    offset: int
    owner: str
    lease: _duration_pb2.Duration
    max_bytes: int
    max_age: _duration_pb2.Duration
    pointer: bytes
    kept_bytes: int
    principal: str
    def __init__(self, name: _Optional[str] = ..., offset: _Optional[int] = ..., owner: _Optional[str] = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_bytes: _Optional[int] = ..., max_age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., pointer: _Optional[bytes] = ..., kept_bytes: _Optional[int] = ..., principal: _Optional[str] = ...) -> None: ...

class SetHoldRequest(_message.Message):
    __slots__ = ("log", "hold", "position", "log_id")
    LOG_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    log: str
    hold: Hold
    position: ReadPosition
    log_id: int
    def __init__(self, log: _Optional[str] = ..., hold: _Optional[_Union[Hold, _Mapping]] = ..., position: _Optional[_Union[ReadPosition, str]] = ..., log_id: _Optional[int] = ...) -> None: ...

class SetHoldResponse(_message.Message):
    __slots__ = ("offset", "end_offset", "log_id")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    offset: int
    end_offset: int
    log_id: int
    def __init__(self, offset: _Optional[int] = ..., end_offset: _Optional[int] = ..., log_id: _Optional[int] = ...) -> None: ...

class KeepHoldRequest(_message.Message):
    __slots__ = ("log", "name", "log_id")
    LOG_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    log: str
    name: str
    log_id: int
    def __init__(self, log: _Optional[str] = ..., name: _Optional[str] = ..., log_id: _Optional[int] = ...) -> None: ...

class KeepHoldResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReleaseHoldRequest(_message.Message):
    __slots__ = ("log", "name", "log_id")
    LOG_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    log: str
    name: str
    log_id: int
    def __init__(self, log: _Optional[str] = ..., name: _Optional[str] = ..., log_id: _Optional[int] = ...) -> None: ...

class ReleaseHoldResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DigestRequest(_message.Message):
    __slots__ = ("log", "log_id", "at", "allow_stale")
    LOG_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    ALLOW_STALE_FIELD_NUMBER: _ClassVar[int]
    log: str
    log_id: int
    at: int
    allow_stale: bool
    def __init__(self, log: _Optional[str] = ..., log_id: _Optional[int] = ..., at: _Optional[int] = ..., allow_stale: _Optional[bool] = ...) -> None: ...

class DigestResponse(_message.Message):
    __slots__ = ("log_id", "at", "covered", "batches", "digest", "start_offset", "end_offset")
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    COVERED_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    log_id: int
    at: int
    covered: int
    batches: int
    digest: bytes
    start_offset: int
    end_offset: int
    def __init__(self, log_id: _Optional[int] = ..., at: _Optional[int] = ..., covered: _Optional[int] = ..., batches: _Optional[int] = ..., digest: _Optional[bytes] = ..., start_offset: _Optional[int] = ..., end_offset: _Optional[int] = ..., **kwargs) -> None: ...

class ProveRequest(_message.Message):
    __slots__ = ("log", "log_id", "offset", "at", "allow_stale")
    LOG_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    ALLOW_STALE_FIELD_NUMBER: _ClassVar[int]
    log: str
    log_id: int
    offset: int
    at: int
    allow_stale: bool
    def __init__(self, log: _Optional[str] = ..., log_id: _Optional[int] = ..., offset: _Optional[int] = ..., at: _Optional[int] = ..., allow_stale: _Optional[bool] = ...) -> None: ...

class ProveResponse(_message.Message):
    __slots__ = ("digest", "batch", "number", "path")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    digest: DigestResponse
    batch: bytes
    number: int
    path: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, digest: _Optional[_Union[DigestResponse, _Mapping]] = ..., batch: _Optional[bytes] = ..., number: _Optional[int] = ..., path: _Optional[_Iterable[bytes]] = ...) -> None: ...

class LogInfo(_message.Message):
    __slots__ = ("name", "id", "config", "created", "start_offset", "end_offset", "bytes_used", "bytes_free", "writer_term", "open_sessions", "leader_term", "leader", "sealed", "problem", "replicas", "unknown", "holds")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    BYTES_USED_FIELD_NUMBER: _ClassVar[int]
    BYTES_FREE_FIELD_NUMBER: _ClassVar[int]
    WRITER_TERM_FIELD_NUMBER: _ClassVar[int]
    OPEN_SESSIONS_FIELD_NUMBER: _ClassVar[int]
    LEADER_TERM_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    SEALED_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    HOLDS_FIELD_NUMBER: _ClassVar[int]
    name: str
    id: int
    config: LogConfig
    created: _timestamp_pb2.Timestamp
    start_offset: int
    end_offset: int
    bytes_used: int
    bytes_free: int
    writer_term: int
    open_sessions: int
    leader_term: int
    leader: str
    sealed: bool
    problem: str
    replicas: _containers.RepeatedCompositeFieldContainer[ReplicaAddress]
    unknown: bool
    holds: _containers.RepeatedCompositeFieldContainer[Hold]
    def __init__(self, name: _Optional[str] = ..., id: _Optional[int] = ..., config: _Optional[_Union[LogConfig, _Mapping]] = ..., created: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., start_offset: _Optional[int] = ..., end_offset: _Optional[int] = ..., bytes_used: _Optional[int] = ..., bytes_free: _Optional[int] = ..., writer_term: _Optional[int] = ..., open_sessions: _Optional[int] = ..., leader_term: _Optional[int] = ..., leader: _Optional[str] = ..., sealed: _Optional[bool] = ..., problem: _Optional[str] = ..., replicas: _Optional[_Iterable[_Union[ReplicaAddress, _Mapping]]] = ..., unknown: _Optional[bool] = ..., holds: _Optional[_Iterable[_Union[Hold, _Mapping]]] = ...) -> None: ...

class ReplicaAddress(_message.Message):
    __slots__ = ("node", "address", "leader", "read_replica", "labels", "lag")
    NODE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    READ_REPLICA_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    node: str
    address: str
    leader: bool
    read_replica: bool
    labels: _containers.RepeatedScalarFieldContainer[str]
    lag: int
    def __init__(self, node: _Optional[str] = ..., address: _Optional[str] = ..., leader: _Optional[bool] = ..., read_replica: _Optional[bool] = ..., labels: _Optional[_Iterable[str]] = ..., lag: _Optional[int] = ...) -> None: ...

class LogConfig(_message.Message):
    __slots__ = ("durability", "retention", "retention_bytes", "replicas", "fenced", "revision", "rule")
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    RETENTION_FIELD_NUMBER: _ClassVar[int]
    RETENTION_BYTES_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    FENCED_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    durability: Durability
    retention: _duration_pb2.Duration
    retention_bytes: int
    replicas: int
    fenced: bool
    revision: int
    rule: PlacementRule
    def __init__(self, durability: _Optional[_Union[Durability, str]] = ..., retention: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., retention_bytes: _Optional[int] = ..., replicas: _Optional[int] = ..., fenced: _Optional[bool] = ..., revision: _Optional[int] = ..., rule: _Optional[_Union[PlacementRule, _Mapping]] = ...) -> None: ...

class PlacementRule(_message.Message):
    __slots__ = ("spread", "voters_in", "voters_not_in", "leader_homes", "read_replicas")
    SPREAD_FIELD_NUMBER: _ClassVar[int]
    VOTERS_IN_FIELD_NUMBER: _ClassVar[int]
    VOTERS_NOT_IN_FIELD_NUMBER: _ClassVar[int]
    LEADER_HOMES_FIELD_NUMBER: _ClassVar[int]
    READ_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    spread: str
    voters_in: _containers.RepeatedScalarFieldContainer[str]
    voters_not_in: _containers.RepeatedScalarFieldContainer[str]
    leader_homes: _containers.RepeatedScalarFieldContainer[str]
    read_replicas: _containers.RepeatedCompositeFieldContainer[ReadReplicas]
    def __init__(self, spread: _Optional[str] = ..., voters_in: _Optional[_Iterable[str]] = ..., voters_not_in: _Optional[_Iterable[str]] = ..., leader_homes: _Optional[_Iterable[str]] = ..., read_replicas: _Optional[_Iterable[_Union[ReadReplicas, _Mapping]]] = ...) -> None: ...

class ReadReplicas(_message.Message):
    __slots__ = ("label", "count")
    LABEL_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    label: str
    count: int
    def __init__(self, label: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...
