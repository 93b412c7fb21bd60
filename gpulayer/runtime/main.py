"""The life of one process of a job: it ties itself to its parent, meets its worker, runs the script and says goodbye."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NoReturn

from gpulayer.runtime import context, entry, faults, lingering, meeting, parent
from gpulayer.runtime.report import RankLink
from gpulayer.spec.rank_messages import Raised

_INTERRUPTED = 128 + signal.SIGINT
_FAILURE_GRACE_S = 5.0


class Goodbye:
    """What is to be said when the process ends: filled as the script ends, said after the user's own exit handlers."""

    def __init__(self, link: RankLink | None) -> None:
        self.link = link
        self.pid = os.getpid()
        self.exit_code = 0
        self.error: Raised | None = None

    def say(self) -> None:
        """Tear the process group down after a clean end, and tell the worker; a forked child says nothing."""
        if os.getpid() != self.pid:
            return
        if self.exit_code == 0:
            destroy_process_group()
        if self.link is not None:
            self.link.left(self.exit_code, error=self.error)

    def leave(self) -> NoReturn:
        """Say it and end the process, whatever still runs in it."""
        self.say()
        _flush()
        os._exit(self.exit_code)


_GOODBYES: list[Goodbye] = []


def leave(exit_code: int) -> NoReturn:
    """End the process from inside the script as the script's own end would: exit handlers, goodbye, flushed streams."""
    for goodbye in _GOODBYES:
        goodbye.exit_code = exit_code
    with contextlib.suppress(BaseException):  # a handler of the user's can't keep the process here
        atexit._run_exitfuncs()
    _flush()
    os._exit(exit_code)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


def main(argv: Sequence[str]) -> None:
    """Run ``argv`` as the process of a job that the environment describes."""
    _tie_to_parent()
    where = context.current()
    link = RankLink.open(where) if where is not None and where.socket else None
    goodbye = Goodbye(link)
    _GOODBYES.append(goodbye)
    # Registered before any code of the user, so that it runs after all of theirs.
    atexit.register(goodbye.say)
    what = entry.parse(argv)
    if where is not None and where.calls is not None:
        what = entry.straight(what, str(where.work))
        entry.import_from(str(where.work), where.calls.root, where.calls.import_folders)
    _be_as_python_was()
    if where is not None and where.world_size > 1 and link is not None:
        meeting.tell(link)
    if where is not None and where.calls is not None and link is not None:
        importlib.import_module(where.calls.half).install(link, where)
    try:
        _run(what, goodbye)
    finally:
        if where is not None:
            grace_s = min(_FAILURE_GRACE_S, where.straggler_grace_s) if goodbye.exit_code else where.straggler_grace_s
            lingering.Lingering(goodbye.leave, grace_s).begin()


def destroy_process_group() -> None:
    """Tear down torch's process group if there is one: left to the exit of the process, gloo aborts now and then."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return
    with contextlib.suppress(Exception):  # the script has ended well, whatever its peers do now
        distributed.destroy_process_group()


def _tie_to_parent() -> None:
    parent.die_with_parent()
    guard = os.environ.get("GPULAYER_GUARD")
    if guard and parent.orphaned(int(guard), "TORCHELASTIC_RUN_ID" in os.environ):
        os._exit(1)


def _be_as_python_was() -> None:
    """Undo what kept the user's files from shadowing ours, and what only we needed."""
    os.environ.pop("PYTHONSAFEPATH", None)
    asked = os.environ.pop("GPULAYER_USER_SAFEPATH", None)
    if asked:
        os.environ["PYTHONSAFEPATH"] = asked


def _run(what: entry.Entry, goodbye: Goodbye) -> None:
    # The package's front takes note of the random state when it is imported: for the script that is its own import.
    sys.modules.pop("gpulayer", None)
    try:
        entry.run(what)
    except SystemExit as leaving:
        goodbye.exit_code = _exit_code(leaving)
        raise
    except BaseException as error:
        tb = entry.without_our_frames(error.__traceback__)
        goodbye.exit_code = _INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
        goodbye.error = faults.describe(error.with_traceback(tb))
        _show(error, tb)
        raise


def _exit_code(leaving: SystemExit) -> int:
    if leaving.code is None:
        return 0
    return leaving.code & 0xFF if isinstance(leaving.code, int) else 1


def _show(error: BaseException, tb: TracebackType | None) -> None:
    """Print the traceback as Python would; then nobody else need, and Python still chooses the exit status."""
    try:
        sys.excepthook(type(error), error, tb)
    except Exception:
        sys.__excepthook__(type(error), error, tb)
    sys.excepthook = lambda *_: None
