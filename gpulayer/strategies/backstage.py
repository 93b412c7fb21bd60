"""What stands ready behind a session: the plane, this process's local workers, and the making of jobs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from gpulayer import plane
from gpulayer.client import inputs, standing
from gpulayer.client.follow import say
from gpulayer.client.homecoming import Homecoming
from gpulayer.client.local_workers import LocalWorkers
from gpulayer.client.options import JobOptions
from gpulayer.plane import Plane
from gpulayer.settings import Settings
from gpulayer.spec.base import new_id
from gpulayer.spec.files import FileEntry
from gpulayer.spec.job import Processes
from gpulayer.strategies import going, job_spec
from gpulayer.strategies.held import HeldJob
from gpulayer.strategies.job_spec import Source
from gpulayer.strategies.script import Program

if TYPE_CHECKING:
    from gpulayer.strategies.session import CallRequest

CLOSE_S = 10.0


class Backstage:
    """Opens the plane once and keeps as many local workers as the largest job so far; from any thread."""

    def __init__(self, found: Settings) -> None:
        self._settings = found
        self._process_id = new_id("prc")
        self._lock = threading.Lock()
        self._starting = threading.Lock()  # not the plane's: the host boots while the plane is opened
        self._plane: Plane | None = None
        self._workers: LocalWorkers | None = None
        self._homecoming: dict[tuple[str, str], Homecoming] = {}

    def placed(self, options: JobOptions) -> JobOptions:
        """Return the options with a target, which may depend on the plane."""
        return options.on(self._settings)

    def want(self, count: int, options: JobOptions) -> None:
        """Start ``count`` local workers in the background, if the job will need any; an error shows when they are needed."""

        def begin() -> None:
            try:
                self._start(count)
                self.plane()
            except Exception:
                return

        if self._is_ours(self.placed(options)):
            threading.Thread(target=begin, name="gpulayer-backstage", daemon=True).start()

    def submit(self, request: CallRequest, program: Program) -> HeldJob:
        """Bundle the source, submit the job of a script, and say its id."""
        opened = self.plane()
        source = job_spec.find_source(program, request.options)
        if request.options.detach and self._settings.url is None:
            standing.require(opened, request.num_nodes)
        workers = self._start(request.num_nodes) if self._is_ours(request.options) else None
        home = self.homecoming(source)
        files = () if request.options.target == "local" else _left_by(home)  # local workers see the caller's own folder
        packed = job_spec.pack(source, program, opened, self._settings.home)
        written = job_spec.spec(request, program, source, packed, going.start_settings(opened, home), files)
        spec = inputs.carried(opened, written)
        if workers is not None:
            workers.wait(opened)
        job = opened.submit(spec)
        say(f"{job.id} on {_shape(request.num_nodes, request.procs_per_worker)}")
        return HeldJob(opened, job, request.shape, source, packed, home, workers, self._settings.home / "resume", program.text)

    def homecoming(self, source: Source) -> Homecoming:
        """Return what brings files to the folder of a script, and knows those that came."""
        return self._homecoming.setdefault((str(source.root), source.cwd), Homecoming(self.plane(), source.place))

    def _is_ours(self, options: JobOptions) -> bool:
        """Say whether a job is one for workers that this process starts."""
        return options.target == "local" and self._settings.url is None and not options.detach

    def plane(self) -> Plane:
        with self._lock:
            if self._plane is None:
                self._plane = plane.open(
                    self._settings.url or self._settings.home, process="caller", process_id=self._process_id
                )
            return self._plane

    def _start(self, count: int) -> LocalWorkers:
        with self._starting:
            if self._workers is None:
                self._workers = LocalWorkers(self._settings.home, self._process_id)
            workers = self._workers
        workers.forget_dead()
        workers.ensure(count)
        return workers

    def close(self) -> None:
        """Let the workers end, for a while, and close the plane."""
        with self._starting, self._lock:
            if self._workers is not None:
                self._workers.close(CLOSE_S)
            if self._plane is not None:
                self._plane.close()
            self._plane = self._workers = None


def _left_by(home: Homecoming) -> tuple[FileEntry, ...]:
    """Return what the jobs of the script have left so far, for another one to begin with; says so where that is too much."""
    files = home.present()
    if len(files) > inputs.MOST_FILES:
        say(f"{len(files):,} files of earlier calls are more than a job can begin with ({inputs.MOST_FILES:,}): none are sent.")
        return ()
    return files


def _shape(workers: int, processes: Processes) -> str:
    def count(number: Processes, word: str) -> str:
        return f"{number} {word}" + ("" if number == 1 else "s" if not word.endswith("s") else "es")

    return f"{count(workers, 'worker')} x {count(processes, 'process')}"
