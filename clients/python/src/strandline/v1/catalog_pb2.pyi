from strandline.v1 import log_pb2 as _log_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CreateLogRequest(_message.Message):
    __slots__ = ("name", "config", "request_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    config: _log_pb2.LogConfig
    request_id: str
    def __init__(self, name: _Optional[str] = ..., config: _Optional[_Union[_log_pb2.LogConfig, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class CreateLogResponse(_message.Message):
    __slots__ = ("info",)
    INFO_FIELD_NUMBER: _ClassVar[int]
    info: _log_pb2.LogInfo
    def __init__(self, info: _Optional[_Union[_log_pb2.LogInfo, _Mapping]] = ...) -> None: ...

class ListLogsRequest(_message.Message):
    __slots__ = ("include_internal", "after", "limit")
    INCLUDE_INTERNAL_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    include_internal: bool
    after: str
    limit: int
    def __init__(self, include_internal: _Optional[bool] = ..., after: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class ListLogsResponse(_message.Message):
    __slots__ = ("logs", "next")
    LOGS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    logs: _containers.RepeatedCompositeFieldContainer[_log_pb2.LogInfo]
    next: str
    def __init__(self, logs: _Optional[_Iterable[_Union[_log_pb2.LogInfo, _Mapping]]] = ..., next: _Optional[str] = ...) -> None: ...

class ConfigureLogRequest(_message.Message):
    __slots__ = ("name", "config", "log_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    config: _log_pb2.LogConfig
    log_id: int
    def __init__(self, name: _Optional[str] = ..., config: _Optional[_Union[_log_pb2.LogConfig, _Mapping]] = ..., log_id: _Optional[int] = ...) -> None: ...

class ConfigureLogResponse(_message.Message):
    __slots__ = ("info",)
    INFO_FIELD_NUMBER: _ClassVar[int]
    info: _log_pb2.LogInfo
    def __init__(self, info: _Optional[_Union[_log_pb2.LogInfo, _Mapping]] = ...) -> None: ...

class DeleteLogRequest(_message.Message):
    __slots__ = ("name", "log_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    log_id: int
    def __init__(self, name: _Optional[str] = ..., log_id: _Optional[int] = ...) -> None: ...

class DeleteLogResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
