"""Use cases on secrets: they are set, listed by name, removed, and given to a job's workers."""

from __future__ import annotations

import re

from gpulayer.control.server.sealing import Sealer
from gpulayer.control.store import jobs, secrets
from gpulayer.control.store.store import Store
from gpulayer.errors import InvalidSecret

LEAST_CHARACTERS = 8
"""Scrubbing a shorter value would blot out words that only look like it."""
MOST_BYTES = 32 * 1024
"""One variable of a process's environment holds 128 KiB, and a job may have several."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}\Z")
_OURS = "GPULAYER_"


class Vault:
    """The secrets of one plane."""

    def __init__(self, store: Store, sealer: Sealer) -> None:
        self._store = store
        self._sealer = sealer

    def set(self, name: str, value: str) -> None:
        """Store a value, in the place of an older one of that name; raises ``InvalidSecret``."""
        _check(name, value)
        sealed = self._sealer.seal(name, value)
        with self._store.write() as db:
            secrets.put(db, name, sealed, self._store.now())

    def names(self) -> list[str]:
        with self._store.read() as db:
            return secrets.names(db)

    def remove(self, name: str) -> None:
        with self._store.write() as db:
            secrets.remove(db, name)

    def of_job(self, job_id: str) -> dict[str, str]:
        """Return the values that a job's processes get."""
        with self._store.read() as db:
            found = secrets.sealed(db, jobs.load(db, job_id).spec.secrets)
        return {name: self._sealer.open(name, sealed) for name, sealed in found.items()}


def _check(name: str, value: str) -> None:
    if not _NAME.match(name) or name.startswith(_OURS):
        raise InvalidSecret(f"{name[:80]!r} can't name a secret.", name=name[:200])
    if len(value) < LEAST_CHARACTERS or len(value.strip()) < LEAST_CHARACTERS:
        raise InvalidSecret(f"The value of {name} has fewer than {LEAST_CHARACTERS} characters.", name=name)
    try:
        size = len(value.encode())
    except UnicodeEncodeError:  # half a character, as undecodable bytes on a command line are
        size = -1
    if size < 0 or "\0" in value:
        raise InvalidSecret(f"The value of {name} holds what no environment variable can.", next_step="Give text.", name=name)
    if size > MOST_BYTES:
        raise InvalidSecret(
            f"The value of {name} has more than {MOST_BYTES // 1024} KiB.",
            next_step="Give a large secret as a file that the job fetches with a smaller one.",
            name=name,
        )
