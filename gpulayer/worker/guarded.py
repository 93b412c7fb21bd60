"""The worker's end of a guard: starts one, speaks to it, hears how the task's processes fare."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpulayer.worker import orphans, spares
from gpulayer.worker.torchrun import Launch


class Guarded:
    """A running guard. ``on_word`` is called whenever it said something new.

    ``exit_code`` is the agent's as Python gives it (negative for a signal), once ``ended``; ``told`` says that it had been told
    to stop by then, ``expired`` that its lease had passed; ``lost`` says that the guard itself died and took the task's
    processes with it.
    """

    def __init__(self, log: Path, on_word: Callable[[], None]) -> None:
        guard = spares.OF_THIS_PROCESS.take()
        self._process, self._socket = guard.process, guard.line
        self._on_news = on_word
        self._changed = threading.Condition()
        self.held = False
        self.waits_for: tuple[str, int] | None = None
        self.agent_pid: int | None = None
        self._flushes = 0
        self._flushed = 0
        self.ended = False
        self.lost = False
        self.exit_code: int | None = None
        self.told = False
        self.expired = False
        self.sentence = ""
        self.left: tuple[str, ...] = ()
        threading.Thread(target=self._listen, name="gpulayer-guard", daemon=True).start()
        self._say(kind="log", path=str(log))

    def hold(self, locks: Iterable[Path]) -> None:
        """Ask for locks, all or none; the guard goes on trying."""
        self._say(kind="hold", locks=[str(path) for path in locks])

    def start(self, launch: Launch, pipes: Path, spool: Path) -> None:
        """Start the task's processes."""
        fifos = [
            {"path": str(pipes / f"rank{rank}.{stream}"), "rank": rank, "stream": stream}
            for rank in launch.ranks
            for stream in ("stdout", "stderr")
        ]
        self._say(
            kind="start",
            argv=launch.argv,
            env={**launch.env, **launch.secrets},
            cwd=launch.cwd,
            fifos=fifos,
            direct=launch.direct,
            rank=launch.rank,
            spool=str(spool),
            hide=list(launch.secrets.values()),
        )

    def stop(self, grace_s: float, *, kill: bool = False) -> None:
        """End the task's processes: SIGTERM, and SIGKILL after the grace. A later stop may only be harder."""
        self._say(kind="stop", grace_s=grace_s, kill=kill)

    def lease(self, until: float) -> None:
        """Have it kill everything at a time (of ``lease.clock``) unless it hears of a later one before."""
        self._say(kind="lease", until=until)

    def flush(self, timeout_s: float) -> bool:
        """Wait until all that was written by now is in the spool."""
        with self._changed:
            self._flushes += 1
            wanted = self._flushes
        self._say(kind="flush", number=wanted)
        with self._changed:
            return self._changed.wait_for(lambda: self._flushed >= wanted or self.over, timeout_s)

    def await_over(self, timeout_s: float) -> bool:
        """Wait until no process of the task is left."""
        with self._changed:
            return self._changed.wait_for(lambda: self.over, timeout_s)

    @property
    def over(self) -> bool:
        return self.ended or self.lost

    def close(self) -> None:
        """Let the guard go, with its locks; what still runs is killed first."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        if not self.left:
            self._process.wait()
            orphans.forget_guard(self._process.pid)

    def _say(self, **word: Any) -> None:
        try:
            self._socket.sendall(json.dumps(word).encode() + b"\n")
        except OSError:
            self._on_silence()

    def _listen(self) -> None:
        # A guard that was killed with words of ours unread resets the connection.
        with suppress(ConnectionError), self._socket.makefile("rb") as lines:
            for line in lines:
                with self._changed:
                    self._on_word(json.loads(line))
                    self._changed.notify_all()
                self._on_news()
        self._on_silence()
        self._socket.close()

    def _on_word(self, word: dict[str, Any]) -> None:
        match word["kind"]:
            case "held":
                self.held = True
            case "waits":
                self.waits_for = (word["path"], word["pid"])
            case "started":
                self.agent_pid = word["pid"]
            case "flushed":
                self._flushed = word["number"]
            case "ended":
                self.exit_code, self.told, self.sentence = word["exit_code"], word["told"], word["sentence"]
                self.expired, self.left = word["expired"], tuple(word["left"])
                self.ended = True

    def _on_silence(self) -> None:
        with self._changed:
            if not self.ended:
                self.lost = True
            self._changed.notify_all()
        self._on_news()
