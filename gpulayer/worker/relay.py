"""The worker's end of the ranks' socket: passes what they say on to the plane."""

from __future__ import annotations

import logging
import select
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from gpulayer.spec.calls import Arrival, Outcome
from gpulayer.spec.causes import Evidence
from gpulayer.spec.files import Blob
from gpulayer.spec.rank_messages import (
    FROM_RANK,
    Announce,
    Arrive,
    Hello,
    Joins,
    Kept,
    Left,
    Progressed,
    Recorded,
    Recording,
)
from gpulayer.spec.ranks import Milestone
from gpulayer.spec.records import Order
from gpulayer.spec.reports import CheckpointAnnounced, RankArrived, RankOutcome, RankPassed, RankProgress
from gpulayer.transport import unix
from gpulayer.worker import checkpoints, evidence
from gpulayer.worker.background import Background
from gpulayer.worker.exits import Watched
from gpulayer.worker.layout import TaskFolders
from gpulayer.worker.patience import PatientPlane
from gpulayer.worker.reporter import Reporter
from gpulayer.worker.telling import Telling

_log = logging.getLogger(__name__)
_HELLO_S = 30.0
_LOOK_S = 0.5


@dataclass
class Rank:
    """One connected rank. ``calls`` counts the calls it stood at; ``broken_off`` says that our own stop ended its last one."""

    rank: int
    connection: unix.Connection
    process: Watched
    calls: int = 0
    left: Left | None = None
    failed_call: bool = False
    broken_off: bool = False


