"""Why a node cannot be reached is in the error, and what will not change is not tried again."""

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from silent import Silent

import strandline
from strandline import sync


class Certificates:
    def __init__(self, directory: Path) -> None:
        make = "openssl req -x509 -newkey rsa:2048 -nodes -days 9 -subj /CN=x -addext subjectAltName={} "
        for name, of in (
            ("right", "IP:127.0.0.1"),
            ("other", "IP:127.0.0.1"),
            ("elsewhere", "DNS:elsewhere"),
        ):
            files = f"-keyout {directory}/{name}.key -out {directory}/{name}.pem"
            subprocess.run((make.format(of) + files).split(), check=True, capture_output=True)
        self.directory = directory

    def tls(self, name: str) -> strandline.TLS:
        return strandline.TLS(self.directory / f"{name}.pem")

    def server(self, name: str) -> Silent:
        pair = tuple((self.directory / f"{name}.{end}").read_bytes() for end in ("key", "pem"))
        return Silent(credentials=grpc.ssl_server_credentials([pair]))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Certificates]:
    yield Certificates(tmp_path_factory.mktemp("certificates"))


def cause(address: str, tls: strandline.TLS | None, retry_time: float = 0) -> strandline.Error:
    with sync.Client(address, tls=tls, insecure=tls is None, retry_time=retry_time) as client:
        with pytest.raises(strandline.Unreachable) as caught:
            client.producer("orders", timeout=60)
    assert caught.value.outcome is strandline.Outcome.NOT_DONE
    return caught.value


def test_a_connection_that_is_refused_says_so() -> None:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        error = cause(f"127.0.0.1:{s.getsockname()[1]}", None)
    assert "refused" in error.message
    assert error.retryable


def test_a_name_that_nobody_has_is_named() -> None:
    error = cause("no-such-host.invalid:7171", None)
    assert "no-such-host.invalid" in error.message.partition(": ")[2]
    assert error.retryable


@pytest.mark.parametrize(
    ("shown", "believed", "words"),
    [("right", "other", "CERTIFICATE_VERIFY_FAILED"), ("elsewhere", "elsewhere", "Hostname")],
)
def test_a_certificate_that_is_wrong_is_not_tried_again(
    certificates: Certificates, shown: str, believed: str, words: str
) -> None:
    server = certificates.server(shown)
    # For as long as that it would be tried otherwise, and the deadline of the call end it.
    error = cause(server.address, certificates.tls(believed), retry_time=1e6)
    assert words in error.message
    assert not error.retryable
    server.close()


def test_a_node_that_does_not_encrypt_is_not_tried_again(certificates: Certificates) -> None:
    server = Silent()
    assert not cause(server.address, certificates.tls("right"), retry_time=1e6).retryable
    server.close()


def test_one_node_with_a_wrong_certificate_does_not_keep_from_the_others(certificates: Certificates) -> None:
    wrong, right = certificates.server("other"), certificates.server("right")
    with sync.Client([wrong.address, right.address], tls=certificates.tls("right")) as client:
        assert client.admin.open_session("orders").id == 1
    wrong.close()
    right.close()
