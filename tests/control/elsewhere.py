"""Other processes with the same home open, as tests need them."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def running(program: str, *arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    """Run a Python program with pipes on its stdin and stdout; it is killed at the end."""
    argv = [sys.executable, "-W", "error", "-c", textwrap.dedent(program), *map(str, arguments)]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def said(process: subprocess.Popen[str]) -> str:
    """Return the next line that a process printed."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str], line: str = "") -> None:
    """Give a process a line on its stdin."""
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()
