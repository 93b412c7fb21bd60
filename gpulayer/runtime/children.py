"""Notes how the children of torchrun's agent ended, before it collects them (standard library only).

A rank's exit status is its parent's alone to learn, and torchrun prints it late or, when it is stopped meanwhile, never.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

_KILLED = (os.CLD_KILLED, os.CLD_DUMPED)


def note_exits(folder: Path) -> None:
    """Write ``exit.<pid>`` for every child that ends from now on: its exit code, negative for a signal.

    The signal's handler runs in the main thread, as torchrun's own look at its children does: so the note comes first.
    """
    signal.signal(signal.SIGCHLD, lambda *_: _note(folder))
    signal.siginterrupt(signal.SIGCHLD, False)


def _note(folder: Path) -> None:
    for pid in _children():
        with suppress(OSError):
            ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is not None:
                _write(folder / f"exit.{pid}", -ended.si_status if ended.si_code in _KILLED else ended.si_status)


def _children() -> list[int]:
    """Return our children, ended ones included; without the kernel's list, the one that waits to be collected."""
    pid = os.getpid()
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return [] if ended is None else [ended.si_pid]


def _write(path: Path, code: int) -> None:
    if not path.exists():
        part = path.with_suffix(f"{path.suffix}.part")
        part.write_text(str(code))
        part.rename(path)
