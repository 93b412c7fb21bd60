"""Owns the processes of one task: its locks, its pipes, its end (standard library only).

    python -P -m gpulayer.worker.guard FD

FD is a socket to the worker; both sides send one JSON object a line.

    worker: log {path}, hold {locks}, start {argv, env, cwd, fifos, direct, rank, spool, hide}, lease {until}, flush {number},
            stop {grace_s, kill}
    guard:  waits {path, pid}, held, started {pid}, flushed {number}, ended {exit_code, told, expired, sentence, left}

When the socket ends, the worker is dead: everything is killed at once. So it is when the worker's lease passed without another:
a worker that was halted can't do that itself. The locks are freed by the guard's own end.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpulayer.logs.scrub import Scrubber
from gpulayer.logs.spool import SpoolWriter
from gpulayer.worker import locks, pipes, processes
from gpulayer.worker.lease import clock
from gpulayer.worker.line import Line
from gpulayer.worker.started import Started

_KILL_PERIOD_S = 0.02
_LOCK_PERIOD_S = 0.2
_UNKILLABLE_S = 10.0
_LEASE_PERIOD_S = 5.0
"""The longest wait under a lease: waits don't count the time in which the machine sleeps."""


class Guard:
    """A loop over one selector: the worker's words, the pipes, the ends of children."""

    def __init__(self, control: socket.socket) -> None:
        self._selector = selectors.DefaultSelector()
        self._line = Line(control, self._selector, self._obey, self._on_worker_dead)
        self._pipes = pipes.Pipes(self._selector)
        self._locks = locks.Held()
        self._wanted: list[Path] = []
        self._waits_for: tuple[Path, int] | None = None
        self._agent: Started | None = None
        self._told_first = False
        self._kill_at: float | None = None
        self._lease_until: float | None = None
        self._expired = False
        self._killing_since: float | None = None
        self._ended = False
        self._spool: Any = None

    def run(self) -> None:
        """Serve one task; returns when none of its processes is left."""
        self._listen_to_signals()
        while True:
            for key, _ in self._selector.select(self._patience()):
                key.data()
            self._reap()
            self._check_lease()
            if self._wanted:
                self._take_locks()
            if self._line.ended if self._agent is None else self._over(self._agent):
                return

    # --- the worker's words --------------------------------------------------------------------------------------

    def _obey(self, word: dict[str, Any]) -> None:
        match word["kind"]:
            case "log":
                _write_to(Path(word["path"]))
            case "hold":
                self._wanted = [Path(path) for path in word["locks"]]
            case "start":
                self._start(word)
            case "lease":
                self._lease_until = word["until"]
            case "flush":
                self._pipes.flush()
                self._line.say("flushed", number=word["number"])
            case "stop":
                self._stop(word["grace_s"], word["kill"])

    def _check_lease(self) -> None:
        if self._lease_until is not None and not self._expired and clock() >= self._lease_until:
            self._expired = True
            self._stop(0.0, kill=True)

    def _on_worker_dead(self) -> None:
        self._wanted = []
        self._kill_at = 0.0

    # --- locks ---------------------------------------------------------------------------------------------------

    def _take_locks(self) -> None:
        blocked = self._locks.take(self._wanted)
        if blocked is None:
            self._wanted = []
            self._line.say("held")
        elif blocked != self._waits_for:
            self._waits_for = blocked
            self._line.say("waits", path=str(blocked[0]), pid=blocked[1])

    # --- processes -----------------------------------------------------------------------------------------------

    def _start(self, word: dict[str, Any]) -> None:
        self._spool = SpoolWriter(Path(word["spool"]), scrubber=Scrubber(word["hide"]))
        for fifo in word["fifos"]:
            self._pipes.fifo(Path(fifo["path"]), self._into_spool(fifo["rank"], fifo["stream"]))
        # torchrun prints both of its streams into one, so that their order holds; a plain process keeps two.
        if word["direct"]:
            out = self._pipes.pipe(self._into_spool(word["rank"], "stdout"))
            err = self._pipes.pipe(self._into_spool(word["rank"], "stderr"))
        else:
            out = err = self._pipes.pipe(self._into_spool(None, "agent"))
        self._agent = Started(word["argv"], word["env"], word["cwd"], out, err, direct=word["direct"])
        if self._agent.pid:
            self._line.say("started", pid=self._agent.pid)

    def _into_spool(self, rank: int | None, stream: str) -> pipes.Sink:
        return lambda data: self._spool.feed(rank, stream, data, time.time())

    def _stop(self, grace_s: float, kill: bool) -> None:
        at = 0.0 if kill else time.monotonic() + grace_s
        if self._kill_at is None and not kill and self._agent is not None:
            self._agent.terminate()
        self._kill_at = at if self._kill_at is None else min(at, self._kill_at)

    def _reap(self) -> None:
        """Collect ended children: the agent, and orphans whose parent we became."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self._agent is not None and pid == self._agent.pid:
                self._agent.ended(status)
                self._told_first = self._kill_at is not None

    def _over(self, agent: Started) -> bool:
        """Kill what must die; say so and return True when nothing is left."""
        now = time.monotonic()
        in_grace = self._kill_at is not None and now < self._kill_at
        if agent.exit_code is None and (self._kill_at is None or in_grace):
            return False
        left = processes.descendants(os.getpid())
        if in_grace and agent.direct and any(process.group == agent.pid for process in left):
            return False
        self._killing_since = self._killing_since or now
        processes.kill([process.pid for process in left])
        if left and now - self._killing_since < _UNKILLABLE_S:
            return False
        if not self._ended:
            self._ended = True
            self._reap()
            self._pipes.drain()
            if self._spool is not None:
                self._spool.close()
            named = [f"{process.name} (pid {process.pid}, state {process.state})" for process in left]
            self._line.say(
                "ended",
                exit_code=agent.exit_code,
                told=self._told_first,
                expired=self._expired,
                sentence=agent.sentence,
                left=named,
            )
        # What the kernel won't kill keeps its locks: the guard stays as long as it does.
        return not left

    def _patience(self) -> float | None:
        waits = self._waits_until_due()
        if self._lease_until is None or self._expired:
            return waits
        left = min(_LEASE_PERIOD_S, max(0.0, self._lease_until - clock()))
        return left if waits is None else min(left, waits)

    def _waits_until_due(self) -> float | None:
        if self._killing_since is not None or (self._agent is not None and self._agent.exit_code is not None):
            return _KILL_PERIOD_S
        if self._wanted:
            return _LOCK_PERIOD_S if self._waits_for else 0.0
        if self._kill_at is not None:
            return max(0.0, self._kill_at - time.monotonic())
        return None

    # --- signals -------------------------------------------------------------------------------------------------

    def _listen_to_signals(self) -> None:
        reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        self._selector.register(reading, selectors.EVENT_READ, lambda: os.read(reading, 4096))
        # Handlers, not SIG_IGN: an ignored signal would stay ignored in the job.
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._stop(5.0, kill=False))


def _write_to(log: Path) -> None:
    """Have what this process says, a traceback most likely, end up in a file."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.close(file)


def main(argv: list[str]) -> None:
    """Guard one task for the worker at the other end of the socket."""
    processes.adopt_orphans()
    control = socket.socket(fileno=int(argv[0]))
    control.set_inheritable(False)
    with suppress(KeyboardInterrupt):
        Guard(control).run()
        os._exit(0)  # nothing is left to do, and whoever waits for the locks is told of them by our end


if __name__ == "__main__":
    main(sys.argv[1:])
