"""A job that its caller left to itself, and how it comes home to objects of this process later."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpulayer.client.follow import say
from gpulayer.client.homecoming import Homecoming
from gpulayer.client.interrupts import Interrupts
from gpulayer.errors import CallRefused
from gpulayer.plane import Plane
from gpulayer.settings import Settings
from gpulayer.spec.calls import CallView
from gpulayer.spec.job import Calls
from gpulayer.spec.records import JobRecord
from gpulayer.strategies import fingerprint, parts
from gpulayer.strategies.held import HeldJob, Settled
from gpulayer.strategies.job_spec import PackedSource, Source
from gpulayer.strategies.session import CallRequest


def attach(
    plane: Plane,
    found: Settings,
    homecoming: Callable[[Source], Homecoming],
    job_id: str,
    trainer: Any,
    model: Any,
    given: Mapping[str, Any],
) -> Settled:
    """Follow a job to the end of its last call and apply that to ``trainer``, ``model`` and what else the call was given.

    ``homecoming`` knows what came to a folder before. Ctrl-C leaves the job again.
    """
    job = plane.job(job_id)
    view, calls = _last_call(job)
    root = Path(calls.root)
    if not root.is_dir():
        raise CallRefused(
            f"{job.id} brings its files to {root}, the folder of its script, which is not here.",
            next_step=f"Attach where that folder is, or fetch files by name: gpulayer artifacts get {job.id}.",
        )
    request = _request(job, view, trainer, model, dict(given))
    source = Source(root, calls.cwd)
    packed = PackedSource(plane, job.spec.source or "", getattr(job.spec, "left_out", None))
    held = HeldJob(plane, job, request.shape, source, packed, homecoming(source), None, found.home / "resume")
    try:
        settled = held.settle(view.call, request, Interrupts())  # not entered: Ctrl-C stays Python's own
    except KeyboardInterrupt:
        say(f"{job.id} goes on by itself: gpulayer.attach({job.id!r}, ...) brings it home.")
        raise
    request.strategy.job_id = job.id
    return settled


def _last_call(job: JobRecord) -> tuple[CallView, Calls]:
    calls = job.spec.calls
    gone = [view for view in job.calls if view.go is not None]
    if calls is None or not gone:
        raise CallRefused(
            f"{job.id} holds no call of a Trainer.",
            next_step="Attach to a job that a Trainer's call with detach=True has left.",
        )
    return gone[-1], calls


def _request(job: JobRecord, view: CallView, trainer: Any, model: Any, given: dict[str, Any]) -> CallRequest:
    """Describe the call again, made of other objects, which must be like those of the script."""
    assert view.go is not None
    made = view.go.fingerprint
    strategy = trainer.strategy
    if not hasattr(strategy, "gpulayer_wish"):
        raise CallRefused(f"{type(trainer).__name__} is not one of GPUlayer.", next_step='Make it with accelerator="gpulayer".')
    model = model if model is not None else trainer.lightning_module
    here = "" if model is None else fingerprint.shapes(model)
    if made.shapes and here != made.shapes:
        raise CallRefused(
            f"{job.id} made call {view.call} ({made.function}) with a {made.module} whose parameters have other names or shapes"
            f" than those of this {type(model).__name__}.",
            next_step="Give the model as the script makes it.",
        )
    parts.begin_as(trainer, strategy.names.namespace, made.function, model)
    return CallRequest(
        function=made.function,
        trainer=trainer,
        model=model,
        model_given=True,
        datamodule=given.get("datamodule"),
        arguments={"model": model, **given},
        ckpt_path=made.ckpt_path,
        ordinal=made.trainer,
        num_nodes=job.shape[0],
        procs_per_worker=job.shape[1],
        options=strategy.options,
        strategy=strategy,
        names=strategy.names,
    )
