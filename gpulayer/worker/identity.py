"""Who a standing worker is, from one start to the next."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import ValidationError

from gpulayer.errors import WorkerStartFailed
from gpulayer.spec.base import Record
from gpulayer.worker import locks

_FILE, _LOCK = "identity.json", "identity.lock"
_held = locks.Held()


class Identity(Record):
    """``plane`` is the URL or home that knows it; ``key`` is the worker's own credential, empty in a home.

    ``worker_id`` is empty as long as the plane was not heard to take the key.
    """

    plane: str
    worker_id: str
    key: str = ""


def hold(work_dir: Path) -> None:
    """Keep every other process of this machine from being the same worker, for the life of this one."""
    work_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Not the identity's own file: closing that after reading would free the lock.
    taken = _held.take([work_dir / _LOCK])
    if taken is not None:
        raise WorkerStartFailed(
            f"Process {taken[1]} is the worker of {work_dir} already.",
            next_step="Give another --name or --work-dir for a second worker; --slots lets one worker run several tasks.",
            pid=taken[1],
        )


def holder(work_dir: Path) -> int:
    """Return the pid of the process that is the worker of a folder; 0 when none is."""
    return locks.holder(work_dir / _LOCK)


def path(work_dir: Path) -> Path:
    """Return the file that holds who the worker of a folder is."""
    return work_dir / _FILE


def load(work_dir: Path) -> Identity | None:
    """Return the identity that an earlier start left."""
    try:
        return Identity.model_validate_json((work_dir / _FILE).read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as cause:
        raise WorkerStartFailed(
            f"{work_dir / _FILE} is damaged.", next_step="Remove it, and join again with a new join token."
        ) from cause


def save(work_dir: Path, identity: Identity) -> None:
    """Keep an identity, readable by this user alone."""
    beside = work_dir / f"{_FILE}.part"
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(identity.model_dump_json())
        file.flush()
        os.fsync(file.fileno())
    beside.replace(work_dir / _FILE)
