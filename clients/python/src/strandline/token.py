"""What a client shows to say who it is."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from strandline.errors import invalid

_READ_AGAIN = 1.0
"""A file is read again for a call this long, in seconds, after it was read."""

Token = str | Callable[[], str]


def check_token(token: str) -> str:
    """Refuses what no header can carry. The error does not show it."""
    if not isinstance(token, str) or not re.fullmatch(r"[!-~]+", token):
        raise invalid(
            "the token is empty, or has a character that no header can carry, such as a line break at its end"
        )
    return token


def token_file(path: str | Path) -> Callable[[], str]:
    """A token that is kept in a file, without the space around it: Client(token=token_file(path)). The file
    is read again while calls are made, at most once a second, and when a node refuses the token, so that it
    can be replaced. Where it cannot be read any more, or is empty as it is being written, the one read last
    is shown."""
    return TokenFile(path)


class TokenFile:
    """Gives the token that a file holds."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._shown, self._read = "", float("-inf")

    def __call__(self) -> str:
        return self._shown if time.monotonic() - self._read < _READ_AGAIN else self.anew()

    def anew(self) -> str:
        """Reads the file."""
        self._read = time.monotonic()
        try:
            self._shown = self._path.read_text().strip() or self._shown
        except OSError as error:
            if not self._shown:
                raise invalid(f"the token cannot be read: {error}") from error
        return self._shown
