"""Runs the cells of a notebook as one script, in the namespace of ``__main__``; standard library only."""

from __future__ import annotations

import builtins
import linecache
import sys
from collections.abc import Callable, Sequence
from typing import Any

_RUN_THEIR_BODY = ("capture", "time", "timeit", "prun")


class Shell:
    """What ``get_ipython()`` answers in a job: magics and shell commands do nothing, but for those that run Python."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace

    def run_line_magic(self, name: str, line: str, *_: Any, **__: Any) -> None:
        self.run_cell_magic(name, "", line)

    def system(self, *_: Any) -> None: ...

    def getoutput(self, *_: Any) -> list[str]:
        return []

    def run_cell_magic(self, name: str, line: str, cell: str) -> None:
        if name in _RUN_THEIR_BODY:
            exec(compile(cell, f"<%%{name}>", "exec"), self._namespace)


def run(cells: Sequence[tuple[int, str, bool]], namespace: dict[str, Any]) -> None:
    """Run cells (number, Python source, whether it ended well at the caller) one after the other.

    One that raised at the caller may raise here as well, and the next goes on.
    """
    shell = Shell(namespace)
    stand_ins: dict[str, Callable[..., Any]] = {"get_ipython": lambda: shell, "display": _display}
    for name, stand_in in stand_ins.items():
        if not hasattr(builtins, name):
            setattr(builtins, name, stand_in)
    for number, source, ended_well in cells:
        try:
            exec(_compiled(source, f"In [{number}]"), namespace)
        except Exception as error:
            if ended_well:
                raise
            print(f"gpulayer: cell {number} raised {type(error).__name__} as in the notebook: {error}", file=sys.stderr)


def _compiled(source: str, name: str) -> Any:
    """Compile a cell so that tracebacks and ``inspect`` find its lines."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    return compile(source, name, "exec")


def _display(*objects: Any, **_: Any) -> None:
    for each in objects:
        print(each)
