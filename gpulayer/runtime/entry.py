"""Runs a script, module or function so that it finds what Python itself would have made."""

from __future__ import annotations

import importlib
import json
import os
import re
import runpy
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from importlib.machinery import SourceFileLoader
from types import ModuleType, TracebackType
from typing import Any, Literal

from gpulayer.errors import CallRefused
from gpulayer.runtime import LOADED_BEFORE_US
from gpulayer.spec import loading

EntryKind = Literal["script", "module", "function", "call", "console"]
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*\Z")
_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
_CANNOT_OPEN = 2


@dataclass(frozen=True)
class Entry:
    """What to run: ``target`` is a path, a module, ``module:function``, or the file that describes one call.

    A ``console`` entry is the function that an installed command calls; the first of its ``args`` is the command's own path.
    """

    kind: EntryKind
    target: str
    args: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The command line after ``python`` that means the same."""
        if self.kind == "console":
            return self.args
        return ("-m", self.target, *self.args) if self.kind == "module" else (self.target, *self.args)


def parse(argv: Sequence[str]) -> Entry:
    """Read ``script.py ...``, ``-m package.module ...``, ``module:function ...``, ``--console ...`` or ``--call FILE``."""
    if not argv:
        raise SystemExit("gpulayer.runtime: nothing to run")
    first, rest = argv[0], tuple(argv[1:])
    if first == "-m":
        return Entry("module", rest[0], rest[1:])
    if first.startswith("-m ") and first[3:].strip():
        return Entry("module", first[3:].strip(), rest)
    if first == "--console":
        return Entry("console", rest[0], rest[1:])
    if first == "--call":
        return Entry("call", rest[0], ())
    if _FUNCTION.match(first) and not os.path.exists(first):
        return Entry("function", first, rest)
    return Entry("script", first, rest)


def straight(entry: Entry, work: str) -> Entry:
    """Name a script by its whole path where the caller stood outside of the source folder and named it by its own.

    Relative to such a working directory (a place below ``abs`` in the work folder) it has a name that nobody typed.
    """
    outside = os.getcwd().startswith(os.path.join(os.path.realpath(work), "abs") + os.sep)
    if entry.kind != "script" or not entry.target.startswith("../") or not outside:
        return entry
    return replace(entry, target=os.path.abspath(entry.target))


def run(entry: Entry) -> None:
    """Run it in a fresh ``__main__``; whatever it raises comes out."""
    sys.orig_argv = [sys.executable, *entry.words]
    main = _fresh_main()
    match entry.kind:
        case "script" if os.path.isdir(entry.target) or entry.target.endswith((".zip", ".pyz")):
            _run_folder(entry)
        case "script":
            _run_script(entry, main)
        case "module":
            sys.argv = ["-m", *entry.args]
            _put_first(os.getcwd())
            runpy._run_module_as_main(entry.target)  # type: ignore[attr-defined]  # what ``python -m`` itself calls
        case "function":
            sys.argv = [entry.target, *entry.args]
            _put_first(os.getcwd())
            _resolve(entry.target)(*entry.args)
        case "console":
            _run_command(entry, main)
        case "call":
            _run_call(entry.target)


def import_from(work: str, root: str, folders: Sequence[str]) -> None:
    """Import from the work folder what the caller imports from its source folder ``root``.

    On the caller's machine the same environment names the source folder itself: the job's copy takes that place.
    """
    for folder in folders:
        here, there = (os.path.normpath(os.path.join(top, folder)) for top in (work, root))
        if there in sys.path:
            sys.path[sys.path.index(there)] = here
        elif here not in sys.path:
            sys.path.append(here)


def without_our_frames(tb: TracebackType | None) -> TracebackType | None:
    """Drop the frames above the user's first one; None when all are ours (a script that doesn't compile)."""
    while tb is not None and _is_ours(tb):
        tb = tb.tb_next
    return tb


def _is_ours(tb: TracebackType) -> bool:
    return tb.tb_frame.f_code.co_filename.startswith(_OURS)


def _fresh_main() -> ModuleType:
    import builtins

    main = ModuleType("__main__")
    vars(main).update(__builtins__=builtins, __annotations__={})
    sys.modules["__main__"] = main
    return main


def _put_first(folder: str) -> None:
    if not os.environ.get("PYTHONSAFEPATH"):
        sys.path.insert(0, folder)
        _forget_shadowed(folder)


def _forget_shadowed(folder: str) -> None:
    """Let the user's own ``queue.py`` win over a module of that name that only we have imported so far."""
    try:
        theirs = {name.partition(".")[0] for name in os.listdir(folder)}
    except OSError:
        return
    for name, module in list(sys.modules.items()):
        top = name.partition(".")[0]
        theirs_already = os.path.realpath(getattr(module, "__file__", None) or "").startswith(os.path.join(folder, ""))
        if top in theirs and not theirs_already and top not in LOADED_BEFORE_US and top not in ("__main__", "gpulayer"):
            del sys.modules[name]


