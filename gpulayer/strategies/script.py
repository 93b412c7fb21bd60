"""Which program this process runs, so that the ranks of its job can run the same one."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from gpulayer.errors import EntrypointMissing, ScriptUnavailable
from gpulayer.strategies import hydra_runs, installed, notebook, pytest_runs
from gpulayer.strategies.paths import PathMap

_TAKE_A_VALUE = ("-W", "-X", "--check-hash-based-pycs")


@dataclass(frozen=True)
class Program:
    """A script (``file``) or, when ``module`` is set, ``python -m module`` whose code is in ``file``; ``args`` follow."""

    file: Path
    module: str | None
    args: tuple[str, ...]

    word: str = ""
    """The script as it was named on the command line."""
    text: str = ""
    """A digest of the script where it grows while it runs, as a notebook does: a job runs what was there at its start."""
    command: str | None = None
    """The ``module:function`` that ``file`` calls, where it is the script of an installed command."""
    near: Path | None = None
    """A folder of the project that the program belongs to, where ``file`` doesn't tell."""
    pytest: bool = False
    """Whether it runs tests, and its arguments name files of the project."""

    def words(self, paths: PathMap) -> tuple[str, ...]:
        """Return what follows its name in a job: the arguments, and before them what a command was called by."""
        args = pytest_runs.moved(self.args, paths) if self.pytest else self.args
        return args if self.command is None else (self.word, *args)

    def entrypoint(self, file: str, cwd: str) -> str:
        """Name it as a DistributedJob does, for a job in which it lies at ``file`` and ``cwd`` is the working directory.

        A relative name stays as it was typed: programs see it as ``sys.argv[0]``.
        """
        if self.module is not None:
            return f"-m {self.module}"
        if self.command is not None:
            return f"--console {self.command}"
        if self.word and not os.path.isabs(self.word) and os.path.normpath(os.path.join(cwd, self.word)) == file:
            return self.word
        return os.path.relpath(file, cwd)

    @property
    def package_root(self) -> Path:
        """The folder from which a module is imported: above its packages."""
        return installed.above_packages(self.file, self.module or "")


def find(orig_argv: Sequence[str], main: Any, cwd: str) -> Program:
    """Read how Python was started: its own words (``sys.orig_argv``), the ``__main__`` module and the folder it began in.

    Raises ``ScriptUnavailable`` for ``python -c``, standard input and the interactive prompt, ``EntrypointMissing`` for a
    file that is no longer there.
    """
    kind, value, args = read_argv(orig_argv)
    if kind == "-c":
        raise ScriptUnavailable("The program was given to `python -c`, so there is no script that the ranks could run.")
    if kind in ("stdin", "prompt"):
        raise ScriptUnavailable("The program comes from standard input, so there is no script that the ranks could run.")
    if kind == "-m":
        return Program(_module_file(value, main), value, args)
    file = Path(os.path.normpath(os.path.join(cwd, value)))
    if file.is_dir():
        file = file / "__main__.py"
    if not file.is_file():
        raise EntrypointMissing(f"The script {file} is not there (any more).", next_step="Run it from where it lies.")
    command = installed.command(file)
    if command is not None:
        return Program(file, None, args, word=value, command=command, near=installed.project_of(command))
    if installed.is_installed(file):
        raise EntrypointMissing(
            f"{file} is neither a script of a project nor the command of an installed package.",
            next_step="Run what it starts: `python script.py`, `python -m package.module`, or a command of [project.scripts].",
        )
    return Program(file, None, args, word=value)


def read_argv(argv: Sequence[str]) -> tuple[str, str, tuple[str, ...]]:
    """Split Python's command line: how the program was named (script, -m, -c, stdin, prompt), its name, its arguments."""
    words = list(argv[1:])
    while words:
        word = words.pop(0)
        if word == "-":
            return "stdin", "", tuple(words)
        if word == "--":
            break
        if not word.startswith("-"):
            return "script", word, tuple(words)
        if word in _TAKE_A_VALUE:
            words = words[1:]
            continue
        if word.startswith("--"):
            continue
        found = _in_cluster(word, words)
        if found is not None:
            return found
    return ("script", words[0], tuple(words[1:])) if words else ("prompt", "", ())


def _in_cluster(word: str, rest: list[str]) -> tuple[str, str, tuple[str, ...]] | None:
    """Look for ``-c`` and ``-m`` in a word of single-letter options such as ``-um``."""
    for at, letter in enumerate(word[1:], start=1):
        tail = word[at + 1 :]
        if letter in "cm":
            value, args = (tail, rest) if tail else (rest[0] if rest else "", rest[1:])
            return f"-{letter}", value, tuple(args)
        if letter in "WX":
            if not tail and rest:
                rest.pop(0)
            return None
    return None


def _module_file(module: str, main: Any) -> Path:
    spec: ModuleSpec | None = getattr(main, "__spec__", None)
    origin = getattr(main, "__file__", None) or (spec.origin if spec is not None else None)
    if origin is None or not os.path.isfile(origin):
        raise EntrypointMissing(f"`python -m {module}` has no source file.")
    return Path(os.path.abspath(origin))


def _of_ipython(main: Any, cwd: str) -> Program:
    """A file that IPython runs is the script; else it is what was run in cells."""
    file = getattr(main, "__file__", None)
    if isinstance(file, str) and file.endswith(".py") and os.path.isfile(os.path.join(cwd, file)):
        return Program(Path(os.path.normpath(os.path.join(cwd, file))), None, tuple(sys.argv[1:]), word=file)
    path, text = notebook.write(cwd)
    return Program(path, None, (), word=path.name, text=text)


def current(cwd: str) -> Program:
    """Find this process's program: a script with the arguments that make its present run of hydra, or a notebook's cells."""
    main = sys.modules["__main__"]
    if notebook.shell() is not None:
        return _of_ipython(main, cwd)
    tests = pytest_runs.session()
    if tests is not None:
        pytest_runs.check(tests)
    found, run = find(sys.orig_argv, main, cwd), hydra_runs.current()
    if run is not None:
        return replace(found, args=run.arguments(found.args, cwd))
    if tests is not None and installed.is_installed(found.file):
        return replace(found, near=tests.config.rootpath, pytest=True)
    return found
