"""What must not be in a log for an append to be accepted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from strandline.errors import invalid, whole
from strandline.v1 import log_pb2


@dataclass(frozen=True)
class Check:
    """A condition of an append: no record at offset `since` or above, up to the records that are appended,
    has one of the keys, a key that begins with one of the prefixes, or one of the headers. At least one of
    them has to be given. The page checked-appends.md has the bounds."""

    since: int = 0
    """The offset up to which the caller has read: that of the last record it has taken into account, plus
    one."""
    keys: Sequence[bytes] = ()
    key_prefixes: Sequence[bytes] = ()
    headers: Sequence[tuple[str, bytes | None]] = ()

    def _write(self, to: log_pb2.CheckedAppend) -> None:
        whole("since of the check", self.since)
        try:
            to.since = self.since
            to.keys.extend(self.keys)
            to.key_prefixes.extend(self.key_prefixes)
            for name, value in self.headers:
                header = to.headers.add(key=name)
                if value is not None:
                    header.value = value
        except (TypeError, ValueError) as error:
            raise invalid(f"the check cannot be encoded: {error}") from error
