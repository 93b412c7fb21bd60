"""Finds the living processes of jobs by what they carry in their environment."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

SCRIPT_S = 600.0
"""When a script is taken to hang: two jobs that start take some minutes where ten programs share a core."""


def _alive(entry: Path) -> bool:
    return entry.joinpath("stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


def _environment(entry: Path) -> dict[str, str]:
    pairs = (item.partition("=") for item in entry.joinpath("environ").read_bytes().decode(errors="replace").split("\0"))
    return {name: value for name, _, value in pairs}


def of_home(home: Path) -> dict[int, dict[str, str]]:
    """Return pid -> environment of every living process of a task in ``home``; zombies don't count."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            env = _environment(entry)
            if env.get("GPULAYER_TASK_DIR", "").startswith(f"{home}/") and _alive(entry):
                found[int(entry.name)] = env
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found


def ranks(home: Path) -> dict[int, int]:
    """Return global rank -> pid of the training processes (those whose parent is not a rank itself)."""
    living = of_home(home)
    return {
        int(env["RANK"]): pid
        for pid, env in sorted(living.items())
        if env.get("RANK") and living.get(parent(pid), {}).get("RANK") is None
    }


def agents(home: Path) -> list[int]:
    """Return the pids of the torchrun agents."""
    living = of_home(home)
    return [pid for pid in living if b"torch.distributed.run" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def await_ends(programs: Iterable[subprocess.Popen[Any]]) -> None:
    """Wait for programs that were told to end, and kill those that don't."""
    for program in programs:
        try:
            program.wait(30)
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()
