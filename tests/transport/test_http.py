"""What a caller sees of HTTP: our errors, trouble that passes, and where a token may go. The other side is a real server."""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
import logging
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pydantic_core import from_json, to_json

from gpulayer.errors import (
    Forbidden,
    InsecureUrl,
    JobNotFound,
    PlaneBusy,
    PlaneError,
    PlaneFromChild,
    PlaneUnreachable,
    Unauthorized,
)
from gpulayer.transport.address import Address
from gpulayer.transport.http import Broken, Http

Handle = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Answers each request with the next of the server's canned answers, the last one again and again."""

    protocol_version = "HTTP/1.1"

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.heard.append((self.path, dict(self.headers), body))  # type: ignore[attr-defined]
        left = self.server.answers  # type: ignore[attr-defined]
        (left.pop(0) if len(left) > 1 else left[0])(self)

    do_POST = do_PUT = do_HEAD = do_DELETE = do_GET

    def log_message(self, *_: Any) -> None: ...


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.answers: list[Handle] = [ok]
        self.heard: list[tuple[str, dict[str, str], bytes]] = []
        self.scheme = "http"
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def handle_error(self, *_: Any) -> None: ...

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}"

    def end(self) -> None:
        self.shutdown()
        self.server_close()


def ok(handler: Handler) -> None:
    handler.answer(200, b'{"fine": true}')


def says(status: int, wire: dict[str, Any] | None = None, **headers: str) -> Handle:
    return lambda handler: handler.answer(status, to_json({"error": wire}) if wire else b"<html>", **headers)


def hangs_up(handler: Handler) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.end()


@pytest.fixture
def http(server: Server) -> Iterator[Http]:
    made = Http(Address(server.url, "glt_secret"))
    yield made
    made.close()


def test_a_question_carries_the_token_and_our_values(server: Server, http: Http) -> None:
    http.ask("POST", "/v1/jobs", json={"at": Path("/x"), "n": (1, 2)}, params={"limit": 3, "owner": None})
    path, headers, body = server.heard[0]
    assert path == "/v1/jobs?limit=3"
    assert headers["Authorization"] == "Bearer glt_secret"
    assert from_json(body) == {"at": "/x", "n": [1, 2]}


def test_the_log_of_a_program_is_its_own(server: Server, http: Http, caplog: pytest.LogCaptureFixture) -> None:
    other = Server()
    with caplog.at_level(logging.INFO):
        http.ask("GET", "/v1/jobs")
        httpx.get(other.url, trust_env=False)
    other.end()
    assert [record.getMessage() for record in caplog.records] == [f'HTTP Request: GET {other.url} "HTTP/1.1 200 OK"']


def test_an_error_of_ours_comes_out_as_itself(server: Server, http: Http) -> None:
    server.answers = [says(404, JobNotFound("There is no job j.", job_id="j").to_wire())]
    with pytest.raises(JobNotFound, match="There is no job j") as caught:
        http.ask("GET", "/v1/jobs/j")
    assert caught.value.facts == {"job_id": "j"}
    assert len(server.heard) == 1


@pytest.mark.parametrize(("status", "kind"), [(401, Unauthorized), (403, Forbidden), (404, PlaneError), (418, PlaneError)])
def test_an_answer_of_somebody_else_becomes_an_error_of_ours(
    server: Server, http: Http, status: int, kind: type[Exception]
) -> None:
    server.answers = [says(status)]
    with pytest.raises(kind, match=str(status)):
        http.ask("GET", "/v1/jobs")


def test_how_long_a_plane_has_been_silent_is_known_until_it_answers(server: Server, http: Http) -> None:
    silences: list[float] = []

    def answers_again(handler: Handler) -> None:
        silences.append(http.silent_s)
        ok(handler)

    server.answers = [hangs_up, hangs_up, answers_again, ok]
    assert http.silent_s == 0.0
    http.ask("GET", "/v1/jobs")
    assert silences[0] > 0.0
    assert http.silent_s == 0.0


def test_a_status_that_is_an_answer_is_returned(server: Server, http: Http) -> None:
    server.answers = [says(404)]
    assert http.ask("HEAD", "/v1/blobs/x", accept=(404,)).status_code == 404


def test_redirects_are_refused(server: Server, http: Http) -> None:
    server.answers = [says(307, Location="http://elsewhere/")]
    with pytest.raises(PlaneError, match="redirect to http://elsewhere/"):
        http.ask("GET", "/v1/jobs")


def test_a_broken_connection_is_not_seen(server: Server, http: Http) -> None:
    server.answers = [hangs_up, hangs_up, ok]
    assert http.ask("GET", "/v1/jobs").json() == {"fine": True}
    assert len(server.heard) == 3


def test_a_restart_of_the_server_is_not_seen(server: Server, http: Http) -> None:
    http.ask("GET", "/v1/jobs")
    port = server.server_address[1]
    server.end()
    answered: list[Any] = []
    asking = threading.Thread(target=lambda: answered.append(http.ask("GET", "/v1/jobs").json()))
    asking.start()
    again = Server(port)
    try:
        asking.join(10)
        assert answered == [{"fine": True}]
    finally:
        again.end()


