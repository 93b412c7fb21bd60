"""The caller's word that a call may begin, and how what the call left becomes part of the caller's objects."""

from __future__ import annotations

import functools
import io
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from gpulayer.client.homecoming import Homecoming
from gpulayer.errors import StaleModule
from gpulayer.plane import Plane
from gpulayer.spec.calls import EarlierCall, Go
from gpulayer.spec.files import FileEntry
from gpulayer.strategies import call_settings, digest, fingerprint, names, outcome, pytest_runs, random_start, stale
from gpulayer.strategies.job_spec import Source
from gpulayer.strategies.outcome import Applied, Scene, bodies
from gpulayer.strategies.outcome.optimizers import Made, rebuilt

if TYPE_CHECKING:
    from gpulayer.strategies.resume import Found
    from gpulayer.strategies.session import CallRequest


def start_settings(plane: Plane, home: Homecoming) -> str | None:
    """Store what the job needs before its script begins; the digest of the blob."""
    tests = pytest_runs.session()
    told = None if tests is None else pytest_runs.told(tests, home.below)
    return plane.put_blob(call_settings.collect_start(random_start.at_import(), told)).sha256


def go(
    number: int,
    request: CallRequest,
    source: Source,
    plane: Plane,
    earlier: tuple[EarlierCall, ...],
    found: Found | None,
    paths: Mapping[str, str],
) -> Go:
    """Describe call ``number`` with the caller's settings for it; ``found`` is what ``resume.resolve`` did.

    ``paths`` says which path the script has in the job where it has a URL here.
    """
    asked = request.ckpt_path
    settings = call_settings.collect(request, found)
    sent = () if request.options.target == "local" else _checkpoint(settings.ckpt_path, plane)
    if sent and settings.ckpt_shown is None:
        settings = replace(settings, ckpt_shown=settings.ckpt_path)
    return Go(
        fingerprint=fingerprint.take(
            call=number,
            function=request.function,
            ordinal=request.ordinal,
            trainer=request.trainer,
            model=request.model,
            ckpt_path=fingerprint.relative(paths.get(asked or "", asked), str(source.root), os.path.abspath),
        ),
        settings=plane.put_blob(call_settings.pack(settings)),
        # A stale module is neither compared nor sent: the job's own is the newer one.
        state_digest="" if request.model is None or stale.is_stale(request.model) else digest.of_state(request.model),
        earlier=earlier,
        checkpoint=sent,
    )


def _checkpoint(path: str | None, plane: Plane) -> tuple[FileEntry, ...]:
    """Store a checkpoint of this machine, a file or a folder, for machines that may have none at its path."""
    if path is None or "://" in path or not os.path.exists(path):
        return ()
    top = Path(path)
    files = [top] if top.is_file() else sorted(file for file in top.rglob("*") if file.is_file())
    return tuple(FileEntry(path=file.relative_to(top.parent).as_posix(), blob=plane.put_blob(file)) for file in files)


def state(model: torch.nn.Module) -> bytes:
    """Write the caller's tensors for ranks that have others."""
    written = io.BytesIO()
    torch.save(digest.pack_state(model), written)
    return written.getvalue()


def apply(
    body: dict[str, Any],
    request: CallRequest,
    text: Callable[[str], str] = str,
    before: Callable[[str], str] = str,
    also: Callable[[dict[str, Any]], None] = lambda _: None,
) -> Applied:
    """Apply an outcome to the caller's objects.

    ``text`` translates every string: paths of files that came home under another name; ``before`` is how they were translated
    before the call. ``also`` gets what else the outcome holds, by name.
    """
    if bodies.MODULE in body:
        stale.fill(request.model)  # what the calls before changed in it
    scene = Scene(request.trainer, request.model, request.datamodule, request.arguments)
    applied = outcome.apply(body, scene, text, before)
    _take_states(request, applied.extra)
    also(applied.extra)
    return applied


def fill(apply: Callable[[dict[str, Any]], Applied], request: CallRequest, job_id: str, part: dict[str, Any]) -> None:
    """Apply the module's part of an outcome that was applied without it."""
    applied = apply(part)
    _take_states(request, applied.extra)
    if applied.lost:
        warnings.warn(f"gpulayer: {job_id} changed what can't be brought back here: {', '.join(applied.lost)}.", stacklevel=2)


def _take_states(request: CallRequest, extra: dict[str, Any]) -> None:
    if "optimizers" in extra:
        request.strategy.owe_optimizers(functools.partial(optimizers, request, extra))
    if extra.get("precision"):
        request.trainer.precision_plugin.load_state_dict(extra["precision"])


def owe_stale(request: CallRequest, job_id: str) -> None:
    """Have optimizers that stayed with a job say so."""

    def refuse() -> NoReturn:
        raise StaleModule(f"These optimizers stayed with {job_id}.", job_id=job_id)

    request.strategy.owe_optimizers(refuse)


def optimizers(request: CallRequest, extra: dict[str, Any]) -> Made:
    """Make the optimizers and schedulers of a finished fit; the user's data isn't loaded here to count its batches."""
    with names.data_seen(request.trainer):
        return rebuilt(extra, request.model, request.names.init_optimizers)
