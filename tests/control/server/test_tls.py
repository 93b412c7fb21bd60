"""The certificate that a server makes for itself."""

from __future__ import annotations

import hashlib
import socket
import ssl
import stat
import threading
from pathlib import Path

import pytest
from cryptography import x509

from gpulayer.control.server import tls
from gpulayer.errors import ServerRefused

NAMES = ["plane.example", "10.1.2.3", "fe80::1%eth0", "plane.example", ""]


def read(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_it_is_made_once_and_kept_whatever_the_names_are_later(tmp_path: Path) -> None:
    made = tls.ensure(tmp_path / "tls", NAMES)

    assert tls.ensure(tmp_path / "tls", ["other"]) == made
    assert made.fingerprint == hashlib.sha256(ssl.PEM_cert_to_DER_cert(made.cert_path.read_text())).hexdigest()


def test_it_names_the_host_and_this_machine(tmp_path: Path) -> None:
    made = read(tls.ensure(tmp_path, NAMES).cert_path)
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value

    assert names.get_values_for_type(x509.DNSName) == ["plane.example", "localhost"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["10.1.2.3", "fe80::1", "127.0.0.1", "::1"]
    assert (made.not_valid_after_utc - made.not_valid_before_utc).days > 3650


def test_its_files_are_their_owners_alone(tmp_path: Path) -> None:
    made = tls.ensure(tmp_path / "tls", [])
    made.key_path.chmod(0o644)
    tls.ensure(tmp_path / "tls", [])

    assert stat.S_IMODE(made.key_path.stat().st_mode) == 0o600
    assert stat.S_IMODE(made.cert_path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "tls").stat().st_mode) == 0o700


def test_a_half_made_pair_is_made_anew_and_a_lost_key_is_named(tmp_path: Path) -> None:
    made = tls.ensure(tmp_path, [])
    made.cert_path.unlink()
    again = tls.ensure(tmp_path, [])
    assert again.fingerprint != made.fingerprint

    again.key_path.unlink()
    with pytest.raises(ServerRefused, match=r"key\.pem is missing"):
        tls.ensure(tmp_path, [])


@pytest.mark.parametrize("text", [b"", b"no certificate", b"-----BEGIN CERTIFICATE-----\nxx\n-----END CERTIFICATE-----\n"])
def test_what_is_no_certificate_is_said(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "cert.pem").write_bytes(text)
    with pytest.raises(ServerRefused, match="can't be read"):
        tls.fingerprint(tmp_path / "cert.pem")


def test_a_client_that_trusts_it_reaches_the_server_by_its_names(tmp_path: Path) -> None:
    made = tls.ensure(tmp_path, [])
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(made.cert_path, made.key_path)
    asking = ssl.create_default_context(cafile=str(made.cert_path))
    heard: list[bytes] = []

    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            raw, _ = listening.accept()
            with raw, serving.wrap_socket(raw, server_side=True) as secure:
                heard.append(secure.recv(100))

        thread = threading.Thread(target=serve)
        thread.start()
        with (
            socket.create_connection(listening.getsockname(), 10) as raw,
            asking.wrap_socket(raw, server_hostname="localhost") as ours,
        ):
            ours.sendall(b"hello")
            shown = ours.getpeercert(binary_form=True)
        thread.join(10)

    assert heard == [b"hello"]
    assert hashlib.sha256(shown or b"").hexdigest() == made.fingerprint
