"""The standing workers that ``gpulayer up`` keeps in a home; ``gpulayer down`` sends them away.

Each is a ``gpulayer worker start`` in the background, with a folder of its own below ``<home>/up``. Which of them live is
read from the locks on these folders, which the kernel frees, so that no file can say it wrongly.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gpulayer.errors import WorkerStartFailed
from gpulayer.settings import Settings
from gpulayer.worker import identity

START_S = 60.0
"""How long a worker may take to say that it serves."""
_TAIL = 3


@dataclass(frozen=True)
class Kept:
    """A worker that lives in the background."""

    number: int
    pid: int
    worker_id: str


def living(home: Path) -> list[Kept]:
    """Return the workers that live."""
    return list(_living(home))


def _living(home: Path) -> Iterator[Kept]:
    numbers = sorted(int(each.name) for each in _folder(home).glob("[0-9]*") if each.name.isdecimal())
    for number in numbers:
        pid = identity.holder(_folder(home) / str(number))
        if pid:
            known = identity.load(_folder(home) / str(number))
            yield Kept(number, pid, known.worker_id if known else "")


def start(found: Settings, count: int, *, leaving: Collection[str] = (), idle_timeout_s: float | None = None) -> None:
    """Start as many as are missing to ``count``, and wait until the plane knows them; those ``leaving`` (by id) don't count.

    They have this process's environment. Raises ``WorkerStartFailed``, with what the worker said, when one does not come up.
    """
    there = living(found.home)
    taken = {each.number for each in there}
    missing = count - sum(each.worker_id not in leaving for each in there)
    fresh = [number for number in range(count + len(taken)) if number not in taken][: max(0, missing)]
    started = [(number, _start(found, number, idle_timeout_s)) for number in fresh]
    deadline = time.monotonic() + START_S
    for number, process in started:
        _await_service(process, _log(found.home, number), deadline)


def _start(found: Settings, number: int, idle_timeout_s: float | None) -> subprocess.Popen[bytes]:
    home = found.home
    work_dir, log = _folder(home) / str(number), _log(home, number)
    for folder in (home, work_dir.parent, log.parent):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    argv = [sys.executable, "-P", "-m", "gpulayer", "worker", "start", "--work-dir", str(work_dir)]
    argv += ["--name", f"{socket.gethostname()}-up{number}"]
    argv += [] if idle_timeout_s is None else ["--idle-timeout", str(idle_timeout_s)]
    with log.open("ab") as said:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            env={**os.environ, "GPULAYER_HOME": str(home), "GPULAYER_PROFILE": found.profile},
            cwd="/",
            start_new_session=True,
        )


def _await_service(process: subprocess.Popen[bytes], log: Path, deadline: float) -> None:
    """Wait for the line by which a worker says that it serves."""
    assert process.stdout is not None
    with process.stdout as words:
        ready, _, _ = select.select([words], [], [], max(0.0, deadline - time.monotonic()))
        said = words.readline() if ready else b""
    if said:
        process.returncode = 0  # it is nobody's child from now on; without this, Popen would warn of one left alive
        return
    process.kill()
    process.wait()
    raise WorkerStartFailed(f"A worker did not come up. It said: {' / '.join(_tail(log)) or 'nothing'}", log=str(log))


def _tail(log: Path) -> list[str]:
    return log.read_text(errors="replace").strip().splitlines()[-_TAIL:]


def tell(home: Path, kept: Sequence[Kept], number: signal.Signals) -> None:
    """Send a signal to workers; one that has ended meanwhile gets none, nor does a process that has its pid now."""
    for each in kept:
        with _process_of(home, each) as process, suppress(ProcessLookupError):
            if process is not None:
                signal.pidfd_send_signal(process, number)


def await_end(home: Path, kept: Sequence[Kept], timeout_s: float | None = None) -> list[Kept]:
    """Wait until workers have ended, or the time is over; returns those that live."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    for each in kept:
        with _process_of(home, each) as process:
            if process is not None:
                select.select([process], [], [], None if deadline is None else max(0.0, deadline - time.monotonic()))
    return [each for each in kept if _lives(home, each)]


@contextmanager
def _process_of(home: Path, kept: Kept) -> Iterator[int | None]:
    """Give a handle of a worker's process, which stands for no other one; None when it has ended."""
    try:
        handle = os.pidfd_open(kept.pid)
    except ProcessLookupError:
        yield None
        return
    try:
        yield handle if _lives(home, kept) else None
    finally:
        os.close(handle)


def _lives(home: Path, kept: Kept) -> bool:
    return identity.holder(_folder(home) / str(kept.number)) == kept.pid


def _folder(home: Path) -> Path:
    return home / "up"


def _log(home: Path, number: int) -> Path:
    return home / "logs" / f"up-{number}.log"
