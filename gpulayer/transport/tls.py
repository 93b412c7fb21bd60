"""Whom a connection to a plane trusts: the system's authorities, a file of its own, or exactly one certificate."""

from __future__ import annotations

import hashlib
import ssl
from pathlib import Path
from typing import Any, NoReturn

from gpulayer.errors import PlaneUnreachable


def trust(ca_cert: Path | None, fingerprint: str | None) -> ssl.SSLContext:
    """Make the context: a named file of authorities goes before a token's fingerprint, which goes before the system's."""
    if ca_cert is not None:
        try:
            return ssl.create_default_context(cafile=str(ca_cert))
        except (OSError, ssl.SSLError) as cause:
            raise PlaneUnreachable(
                f"The certificates in {ca_cert} can't be read: {cause}.", next_step="Name a PEM file with GPULAYER_CA_CERT."
            ) from cause
    if fingerprint is not None:
        return _PinnedContext.of(fingerprint)
    return ssl.create_default_context()


class _PinnedContext(ssl.SSLContext):
    """Accepts one certificate, by the SHA-256 of its DER form, whatever its names and whoever signed it."""

    fingerprint: str

    @classmethod
    def of(cls, fingerprint: str) -> _PinnedContext:
        made = cls(ssl.PROTOCOL_TLS_CLIENT)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
        made.fingerprint = fingerprint
        return made

    def wrap_socket(self, *args: Any, **kwargs: Any) -> ssl.SSLSocket:
        """Look at the certificate after the handshake, before a byte of a request is written."""
        wrapped = super().wrap_socket(*args, **kwargs)
        shown = hashlib.sha256(wrapped.getpeercert(binary_form=True) or b"").hexdigest()
        if shown != self.fingerprint:
            wrapped.close()
            raise ssl.SSLCertVerificationError(f"its certificate is {shown}, the token names {self.fingerprint}")
        return wrapped

    def wrap_bio(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise ssl.SSLError("a pinned certificate is checked on sockets only")
