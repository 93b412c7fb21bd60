"""Runs a module as ``python -m`` would, tied to the worker that started it: it dies with it.

python -P -m gpulayer.worker.tied PID MODULE ARGS...
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> None:
    """Run ``argv[1]`` on the arguments after it; ``argv[0]`` is the pid of the worker."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(argv[0]):  # it died before this
        os._exit(1)
    sys.argv = argv[1:]
    runpy.run_module(argv[1], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