def test_a_busy_plane_is_asked_again_after_the_time_it_names(server: Server, http: Http) -> None:
    server.answers = [says(429, PlaneBusy("Too much.").to_wire(), Retry_After="0.2"), says(503), ok]
    assert http.ask("GET", "/v1/jobs").json() == {"fine": True}


def test_a_plane_that_stays_busy_says_so_in_the_end(server: Server) -> None:
    http = Http(Address(server.url), patience_s=0.2)
    server.answers = [says(429, PlaneBusy("Too much.").to_wire(), Retry_After="7")]
    with pytest.raises(PlaneBusy) as caught:
        http.ask("GET", "/v1/jobs")
    assert caught.value.facts["retry_after_s"] == 7
    http.close()


def test_nobody_there_is_said_with_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    http = Http(Address(f"http://127.0.0.1:{port}"), patience_s=0.1)
    with pytest.raises(PlaneUnreachable, match=rf"http://127\.0\.0\.1:{port} can't be reached"):
        http.ask("GET", "/v1/jobs")
    http.close()


def test_closing_ends_who_asks_again(server: Server, http: Http) -> None:
    http.ask("GET", "/")
    server.answers = [says(503)]
    seen: list[Exception] = []

    def ask() -> None:
        try:
            http.ask("GET", "/")
        except (PlaneBusy, PlaneUnreachable) as error:
            seen.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    http.close()
    asking.join(10)
    assert seen
    with pytest.raises(PlaneUnreachable, match="closed"):
        http.ask("GET", "/")


def test_a_body_that_ends_early_is_broken(server: Server, http: Http) -> None:
    def half(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "10")
        handler.end_headers()
        handler.wfile.write(b"12345")
        hangs_up(handler)

    server.answers = [half]
    with http.stream("/v1/blobs/x") as (_, body), pytest.raises(Broken):
        list(body)


def test_a_token_stays_off_a_readable_way() -> None:
    with pytest.raises(InsecureUrl, match="plain http"):
        Http(Address("http://plane.example:80", "glt_secret"))
    Http(Address("http://plane.example:80", "glt_secret", insecure=True)).close()
    Http(Address("http://plane.example:80")).close()
    for near in ("http://127.0.0.2:1", "http://[::1]:1", "http://localhost:1", "https://plane.example"):
        Http(Address(near, "glt_secret")).close()


@pytest.mark.parametrize("url", ["ftp://x", "https://", "http://x:port", "plane://"])
def test_what_is_no_address_of_a_plane_is_said(url: str) -> None:
    with pytest.raises(PlaneUnreachable):
        Http(Address(url))


def test_a_password_in_the_address_is_refused() -> None:
    with pytest.raises(InsecureUrl, match="password"):
        Http(Address("https://me:pw@plane.example"))


def test_a_forked_child_is_refused(http: Http) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            http.ask("GET", "/")
        except PlaneFromChild:
            os.write(writing, b"refused")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    assert os.read(reading, 20) == b"refused"
    os.close(reading)


# --- TLS -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A self-made certificate for 127.0.0.1, with its key in the same file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "plane")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = made.public_bytes(serialization.Encoding.PEM)
    pem += key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = tmp_path / "cert.pem"
    path.write_bytes(pem)
    return path


@pytest.fixture
def tls_server(server: Server, certificate: Path) -> Server:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.scheme = "https"
    return server


def fingerprint(certificate: Path) -> str:
    der = x509.load_pem_x509_certificate(certificate.read_bytes()).public_bytes(serialization.Encoding.DER)
    return hashlib.sha256(der).hexdigest()


def test_a_token_with_a_fingerprint_trusts_that_certificate_alone(tls_server: Server, certificate: Path) -> None:
    http = Http(Address(tls_server.url, f"glt_secret.{fingerprint(certificate)}"))
    assert http.ask("GET", "/").json() == {"fine": True}
    assert tls_server.heard[0][1]["Authorization"] == "Bearer glt_secret"
    http.close()


def test_a_token_is_not_sent_to_a_certificate_of_another_fingerprint(tls_server: Server) -> None:
    http = Http(Address(tls_server.url, f"glt_secret.{'0' * 64}"))
    with pytest.raises(PlaneUnreachable, match=r"reached: its certificate is \w{64}, the token names 0{64}\. Give the token"):
        http.ask("GET", "/")
    assert tls_server.heard == []
    http.close()


def test_an_unknown_certificate_is_refused_unless_its_file_is_named(tls_server: Server, certificate: Path) -> None:
    http = Http(Address(tls_server.url, "glt_secret"))
    with pytest.raises(PlaneUnreachable, match=r"CERTIFICATE_VERIFY_FAILED.*GPULAYER_CA_CERT"):
        http.ask("GET", "/")
    assert tls_server.heard == []
    http.close()
    http = Http(Address(tls_server.url, "glt_secret", ca_cert=certificate))
    assert http.ask("GET", "/").json() == {"fine": True}
    http.close()


def test_without_a_token_that_is_what_to_see_to_first(tls_server: Server) -> None:
    http = Http(Address(tls_server.url))
    with pytest.raises(PlaneUnreachable, match="No token is set") as caught:
        http.ask("GET", "/")
    assert "Give the token whole" not in str(caught.value)
    http.close()


def test_a_file_without_certificates_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlaneUnreachable, match=r"nothing\.pem"):
        Http(Address("https://plane.example", ca_cert=tmp_path / "nothing.pem"))