class Relay:
    """Listens to the ranks of one task, each in a thread of its own; ``Telling`` tells them what they have yet to hear.

    ``on_fault`` hears of every failure that a rank showed. ``killed_with_agent`` says whether a rank's death is the agent's.
    """

    def __init__(
        self,
        order: Order,
        where: TaskFolders,
        plane: PatientPlane,
        reporter: Reporter,
        background: Background,
        on_fault: Callable[[Evidence], None],
        killed_with_agent: Callable[[Watched], bool],
    ) -> None:
        self._order = order
        self._where = where
        self._plane = plane
        self._reporter = reporter
        self._background = background
        self._on_fault = on_fault
        self._killed_with_agent = killed_with_agent
        self._lock = threading.Lock()
        self.ranks: dict[int, Rank] = {}
        self._conversations: list[threading.Thread] = []
        self._listener = unix.listen(where.root, where.socket_name)
        self._telling = Telling(order, where, plane)
        self._start(self._take_in, "gpulayer-relay")

    def update(self, order: Order) -> None:
        """Take the newest orders; ranks hear of them from another thread."""
        self._order = order
        self._telling.update(order)

    def finish(self, timeout_s: float) -> None:
        """Hear every rank out, now that their processes are gone, and close; time in which the plane is away doesn't count."""
        self._listener.close()
        deadline = time.monotonic() + timeout_s
        for conversation in self._conversations:
            while conversation.is_alive() and (self._plane.away or time.monotonic() < deadline):
                conversation.join(_LOOK_S)
        self._telling.close()

    def all_left_well(self, expected: int) -> bool:
        """Say whether every local rank said goodbye with exit code 0."""
        return len(self.ranks) == expected and all(rank.left and rank.left.exit_code == 0 for rank in self.ranks.values())

    def pids(self) -> dict[int, int]:
        """Return the pids of the ranks that have not ended, by rank."""
        with self._lock:
            return {rank.rank: rank.process.pid for rank in self.ranks.values() if not rank.process.ended}

    # --- from ranks ----------------------------------------------------------------------------------------------

    def _take_in(self) -> None:
        while (connection := self._listener.accept()) is not None:
            thread = self._start(partial(self._converse, connection), "gpulayer-rank")
            self._conversations.append(thread)

    def _converse(self, connection: unix.Connection) -> None:
        try:
            rank = self._meet(connection)
            if rank is None:
                return
            while self._wait(rank):
                message = connection.receive(FROM_RANK)
                if message is None:
                    break
                self._on(rank, message)
            self._conclude(rank)
            rank.process.close()
        except Exception:
            _log.exception("a conversation with a rank broke")
        finally:
            connection.close()

    def _meet(self, connection: unix.Connection) -> Rank | None:
        hello = connection.receive(FROM_RANK, timeout_s=_HELLO_S)
        if not isinstance(hello, Hello) or hello.attempt != self._order.attempt:
            return None
        rank = Rank(hello.rank, connection, Watched(hello.pid, self._where.pipes))
        with self._lock:
            self.ranks[hello.rank] = rank
        self._telling.add(hello.rank, connection)
        self._pass(hello.rank, "started")
        return rank

    def _wait(self, rank: Rank) -> bool:
        """Wait for a message; False once the process is gone and everything it said was heard.

        A forked child may hold the connection open after the rank's death: so the process is watched as well.
        """
        if rank.connection.pending:
            return True
        poll = select.poll()
        poll.register(rank.connection.fileno(), select.POLLIN)
        if rank.process.fileno() >= 0 and not rank.process.ended:
            poll.register(rank.process.fileno(), select.POLLIN)
        ready = {file for file, _ in poll.poll(0 if rank.process.ended else None)}
        rank.process.look()
        return rank.connection.fileno() in ready or not rank.process.ended

    def _on(self, rank: Rank, message: Any) -> None:
        match message:
            case Joins():
                self._pass(rank.rank, "met" if message.met else "joined")
            case Arrive():
                rank.calls = max(rank.calls, message.fingerprint.call + 1)
                arrival = Arrival(
                    rank=rank.rank,
                    call=message.fingerprint.call,
                    fingerprint=message.fingerprint,
                    state_digest=message.state_digest,
                    at=time.time(),
                )
                self._reporter.send(RankArrived, arrival=arrival)
            case Recording():
                self._store(rank, message)
            case Left():
                self._on_left(rank, message)
            case Announce():
                self._keep(rank, message)
            case Progressed():
                self._reporter.send(RankProgress, progress=message.progress)

    def _store(self, rank: Rank, message: Recording) -> None:
        error = message.error
        rank.failed_call = rank.failed_call or message.status != "ok"
        rank.broken_off = self._order.stop is not None and evidence.is_broken_off(message)
        outcome = Outcome(
            call=message.call,
            rank=rank.rank,
            status=message.status,
            at=time.time(),
            began=message.began,
            body=self._put(message.body),
            error=error and error.record(rank.rank, self._put(error.body)),
        )
        self._reporter.send(RankOutcome, outcome=outcome)
        rank.connection.send(Recorded(call=message.call))

    def _put(self, name: str | None) -> Blob | None:
        if name is None:
            return None
        path = self._where.root / name
        blob = self._plane.put_blob(path)
        path.unlink(missing_ok=True)
        return blob

    def _on_left(self, rank: Rank, message: Left) -> None:
        rank.left = message
        rank.calls = max(rank.calls, message.calls)
        if self._order.spec.calls is not None:
            gone = Arrival(rank=rank.rank, call=rank.calls, fingerprint=None, at=time.time())
            self._reporter.send(RankArrived, arrival=gone)
        found = None if rank.failed_call else evidence.of_left(self._order.node_rank, rank.rank, message, time.time())
        if found is not None:
            self._on_fault(found)
        elif message.exit_code == 0:
            self._pass(rank.rank, "ended")

    def _keep(self, rank: Rank, message: Announce) -> None:
        into = self._where.kept / f"{rank.rank}.{message.serial}"
        save = checkpoints.keep(rank.rank, message, self._where.work, into)
        rank.connection.send(Kept(serial=message.serial))
        self._background.do(lambda: self._make_known(save, into))

    def _make_known(self, save: checkpoints.KeptSave, folder: Path) -> None:
        self._reporter.send(CheckpointAnnounced, share=checkpoints.share(self._order, save, folder, self._plane.put_blob))
        shutil.rmtree(folder, ignore_errors=True)

    def _conclude(self, rank: Rank) -> None:
        """The rank is gone, or let go of its connection: what does its end tell?"""
        rank.process.await_end()
        if rank.left is not None or self._killed_with_agent(rank.process):
            return
        code = rank.process.exit_code
        meets_calls = self._order.spec.calls is not None
        if code is not None and not rank.failed_call and not (code == 0 and self._order.stop is not None):
            found = evidence.of_exit(self._order.node_rank, rank.rank, code, time.time(), owes_goodbye=meets_calls)
            if found is not None:
                self._on_fault(found)
            else:
                self._pass(rank.rank, "ended")

    def _pass(self, rank: int, milestone: Milestone) -> None:
        """Report how far a rank is, where others may wait for it."""
        if self._order.spec.kind == "distributed":
            self._reporter.send(RankPassed, rank=rank, milestone=milestone)

    def _start(self, target: Callable[[], None], name: str) -> threading.Thread:
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
        return thread
