"""The caller's word that a call may begin, and how what the call left becomes part of the caller's objects."""

from __future__ import annotations

import functools
import io
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from gpulayer.plane import Plane
from gpulayer.spec.calls import EarlierCall, Go
from gpulayer.spec.files import FileEntry
from gpulayer.strategies import call_settings, digest, fingerprint, names, outcome, random_start
from gpulayer.strategies.job_spec import Source
from gpulayer.strategies.outcome import Scene
from gpulayer.strategies.outcome.optimizers import Made, rebuilt

if TYPE_CHECKING:
    from gpulayer.strategies.resume import Found
    from gpulayer.strategies.session import CallRequest


def start_settings(plane: Plane) -> str | None:
    """Store what the job needs before its script begins; the digest of the blob."""
    return plane.put_blob(call_settings.collect_start(random_start.at_import())).sha256


def go(
    number: int, request: CallRequest, source: Source, plane: Plane, earlier: tuple[EarlierCall, ...], found: Found | None
) -> Go:
    """Describe call ``number`` with the caller's settings for it; ``found`` is what ``resume.resolve`` did."""
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
            ckpt_path=fingerprint.relative(request.ckpt_path, str(source.root), os.path.abspath),
        ),
        settings=plane.put_blob(call_settings.pack(settings)),
        state_digest="" if request.model is None else digest.of_state(request.model),
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
    body: Path, request: CallRequest, text: Callable[[str], str] = str, also: Callable[[dict[str, Any]], None] = lambda _: None
) -> tuple[Any, list[str]]:
    """Apply an outcome to the caller's objects; the returned value, and the names of what couldn't be brought back.

    ``text`` translates every string: paths of files that came home under another name. ``also`` gets what else
    the outcome holds, by name.
    """
    scene = Scene(request.trainer, request.model, request.datamodule, request.arguments)
    applied = outcome.apply(outcome.load(body), scene, text)
    if "optimizers" in applied.extra:
        request.strategy.owe_optimizers(functools.partial(optimizers, request, applied.extra))
    if applied.extra.get("precision"):
        request.trainer.precision_plugin.load_state_dict(applied.extra["precision"])
    also(applied.extra)
    return applied.returned, list(applied.lost)


def optimizers(request: CallRequest, extra: dict[str, Any]) -> Made:
    """Make the optimizers and schedulers of a finished fit; the user's data isn't loaded here to count its batches."""
    with names.data_seen(request.trainer):
        return rebuilt(extra, request.model, request.names.init_optimizers)
