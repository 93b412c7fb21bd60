"""A notebook (or IPython's prompt) as a script: the cells that were run so far, in the order in which they were.

Only what IPython calls public is used, and IPython is never imported: ``get_ipython()``, its events, and its history.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import sys
from pathlib import Path
from typing import Any

from gpulayer.errors import ScriptUnavailable

_NAMES = ("JPY_SESSION_NAME", "IPYNB_FILE")
_HEAD = """# The cells of a notebook as they were run, for the ranks of its job. It goes when the notebook ends.
import gpulayer.runtime.cells

gpulayer.runtime.cells.run(
    [
"""
_FOOT = """    ],
    globals(),
)
"""


class _Seen:
    """What was seen of the cells of this process: the numbers of those that raised."""

    def __init__(self) -> None:
        self.failed: set[int] = set()
        self.watching = False


_SEEN = _Seen()


def shell() -> Any:
    """Return the shell that this process's cells run in, None outside of IPython."""
    ipython = sys.modules.get("IPython")
    if ipython is None:
        return None
    found = ipython.get_ipython()
    return found if getattr(found, "history_manager", None) is not None else None


def watch() -> None:
    """Take note of cells that raise, from now on."""
    with contextlib.suppress(Exception):  # a shell of another kind has no such events
        found = shell()
        if found is not None and not _SEEN.watching:
            found.events.register("post_run_cell", _note)
            _SEEN.watching = True


def _note(result: Any) -> None:
    if not result.success and result.execution_count is not None:
        _SEEN.failed.add(result.execution_count)


def write(cwd: str) -> tuple[Path, str]:
    """Write the cells as a script into the notebook's folder; its path, and a digest of what is in it."""
    found = shell()
    cells = [(at, text, at not in _SEEN.failed) for at, text in enumerate(found.history_manager.input_hist_parsed) if text]
    script = _HEAD + "".join(f"        {cell!r},\n" for cell in cells) + _FOOT
    path = Path(cwd) / f".{_stem()}.cells.py"
    try:
        if not path.exists():
            atexit.register(_remove, path, os.getpid())
        path.write_text(script, encoding="utf-8")
    except OSError as cause:
        raise ScriptUnavailable(
            f"The cells of the notebook can't be written to {path}: {cause.strerror}.",
            next_step="Start the notebook in a folder that can be written to.",
        ) from cause
    return path, hashlib.sha256(script.encode()).hexdigest()


def _stem() -> str:
    """Name the notebook, so that its next kernel's jobs are runs of the same program."""
    named = next((os.environ[name] for name in _NAMES if os.environ.get(name)), "")
    return Path(named).stem or "notebook"


def _remove(path: Path, pid: int) -> None:
    if os.getpid() == pid:
        with contextlib.suppress(OSError):
            path.unlink()
