"""Runs a script as a user does, to its end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from .processes import SCRIPT_S


def run_script(folder: Path, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run Python with these words in a folder, one thread a process; what it printed and how it ended."""
    return subprocess.run(
        [sys.executable, *argv],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", **env},
        capture_output=True,
        text=True,
        timeout=SCRIPT_S,
        stdin=subprocess.DEVNULL,
        check=False,
    )
