"""Ends a process whose script has ended, when threads or exit handlers of the script's keep it and do nothing any more."""

from __future__ import annotations

import atexit
import sys
import threading
import time
from collections.abc import Callable

from gpulayer.runtime.signs import Signs

_BUSY_SHARE = 0.02
_LOOKS = 6


class Lingering:
    """Watches the process from the end of its script on; ``leave`` is called, once, when it has stood still for ``grace_s``.

    Python waits for threads that aren't daemons, and for exit handlers, for ever: a peer, or whoever pays for the machine,
    would wait with it. What still works uses processor time, or reads and writes; a child may do so for it.
    """

    def __init__(self, leave: Callable[[], None], grace_s: float) -> None:
        self._leave = leave
        self._grace_s = grace_s
        self._handlers_run = False

    def begin(self) -> None:
        """Watch from now on; to be called where the script has ended."""
        atexit.register(self._on_exit)
        threading.Thread(target=self._watch, name="gpulayer-lingering", daemon=True).start()

    def _on_exit(self) -> None:
        self._handlers_run = True

    def _watch(self) -> None:
        time.sleep(self._grace_s / _LOOKS)  # most processes have ended by then, and looking takes a while
        signs, quiet = Signs(), 0
        used_s, moved = signs.look()
        while quiet < _LOOKS:  # looks, not seconds: a machine that stood still for a while is no sign of anything
            time.sleep(self._grace_s / _LOOKS)
            used, now_moved = signs.look()
            quiet += 1
            if now_moved != moved or used - used_s > _BUSY_SHARE * self._grace_s:
                quiet, used_s, moved = 0, used, now_moved
        said = f"gpulayer: the script has ended, and {self._who()} did nothing for {self._grace_s:g} s: it is left behind."
        print(said, file=sys.stderr, flush=True)
        if not self._handlers_run:
            handlers = threading.Thread(target=atexit._run_exitfuncs, daemon=True)
            handlers.start()
            handlers.join(self._grace_s)
        self._leave()

    def _who(self) -> str:
        if self._handlers_run:
            return "an exit handler"
        names = [repr(each.name) for each in threading.enumerate() if not each.daemon and each is not threading.main_thread()]
        return f"thread {', '.join(names)}" if names else "the process"
