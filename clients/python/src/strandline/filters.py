"""What a read gives of the records, which the server selects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from strandline.v1 import log_pb2


@dataclass(frozen=True)
class Filter:
    """Selects the records for which all conditions that are set hold. The page filters.md says what
    each compares."""

    keys: Sequence[bytes] = ()
    """The key is one of these. A record without a key has none of them."""
    key_prefixes: Sequence[bytes] = ()
    """The key begins with one of these."""
    headers: Sequence[tuple[str, bytes | None]] = ()
    """For each, a header of that name has that value."""
    where: str = ""
    """An expression in CEL that is true. A fault in it ends the read with FilterInvalid."""
    on_failed: Callable[[int, str], None] | None = None
    """Is called with the offset of each record that `where` fails on, and why; the record is left out.
    None: the first such record ends the read with FilterFailed. After a connection was lost it may be
    called again for a record. sync.Client calls it in its own thread."""

    def _wire(self) -> log_pb2.Filter:
        wire = log_pb2.Filter(
            keys=self.keys,
            key_prefixes=self.key_prefixes,
            where=self.where,
            skip_failed=self.on_failed is not None,
        )
        for name, value in self.headers:
            header = wire.headers.add(key=name)
            if value is not None:
                header.value = value
        return wire


@dataclass(frozen=True)
class Projection:
    """Says what of a record is not sent: it looks as if it had been appended without."""

    drop_key: bool = False
    drop_value: bool = False
    drop_headers: bool = False
    value_bytes: int = 0
    """How many bytes of the value are sent at most; 0: all."""
    json_fields: Sequence[str] = ()
    """The fields of a value that is a JSON object that are sent: `a.b` is field b of the object a. Any
    other value becomes None."""

    def _wire(self) -> log_pb2.Projection:
        return log_pb2.Projection(
            drop_key=self.drop_key,
            drop_value=self.drop_value,
            drop_headers=self.drop_headers,
            value_bytes=self.value_bytes,
            json_fields=self.json_fields,
        )
