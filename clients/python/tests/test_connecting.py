"""Where a client finds the addresses to connect to, and the token to show."""

import asyncio
import time
from pathlib import Path

import pytest

import strandline
from strandline import sync
from strandline.calls import Shown
from strandline.errors import Error
from strandline.token import TokenFile


def shown(client: strandline.Client) -> str:
    ((name, value),) = client._calls.metadata()
    assert name == "authorization"
    return str(value)


def test_a_function_gives_the_token_of_each_call() -> None:
    async def show() -> None:
        tokens = iter(["one", "two", "line\nbreak"])
        async with strandline.Client("127.0.0.1:1", token=lambda: next(tokens), retry_time=0) as client:
            assert [shown(client), shown(client)] == ["Bearer one", "Bearer two"]
            with pytest.raises(strandline.Invalid) as caught:
                shown(client)
            assert "break" not in str(caught.value).replace("a line break", "")
            with pytest.raises(strandline.Unreachable) as failed:
                shown(client)  # the function fails
            assert failed.value.outcome == strandline.Outcome.NOT_DONE

    asyncio.run(show())


def test_a_token_in_a_file_can_be_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    file = tmp_path / "token"
    given = strandline.token_file(file)
    with pytest.raises(strandline.Invalid):
        given()
    now += 1
    file.write_text("one\n")
    assert given() == "one"
    file.write_text("two\n")
    assert given() == "one"
    assert isinstance(given, TokenFile)
    assert given.anew() == "two"
    file.write_text("one\n")
    assert given() == "two"
    now += 1
    assert given() == "one"
    file.write_text("two\n")
    now += 1
    assert given() == "two"
    file.write_text("")  # as it is while another is being written
    now += 1
    assert given() == "two"
    file.unlink()
    now += 1
    assert given() == "two"


def test_the_environment_says_how_to_connect(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("of-file\n")

    async def connect() -> None:
        async with strandline.Client.from_environment({}) as client:
            assert client._calls.peers.addresses == ["127.0.0.1:7171"]
            assert not client._calls.metadata()
        everything = {"SERVER": "192.0.2.1:1, 192.0.2.2:2", "TOKEN": "secret", "INSECURE": "true"}
        environ = {f"STRANDLINE_{name}": value for name, value in everything.items()}
        async with strandline.Client.from_environment(environ) as client:
            assert client._calls.peers.addresses == ["192.0.2.1:1", "192.0.2.2:2"]
            assert shown(client) == "Bearer secret"
        environ["STRANDLINE_TOKEN_FILE"] = str(file)
        async with strandline.Client.from_environment(environ, retry_time=7) as client:
            assert shown(client) == "Bearer of-file"
            assert client._calls.retry_time == 7

    asyncio.run(connect())
    sync.Client.from_environment({"STRANDLINE_SERVER": "127.0.0.1:1"}).close()
    for name, value in (
        ("SERVER", "192.0.2.1:1"),
        ("INSECURE", "perhaps"),
        ("TLS_CERT", "alone.pem"),
        ("TOKEN", "line\nbreak"),
    ):
        with pytest.raises(strandline.Invalid):
            strandline.Client.from_environment({f"STRANDLINE_{name}": value})


def test_a_token_that_is_refused_is_replaced_once() -> None:
    async def replace() -> None:
        given = iter(["a", "b", "c", "d", "e", "f", "f"])
        async with strandline.Client("127.0.0.1:1", token=lambda: next(given)) as client:
            refused = Error("UNAUTHENTICATED", "")
            stream = Shown(client._calls)
            stream.metadata()  # a
            assert stream.failure(Error("FULL", "", retryable=True)).retryable
            first = stream.failure(refused)  # another one is b
            assert first.again and first.renewed and not first.elsewhere
            stream.metadata()  # c
            assert not stream.failure(Error("UNREACHABLE", "")).again
            assert not stream.failure(refused).again, "nothing has come since"
            assert stream.failure(refused).again  # another one is d
            stream.failure(Error("FULL", ""))
            stream.metadata()  # e
            stream._shown = client._calls.metadata()  # f
            assert not stream.failure(refused).again, "there is no other token"

    asyncio.run(replace())
