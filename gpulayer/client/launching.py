"""``gpulayer.launch``: a script under torchrun as a job, followed to its end."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpulayer.client import raising, requirements
from gpulayer.client.client import Client, shared
from gpulayer.client.follow import Follower
from gpulayer.client.handles import Job
from gpulayer.client.interrupts import Interrupts
from gpulayer.spec.job import DistributedJob, Processes
from gpulayer.spec.records import JobRecord
from gpulayer.spec.states import JobState


def launch(
    entrypoint: str,
    *,
    num_workers: int = 1,
    procs_per_worker: Processes = 1,
    args: Sequence[object] = (),
    source_dir: str | Path | None = None,
    client: Client | None = None,
    **options: Any,
) -> Job:
    """Run ``"train.py"``, ``"-m pkg.mod"`` or ``"pkg.mod:main"`` under torchrun as a job, and return it once it has succeeded.

    Lines are printed as ``[rank3] ...`` while it runs. ``args`` are its arguments, each as its ``str``. ``options`` are fields
    of ``DistributedJob`` (``timeout_s``, ``env``, ``resources``, ...). Without a ``client``, the plane is the one that
    GPULAYER_URL and its like name. Raises what the rank that failed first raised, or a ``JobFailed``; one Ctrl-C cancels the
    job, a second one kills it.
    """
    asked = requirements.gather(options.pop("requirements", ()), options.pop("requirements_file", None))
    spec = DistributedJob(
        entrypoint=os.fspath(entrypoint),
        args=tuple(map(str, args)),
        num_workers=num_workers,
        procs_per_worker=procs_per_worker,
        requirements=asked,
        **options,
    )
    return _followed(client or shared(), spec, source_dir)


def _followed(client: Client, spec: DistributedJob, source_dir: str | Path | None) -> Job:
    job = client.submit(spec, source_dir=source_dir)
    with Interrupts() as interrupts:
        follower = Follower(client.plane, job.id, show_ranks=True, show_agents=False)
        end = follower.until(_ended, showing=_Nothing(), interrupts=interrupts, each=lambda record: None)
    if end.state is not JobState.SUCCEEDED:
        raise raising.of_job(end)
    return job.wait()


def _ended(record: JobRecord) -> bool:
    return record.state.terminal


class _Nothing:
    """Shows nothing of how a job stands: its lines tell."""

    def show(self, job: JobRecord) -> None: ...

    def pause(self) -> None: ...

    def close(self) -> None: ...
