"""How to connect, by the variables of the environment that the command line takes too."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from strandline.errors import invalid
from strandline.token import token_file

_DEFAULT = "127.0.0.1:7171"
_YES = ("1", "t", "true", "yes")
_NO = ("", "0", "f", "false", "no")


def environment(environ: Mapping[str, str] | None) -> tuple[list[str], dict[str, Any]]:
    """The addresses and the options, except tls, whose files are under "tls"."""
    variables = os.environ if environ is None else environ

    def value(name: str) -> str | None:
        return variables.get(f"STRANDLINE_{name}") or None

    insecure = (value("INSECURE") or "").lower()
    if insecure not in _YES + _NO:
        raise invalid(f"STRANDLINE_INSECURE is {insecure!r}, and has to be true or false")
    options: dict[str, Any] = {"insecure": insecure in _YES}
    if file := value("TOKEN_FILE"):
        options["token"] = token_file(file)
    elif token := value("TOKEN"):
        options["token"] = token.strip()
    files = {
        "authority": value("TLS_CA"),
        "certificate": value("TLS_CERT"),
        "key": value("TLS_KEY"),
    }
    if any(files.values()):
        options["tls"] = files
    addresses = [address.strip() for address in (value("SERVER") or _DEFAULT).split(",")]
    return addresses, options
