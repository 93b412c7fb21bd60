"""A server's own certificate, made where nobody else vouches for it; tokens carry its fingerprint, and clients check that."""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
import os
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gpulayer.control.server.private_files import make_private_folder, write_private
from gpulayer.errors import ServerRefused

_DAYS = 3653
"""Ten years: who pins a certificate by its fingerprint asks for no other proof, and a new one would lock every worker out."""


@dataclass(frozen=True)
class Tls:
    """PEM files, and the SHA-256 (hex) of the certificate's DER form."""

    cert_path: Path
    key_path: Path
    fingerprint: str


def ensure(folder: Path, names: Iterable[str]) -> Tls:
    """Return the certificate in ``folder``, made when there is none; ``names`` are host names and addresses it is for.

    It stays the same over restarts, whatever the names are by then: its holders know it by its fingerprint.
    """
    cert_path, key_path = folder / "cert.pem", folder / "key.pem"
    if not cert_path.exists():
        make_private_folder(folder)
        key = ec.generate_private_key(ec.SECP256R1())
        write_private(key_path, _key_pem(key))
        write_private(cert_path, _certificate(key, names).public_bytes(serialization.Encoding.PEM))
    elif not key_path.exists():
        raise ServerRefused(f"{key_path} is missing.", next_step=f"Bring it back, or remove {cert_path} for a new certificate.")
    os.chmod(key_path, 0o600)
    return Tls(cert_path, key_path, fingerprint(cert_path))


def given(cert_path: Path, key_path: Path, now: datetime.datetime) -> Tls:
    """Return a certificate that someone else made; raises ``ServerRefused`` for one that no client would accept."""
    found = Tls(cert_path, key_path, fingerprint(cert_path))
    until = _read(cert_path).not_valid_after_utc
    if until < now:
        raise ServerRefused(f"The certificate {cert_path} ended on {until:%Y-%m-%d}.", next_step="Give a renewed one.")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert_path, key_path, password="")
    except (OSError, ValueError) as cause:  # a mismatch is an SSLError, which is an OSError
        why = "belongs to another certificate" if "MISMATCH" in str(cause) else f"can't be used ({cause})"
        raise ServerRefused(
            f"The key {key_path} {why}.", next_step=f"Give the key of {cert_path}, in PEM and without a password."
        ) from cause
    return found


def fingerprint(cert_path: Path) -> str:
    """Return the SHA-256 (hex) of the first certificate in a PEM file, in its DER form."""
    return hashlib.sha256(_read(cert_path).public_bytes(serialization.Encoding.DER)).hexdigest()


def _read(cert_path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(cert_path.read_bytes())
    except (OSError, ValueError) as cause:
        raise ServerRefused(f"The certificate {cert_path} can't be read: {cause}.", next_step="Give a PEM file.") from cause


def _certificate(key: ec.EllipticCurvePrivateKey, names: Iterable[str]) -> x509.Certificate:
    known = dict.fromkeys([*filter(None, names), "localhost", "127.0.0.1", "::1"])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "GPUlayer server")])
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))  # clocks of clients may be behind
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
        .add_extension(x509.SubjectAlternativeName([_general(name) for name in known]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name.partition("%")[0]))
    except ValueError:
        return x509.DNSName(name.encode("idna").decode("ascii") if not name.isascii() else name)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
