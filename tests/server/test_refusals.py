"""A server that can't do its work says so before it answers anyone: a sentence, the next step, no traceback."""

from __future__ import annotations

import datetime
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gpulayer.control.store import schema, sqlite
from gpulayer.control.store.store import open_database


def refused(*options: object) -> str:
    """Start a server that must refuse to; return what it says."""
    words = [sys.executable, "-m", "gpulayer", "server", "start", "--port", "0", *map(str, options)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) >= 2, "a sentence, and what to do about it"
    return done.stderr


@pytest.mark.parametrize("folder", ["file/data", "/proc/data"])
def test_a_data_folder_that_can_not_be_written_to(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").touch()
    said = refused("--data", tmp_path / folder)
    assert str(tmp_path / folder) in said
    assert "with --data" in said


def test_a_database_that_is_damaged_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "plane.db").write_bytes(b"no database" * 1000)
    said = refused("--data", tmp_path)
    assert "another --database" in said
    assert (tmp_path / "plane.db").read_bytes() == b"no database" * 1000


def test_a_database_of_a_newer_version_is_left_as_it_is(tmp_path: Path) -> None:
    store = open_database(f"sqlite:///{tmp_path / 'plane.db'}", tmp_path)
    with store.write() as db:
        sqlite.set_schema_number(db, schema.NEWEST + 1)
    store.close()
    said = refused("--data", tmp_path)
    assert "newer GPUlayer" in said
    assert "Upgrade gpulayer" in said


def make_certificate(folder: Path, name: str, *, days: int = 1) -> tuple[Path, Path]:
    """Write a certificate that ends in so many days, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key()).serial_number(1)
    made = made.not_valid_before(now - datetime.timedelta(days=30)).not_valid_after(now + datetime.timedelta(days=days))
    cert_path, key_path = folder / f"{name}.pem", folder / f"{name}.key"
    cert_path.write_bytes(made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    key_path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return cert_path, key_path


def test_a_key_of_another_certificate(tmp_path: Path) -> None:
    cert, _ = make_certificate(tmp_path, "one")
    _, key = make_certificate(tmp_path, "other")
    said = refused("--data", tmp_path / "data", "--tls-cert", cert, "--tls-key", key)
    assert f"{key} belongs to another certificate" in said
    assert f"Give the key of {cert}" in said


def test_a_key_that_needs_a_password_is_not_asked_for(tmp_path: Path) -> None:
    cert, key = make_certificate(tmp_path, "one")
    loaded = serialization.load_pem_private_key(key.read_bytes(), None)
    hidden = serialization.BestAvailableEncryption(b"secret")
    key.write_bytes(loaded.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden))
    assert "without a password" in refused("--data", tmp_path / "data", "--tls-cert", cert, "--tls-key", key)


def test_a_certificate_that_has_ended(tmp_path: Path) -> None:
    cert, key = make_certificate(tmp_path, "old", days=-1)
    said = refused("--data", tmp_path / "data", "--tls-cert", cert, "--tls-key", key)
    assert f"{cert} ended on " in said
    assert "renewed" in said


@pytest.mark.parametrize("url", ["nonsense://somewhere", "file:///proc/blobs"])
def test_a_store_for_artifacts_that_can_not_be_written_to(tmp_path: Path, url: str) -> None:
    said = refused("--data", tmp_path, "--artifacts", url)
    assert "--artifacts" in said
    assert url.partition("://")[0 if "nonsense" in url else 2] in said


def test_a_host_that_is_not_this_machine(tmp_path: Path) -> None:
    assert "--host or --port" in refused("--data", tmp_path, "--host", "192.0.2.1", "--insecure")