def _run_script(entry: Entry, main: ModuleType) -> None:
    sys.argv = [entry.target, *entry.args]
    filename = _as_python_names(entry.target)
    try:
        with open(filename, "rb") as file:
            source = file.read()
    except OSError as error:
        print(f"{sys.executable}: can't open file {filename!r}: [Errno {error.errno}] {error.strerror}", file=sys.stderr)
        raise SystemExit(_CANNOT_OPEN) from None
    _put_first(os.path.dirname(os.path.realpath(entry.target)))
    vars(main).update(__file__=filename, __cached__=None, __loader__=SourceFileLoader("__main__", filename))
    exec(compile(source, filename, "exec", dont_inherit=True), vars(main))


def _load_script(script: str, wanted: str) -> None:
    """Have ``__main__`` define what a script does, up to the first call that it would make of a remote function.

    What such a call returns is not known here, so that nothing after it can be done: ``wanted`` must be there by then.
    """
    filename = _as_python_names(script)
    _put_first(os.path.dirname(os.path.realpath(script)))
    main = ModuleType(loading.MAIN)
    vars(main).update(__file__=filename, __cached__=None, __loader__=SourceFileLoader(loading.MAIN, filename))
    sys.modules["__main__"] = sys.modules[loading.MAIN] = main
    with open(filename, "rb") as file:
        code = compile(file.read(), filename, "exec", dont_inherit=True)
    loading.STATE.loading = True
    try:
        exec(code, vars(main))
    except loading.Loaded:
        if wanted not in vars(main):
            raise CallRefused(
                f"{script} calls a remote function before it defines {wanted}, so that a job can't load it.",
                next_step="Define all of them before the first call, or put the calls behind a main guard.",
            ) from None
    finally:
        loading.STATE.loading = False


def _run_command(entry: Entry, main: ModuleType) -> None:
    """Do what the script of an installed command does; the script itself need not be on this machine."""
    word = entry.args[0]
    sys.argv = [*entry.args]
    _put_first(os.path.dirname(os.path.realpath(word)))
    filename = _as_python_names(word)
    if os.path.exists(filename):
        vars(main).update(__file__=filename, __cached__=None, __loader__=SourceFileLoader("__main__", filename))
    sys.exit(_command(entry.target, os.path.basename(word))())


def _command(function: str, name: str) -> Any:
    """Find the caller's function, or what the command of this name calls in this environment (another version of it)."""
    try:
        return _resolve(function)
    except (ImportError, AttributeError):
        for found in metadata.entry_points(group="console_scripts", name=name):
            return found.load()
        raise


def _as_python_names(path: str) -> str:
    """Make a path absolute as the interpreter does for ``__file__``: joined, not normalised."""
    return os.path.join(os.getcwd(), path)


def _run_folder(entry: Entry) -> None:
    """A folder or archive with a ``__main__.py``."""
    sys.argv = [entry.target, *entry.args]
    sys.path.insert(0, _as_python_names(entry.target))
    runpy._run_module_as_main("__main__", False)  # type: ignore[attr-defined]


def _resolve(name: str) -> Any:
    module, _, path = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


def _run_call(file: str) -> None:
    """A FunctionJob: JSON in, JSON out."""
    with open(file, encoding="utf-8") as opened:
        call = json.load(opened)
    sys.argv = [call["function"]]
    if call.get("script"):
        _load_script(call["script"], call["function"].partition(":")[2].partition(".")[0])
    _put_first(os.getcwd())
    result = _resolve(call["function"])(*call["args"], **call["kwargs"])
    try:
        text = json.dumps(result, allow_nan=True)
    except (TypeError, ValueError) as cause:
        kind = type(result).__name__
        raise TypeError(f"{call['function']} returned a value of type {kind}, which JSON can't hold: {cause}") from None
    with open(call["result"], "w", encoding="utf-8") as opened:
        opened.write(text)
