"""The process that a guard starts: torchrun's agent, or the command itself (standard library only)."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

from gpulayer.worker import processes

_PR_SET_PDEATHSIG = 1
_NOT_STARTED = 127
_LIBC = ctypes.CDLL(None, use_errno=True)


class Started:
    """A child in a session of its own, which dies with its guard.

    ``exit_code`` is as Python gives it (negative for a signal), None while it runs; ``sentence`` says why it could not be
    started, and its ``pid`` is then 0. A ``direct`` one is the command itself, without torchrun above the ranks.
    """

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], cwd: str, out: int, err: int, *, direct: bool) -> None:
        self.direct = direct
        self.exit_code: int | None = None
        self.sentence = ""
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process = subprocess.Popen(
                argv,
                env={**env, "GPULAYER_GUARD": str(os.getpid())},
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                preexec_fn=_die_with_guard,
            )
        except OSError as error:
            self.exit_code = _NOT_STARTED
            self.sentence = f"{argv[0]} could not be started: {error}"

    @property
    def pid(self) -> int:
        return 0 if self._process is None else self._process.pid

    def terminate(self) -> None:
        """Send SIGTERM. torchrun passes it on to its ranks; a shell does not, so a command's whole group is told."""
        if self.exit_code is not None:
            return
        with suppress(ProcessLookupError):
            if self.direct:
                os.killpg(self.pid, signal.SIGTERM)
            else:
                os.kill(self.pid, signal.SIGTERM)

    def ended(self, status: int) -> None:
        """Take note of the wait status with which it was reaped."""
        assert self._process is not None
        self.exit_code = self._process.returncode = processes.exit_code_of(status)


def _die_with_guard() -> None:
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
