"""Secrets at rest: encrypted under a key that lies in a file of its own, beside the database and not in it."""

from __future__ import annotations

import base64
import os
from functools import cached_property
from pathlib import Path

from gpulayer.control.server.private_files import make_private_folder, write_private_once
from gpulayer.errors import SecretError

_KEY_BYTES, _NONCE_BYTES = 32, 12


class Sealer:
    """Seals values under a name, with AES-256-GCM: a sealed value opens under its own name only.

    The key is made when first needed. Who has only the database has no secret; who loses the key has none either.
    """

    def __init__(self, key_path: Path) -> None:
        self._path = key_path

    def seal(self, name: str, value: str) -> bytes:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # few planes hold secrets, and it takes a while

        nonce = os.urandom(_NONCE_BYTES)
        return nonce + AESGCM(self._key).encrypt(nonce, value.encode(), name.encode())

    def open(self, name: str, sealed: bytes) -> str:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        try:
            opened = AESGCM(self._key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], name.encode())
        except (InvalidTag, ValueError) as cause:
            raise SecretError(
                f"The secret {name} can't be opened with the key in {self._path}.",
                next_step=f"Bring the key file back, or set it anew: gpulayer secrets set {name}.",
                name=name,
            ) from cause
        return opened.decode()

    @cached_property
    def _key(self) -> bytes:
        try:
            text = self._path.read_bytes()
        except FileNotFoundError:
            make_private_folder(self._path.parent)
            text = write_private_once(self._path, base64.b64encode(os.urandom(_KEY_BYTES)))
        try:
            key = base64.b64decode(text.strip(), validate=True)
        except ValueError:
            key = b""
        if len(key) != _KEY_BYTES:
            raise SecretError(f"{self._path} holds no key.", next_step="Bring the file back as it was made.")
        return key
