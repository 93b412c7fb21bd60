"""Runs of pytest at the caller: what the ranks must know to run the same tests, and which runs can't be a job.

Only what pytest calls public is used, and pytest is never imported.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from gpulayer.errors import ScriptUnavailable
from gpulayer.strategies.paths import PathMap, below

VARIABLES = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTEST_DISABLE_PLUGIN_AUTOLOAD")
"""Part of pytest's command line, wherever it runs."""
_SHUFFLING = {"randomly": "--randomly-seed", "random_order": "--random-order-seed"}


def session() -> Any:
    """Return the ``pytest.Session`` that is running this code, None where none is: it is looked for on the stack."""
    pytest = sys.modules.get("pytest")
    frame = sys._getframe() if pytest is not None else None
    while frame is not None:
        found = frame.f_locals.get("session") if frame.f_globals.get("__name__", "").startswith("_pytest.") else None
        if isinstance(found, pytest.Session):  # type: ignore[union-attr]
            return found
        frame = frame.f_back
    return None


def check(session: Any) -> None:
    """Raise ``ScriptUnavailable`` for a run of which a rank can't make the same."""
    config = session.config
    if hasattr(config, "workerinput"):
        raise ScriptUnavailable(
            "This test runs in a worker of pytest-xdist, which has only a part of the tests.",
            next_step="Run pytest with `-n 0`: a job has as many processes as its Trainer asks for.",
        )
    words = [*config.invocation_params.args, *config.getini("addopts"), *os.environ.get("PYTEST_ADDOPTS", "").split()]
    for plugin, seed in _SHUFFLING.items():
        if config.pluginmanager.has_plugin(plugin) and not _is_in_order(plugin, seed, words):
            raise ScriptUnavailable(
                "The tests run in a random order, and with random numbers, that the ranks of a job can't know.",
                next_step=f"Run pytest with `-p no:{plugin}`, or with a seed: `{seed}=1`.",
            )


def _is_in_order(plugin: str, seed: str, words: Sequence[str]) -> bool:
    asked = any(word.startswith("--random-order") for word in words) or plugin != "random_order"
    seeds = [word.partition("=")[2] or _after(word, words) for word in words if word.partition("=")[0] == seed]
    return not asked or any(value.isdecimal() for value in seeds)


def _after(word: str, words: Sequence[str]) -> str:
    return next(iter(words[words.index(word) + 1 :]), "")


def told(session: Any, brought: Callable[[Path], list[str]]) -> dict[str, Any]:
    """Return what a rank is told: the tests in the order in which they run, and where ``tmp_path`` makes its folders.

    ``brought`` answers which files below a folder came home from earlier calls: a rank that is told their outcomes finds those.
    """
    tests = [item.nodeid for item in getattr(session, "items", [])]
    # Its name is private, its answer is the public fixture's.
    factory = getattr(session.config, "_tmp_path_factory", None)
    folder = os.path.join(tempfile.gettempdir(), "pytest") if factory is None else factory.getbasetemp()
    return {"tests": tests or None, "tmp": str(folder), "brought": brought(Path(folder))}


def moved(args: Iterable[str], paths: PathMap) -> tuple[str, ...]:
    """Name files of the project as they are named in the job: ``/home/me/project/tests/test_a.py::test_b``, for one."""
    return tuple(_moved(word, paths) for word in args)


def _moved(word: str, paths: PathMap) -> str:
    option, equals, value = word.rpartition("=") if word.startswith("-") else ("", "", word)
    path, colons, test = value.partition("::")
    if not os.path.isabs(path) or below(os.path.normpath(path), paths.root) is None:
        return word
    return f"{option}{equals}{os.path.relpath(paths.to_job(os.path.normpath(path)), paths.job_cwd())}{colons}{test}"
