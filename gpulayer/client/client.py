"""A plane as programs use it: they submit jobs to it, and take up those that are there."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from gpulayer import plane as planes
from gpulayer import settings
from gpulayer.client import environment, inputs, modules, source, standing
from gpulayer.client.handles import Job
from gpulayer.client.local_workers import LocalWorkers
from gpulayer.client.options import default_target
from gpulayer.client.places import Place, absolute, locate, place_of
from gpulayer.errors import CallRefused
from gpulayer.plane import Plane
from gpulayer.spec import loading
from gpulayer.spec.job import CommandJob, DistributedJob, FunctionJob, parse_job, shape

AnyJob = CommandJob | FunctionJob | DistributedJob
CLOSE_S = 10.0


class Client:
    """Opens a plane: the one at ``url``, or embedded in ``home``; by default those that GPULAYER_URL and its like name.

    Threads may share one. On a plane of this machine it starts workers when a job needs them, at most one for each processor
    where that suits; they have the environment that this process was started with. ``close`` (or the end of a ``with`` block)
    ends them, and with them the jobs that run there: wait for what you want to keep, or submit it with ``detach=True``.
    """

    def __init__(self, url: str | None = None, *, token: str | None = None, home: str | Path | None = None) -> None:
        found = settings.read()
        if home is not None:
            found = replace(found, home=absolute(str(home)), url=None)
        self._settings = found if url is None else replace(found, url=url, token=None, token_file=None)
        self._token = token
        self._lock = threading.Lock()
        self._open: Plane | None = None
        self._workers: LocalWorkers | None = None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def plane(self) -> Plane:
        """What it asks; opened when it is first needed, and never in a job."""
        with self._lock:
            if self._open is None:
                _refuse_in_job()
                self._open = self._opened()
            return self._open

    def _opened(self) -> Plane:
        found = self._settings
        return planes.open(found.url or found.home, process="caller", token=self._token or planes.token_of(found))

    def close(self) -> None:
        """End the workers that this client started, and let go of the plane."""
        with self._lock:
            workers, self._workers = self._workers, None
            plane, self._open = self._open, None
        if workers is not None:
            workers.close(0.0 if plane is not None and self._cancel_left(plane) else CLOSE_S)
        if plane is not None:
            plane.close()

    @staticmethod
    def _cancel_left(plane: Plane) -> bool:
        """Cancel what still runs on workers that are about to end; say whether there was any."""
        left = plane.unended_jobs(plane.process_id)
        for job in left:
            plane.cancel(job.id)
        return bool(left)

    # --- jobs --------------------------------------------------------------------------------------------------------

    def submit(
        self, spec: AnyJob | Mapping[str, Any], *, source_dir: str | Path | None = None, detach: bool = False, key: str = ""
    ) -> Job:
        """Submit a job (or the dictionary of one) and return it at once.

        A ``FunctionJob`` and a ``DistributedJob`` bring the project around the working directory, or around their script, a
        ``CommandJob`` nothing; ``source_dir`` names another folder. A job that has a ``source`` keeps it. A job without a
        target runs here, or on the plane that is named. ``detach`` leaves it to workers that stay (``gpulayer up``). Two
        submissions with one ``key`` are one job. Raises ``InvalidJob``, ``Unschedulable`` and the like.
        """
        job = parse_job(dict(spec)) if isinstance(spec, Mapping) else spec
        if "target" not in job.placement.model_fields_set:
            target = default_target(self._settings)
            job = job.model_copy(update={"placement": job.placement.model_copy(update={"target": target})})
        env = environment.gather(os.environ, env=job.env, env_file=None, forward_env=job.forward_env)
        job = job.model_copy(update={"env": env})
        local = self._settings.url is None and job.placement.target == "local"
        if detach and self._settings.url is None:
            return self._leave(job, source_dir, key)
        plane = self.plane
        ready = self._bundled(plane, job, source_dir)
        if local:
            self._have_workers(plane, shape(job)[0])
        return Job(plane, plane.submit(ready, key=key))

    def _leave(self, job: AnyJob, source_dir: str | Path | None, key: str) -> Job:
        """Submit a job as one of nobody's: the workers that this client may have would end with it."""
        standing.require(self.plane, shape(job)[0])
        left = self._opened()
        try:
            record = left.submit(self._bundled(left, job, source_dir), key=key)
        finally:
            left.close()
        return Job(self.plane, record)

    def _bundled(self, plane: Plane, job: AnyJob, source_dir: str | Path | None) -> AnyJob:
        """Add the source, and have the inputs travel."""
        place, entry, always = self._place(job, None if source_dir is None else str(source_dir))
        if place is not None:
            stored = source.store(plane, place.root, home=self._settings.home, always=always)
            local = job.placement.target == "local"
            job = job.model_copy(update={**place.fields(stored, local=local), **entry})
        return inputs.carried(plane, job)

    @staticmethod
    def _place(job: AnyJob, source_dir: str | None) -> tuple[Place | None, dict[str, str], tuple[Path, ...]]:
        """Find the folder that a job brings, if any, and the entry point as it is named in there."""
        if job.source is not None:
            return None, {}, ()
        here = Path.cwd() / "-"
        match job:
            case CommandJob():
                return (None if source_dir is None else place_of(here, source_dir)), {}, ()
            case FunctionJob(script=str() as script):
                place, entry, always = locate(script, source_dir, module=False)
                return place, {"script": entry}, always
            case FunctionJob():
                place = place_of(here, source_dir)
                _check(job.function.partition(":")[0], place, job)
                return place, {}, ()
        module = job.entrypoint.startswith("-m ")
        named = job.entrypoint.removeprefix("-m ")
        place, entry, always = locate(named, source_dir, module=module)
        if not always:  # it is no file
            _check(named.partition(":")[0], place, job)
        return place, {"entrypoint": entry}, always

    def _have_workers(self, plane: Plane, count: int) -> None:
        """Have so many more workers than jobs are unended, up to one for each processor; as many as the job needs anyway."""
        with self._lock:
            if self._workers is None:
                self._workers = LocalWorkers(self._settings.home, plane.process_id)
            workers = self._workers
        busy = sum(shape(job.spec)[0] for job in plane.unended_jobs(plane.process_id))
        workers.forget_dead()
        workers.ensure(max(count, min(busy + count, os.cpu_count() or 1)))
        workers.wait(plane)

    def job(self, job_id: str) -> Job:
        """Return a job by its id or a unique prefix of it; raises ``JobNotFound`` or ``AmbiguousId``."""
        return Job(self.plane, self.plane.job(job_id))

    def jobs(self, *, limit: int = 100) -> list[Job]:
        """Return the newest jobs, newest first."""
        return [Job(self.plane, record) for record in self.plane.jobs(limit=limit)]


def _check(module: str, place: Place, job: AnyJob) -> None:
    """Refuse a module that a worker could not import, as far as can be told."""
    if "PYTHONPATH" not in job.env:
        modules.check(module, (place.cwd, place.root))


_shared: dict[int, Client] = {}
_sharing = threading.Lock()


def shared() -> Client:
    """Return the client of this process, which is closed at its end; a forked child has none of its parent's."""
    with _sharing:
        pid = os.getpid()
        if pid not in _shared:
            _shared.clear()
            _shared[pid] = Client()
            atexit.register(_close_shared, pid)
        return _shared[pid]


def _close_shared(pid: int) -> None:
    if os.getpid() == pid and pid in _shared:
        _shared.pop(pid).close()


def _refuse_in_job() -> None:
    """End the loading of a script at the first call that is its caller's to make; what runs in a job may make none."""
    if loading.STATE.loading:
        raise loading.Loaded
    if settings.in_job():
        raise CallRefused(
            "A job holds no key to its plane, so it can't submit jobs.",
            next_step="Call f.local(...) there, or return what the caller needs to submit one.",
        )
