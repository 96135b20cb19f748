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
    is read again while calls are made, at most once a second, so that a token can be replaced. Where it
    cannot be read any more, or is empty as it is being written, the one read last is shown."""
    shown, read = "", float("-inf")

    def token() -> str:
        nonlocal shown, read
        now = time.monotonic()
        if now - read >= _READ_AGAIN:
            read = now
            try:
                shown = Path(path).read_text().strip() or shown
            except OSError as error:
                if not shown:
                    raise invalid(f"the token cannot be read: {error}") from error
        return shown

    return token
