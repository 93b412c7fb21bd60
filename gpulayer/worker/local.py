"""The worker host of an embedded plane: a process of its own session that holds one agent for each worker.

python -P -m gpulayer.worker.local --home H --owner PRC --watch-pid PID --workers wkr-1:name-1 wkr-2:name-2
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from gpulayer import plane as planes
from gpulayer.plane import Plane
from gpulayer.spec.records import JobRecord
from gpulayer.spec.states import Reason
from gpulayer.spec.workers import WorkerInfo
from gpulayer.worker import hardware, leftovers, processes, spares
from gpulayer.worker.agent import Agent
from gpulayer.worker.patience import PatientPlane
from gpulayer.worker.site import Site
from gpulayer.worker.watch import CallerWatch

_log = logging.getLogger(__name__)
_SOON_S, _LOOK_S, _SELDOM_S = 0.1, 1.0, 5.0


class Host:
    """Agents in threads, and the question whether the caller is still there.

    It ends when the caller is gone, or said that no job will come, and nothing is left to do.
    """

    def __init__(self, plane: Plane, owner: str, sites: Sequence[Site], watch: CallerWatch) -> None:
        self._plane = plane
        self._owner = owner
        self._agents = [Agent(site) for site in sites]
        self._watch = watch
        self._told_to_end = threading.Event()

    def start(self) -> None:
        """Register all workers, then follow orders."""
        for agent in self._agents:
            agent.register()
        for agent in self._agents:
            threading.Thread(target=agent.run, name="gpulayer-agent", daemon=True).start()

    def end(self) -> None:
        """End soon, killing what runs: somebody asked this process to go."""
        self._told_to_end.set()

    def run(self) -> None:
        """Serve until nothing is left to do."""
        cancelled = False
        while not self._told_to_end.is_set():
            self._watch.wait(self._patience())
            if self._watch.gone and not cancelled:
                self._cancel_orphans()
                cancelled = True
            if self._watch.silent and not self._busy():
                break
        for agent in self._agents:
            agent.leave()
            if self._told_to_end.is_set():
                agent.abandon()
        for agent in self._agents:
            agent.await_idle(30.0)

    def _patience(self) -> float:
        """Look again soon where only the last steps of a task keep us; the watch itself ends a wait at once."""
        if not self._watch.silent:
            return _SELDOM_S
        return _SOON_S if any(agent.busy for agent in self._agents) else _LOOK_S

    def _busy(self) -> bool:
        return any(agent.busy for agent in self._agents) or bool(self._unfinished())

    def _unfinished(self) -> list[JobRecord]:
        """Return the jobs of our caller that have not ended: those that it said farewell to go on without it."""
        return self._plane.unended_jobs(self._owner)

    def _cancel_orphans(self) -> None:
        for job in self._unfinished():
            if not job.caller_ended:
                _log.warning("the caller of %s is gone", job.id)
                self._plane.cancel(job.id, reason=Reason.CALLER_GONE)


def main(argv: Sequence[str] | None = None) -> None:
    """Host workers for one caller."""
    args = _arguments(argv)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    processes.adopt_orphans()
    spares.OF_THIS_PROCESS.keep(len(args.workers), again=False)
    watch = CallerWatch(args.watch_pid, sys.stdin.fileno())
    plane = planes.open(args.home, process="worker")
    can = hardware.capabilities(args.home, os.environ)
    environ = dict(os.environ)
    sites = [
        Site(
            plane=plane,
            home=args.home,
            shared=args.home,
            me=WorkerInfo(
                id=worker_id,
                name=name,
                origin="local",
                owner=args.owner,
                process=getattr(plane, "process_id", None),
                capabilities=can,
            ),
            environ=environ,
        )
        for worker_id, _, name in (worker.partition(":") for worker in args.workers)
    ]
    host = Host(plane, args.owner, sites, watch)
    _listen_to_signals(host)
    host.start()
    print("ready", flush=True)
    leftovers.of_dead_callers(sites[0], PatientPlane(plane))
    host.run()
    plane.close()


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="gpulayer.worker.local", description=__doc__)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--owner", required=True)
    parser.add_argument("--watch-pid", type=int, required=True)
    parser.add_argument("--workers", nargs="+", required=True)
    return parser.parse_args(argv)


def _listen_to_signals(host: Host) -> None:
    # Handlers, not SIG_IGN: an ignored signal would stay ignored in the jobs.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: host.end())


if __name__ == "__main__":
    main()
