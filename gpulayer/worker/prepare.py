"""Puts a task's files in place before anything starts: the bundle, links to what it left out, the inputs."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from gpulayer.artifacts import archive, landing, links, outputs
from gpulayer.errors import GPULayerError, PreparationFailed, UnsafePath
from gpulayer.spec.files import FileEntry
from gpulayer.spec.job import Calls, FunctionJob, Input
from gpulayer.spec.records import Order
from gpulayer.worker import layout
from gpulayer.worker.layout import TaskFolders
from gpulayer.worker.patience import PatientPlane
from gpulayer.worker.torchrun import CALL_FILE

_LOOK_S = 0.02
_FILL_S = 600.0
RESULT_FILE = "result.json"


def prepare(order: Order, where: TaskFolders, plane: PatientPlane, stopped: Callable[[], bool]) -> None:
    """Make everything ready; raises ``PreparationFailed`` in the words of what went wrong.

    The nodes of a job with calls share one work folder on a machine: the tending one fills it, the others wait for that.
    """
    try:
        if tends(order):
            _fill(order, where, plane)
            _mark_filled(where)
        else:
            _await_filled(order, where, stopped)
        _start_settings(order, where, plane)
        for each in order.spec.inputs:
            _input(each, _place(where.input, each.path), plane)
        if isinstance(order.spec, FunctionJob):
            _describe_call(order.spec, where)
    except PreparationFailed:
        raise
    except GPULayerError as cause:
        raise PreparationFailed(cause.sentence, next_step=cause.next_step, **cause.facts) from cause
    except Exception as cause:
        raise PreparationFailed(f"{type(cause).__name__}: {cause}") from cause


def _start_settings(order: Order, where: TaskFolders, plane: PatientPlane) -> None:
    """Put what the job's half reads before the script begins where it looks for it."""
    calls = order.spec.calls
    if calls is not None and calls.settings is not None:
        plane.fetch_blob(calls.settings, where.bodies / calls.settings)


def tends(order: Order) -> bool:
    """Say whether this node fills the work folder and stores what is in it."""
    return not layout.shares_work(order) or order.machine_rank == order.node_rank


def marker(where: TaskFolders) -> Path:
    return where.work.with_name(where.work.name + ".filled")


def _fill(order: Order, where: TaskFolders, plane: PatientPlane) -> None:
    spec = order.spec
    where.work.mkdir(parents=True, exist_ok=True)
    if spec.source is not None:
        source = where.root / "source.zip"
        plane.fetch_blob(spec.source, source)
        archive.unpack(source, where.work)
        source.unlink()
    if spec.left_out is not None and spec.source_root is not None and Path(spec.source_root).is_dir():
        with plane.open_blob(spec.left_out) as opened:
            links.link_left_out(json.load(opened), Path(spec.source_root), where.work)
    if spec.calls is not None:
        _lay(spec.calls.files, where.work, plane)
    cwd = where.work / spec.cwd
    if not cwd.resolve().is_relative_to(where.work.resolve()):
        raise PreparationFailed(f"The working directory {spec.cwd!r} leaves the source folder.")
    cwd.mkdir(parents=True, exist_ok=True)
    if spec.calls is not None and spec.placement.target == "local" and _stands_outside(spec.calls):
        links.link_folder(Path(spec.calls.cwd), cwd, where.work)
    outputs.take_baseline(where.work, where.baseline)


def _lay(files: tuple[FileEntry, ...], work: Path, plane: PatientPlane) -> None:
    """Put the files of the script's earlier jobs where those wrote them; what the bundle has of them is newer."""
    for entry in files:
        to = landing.below(work, entry.path)
        if to.exists():
            continue
        to.parent.mkdir(parents=True, exist_ok=True)
        plane.fetch_blob(entry.blob.sha256, to)
        to.chmod(entry.mode & 0o777)
        if entry.mtime:  # Lightning tells by it which of its checkpoints is the last
            os.utime(to, (entry.mtime, entry.mtime))


def _stands_outside(calls: Calls) -> bool:
    """Say whether the caller's working directory is on this machine and not in the source folder, which was bundled."""
    cwd = Path(calls.cwd)
    return cwd.is_dir() and not cwd.is_relative_to(calls.root)


def _mark_filled(where: TaskFolders) -> None:
    marker(where).touch()


def _await_filled(order: Order, where: TaskFolders, stopped: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _FILL_S
    while not marker(where).exists() and not stopped():
        if time.monotonic() > deadline:
            raise PreparationFailed(
                f"Node {order.machine_rank}, which is on the same machine, did not fill {where.work} in {_FILL_S:g} s.",
                next_step="Workers of one machine that meet in a job must run as the same user.",
            )
        time.sleep(_LOOK_S)


def _input(wanted: Input, target: Path, plane: PatientPlane) -> None:
    if wanted.entries is None:
        _open_input(wanted.uri, target)
        return
    if not wanted.entries:
        target.mkdir(parents=True, exist_ok=True)
    for entry in wanted.entries:
        to = _place(target, entry.path)
        to.parent.mkdir(parents=True, exist_ok=True)
        plane.fetch_blob(entry.blob.sha256, to)
        to.chmod(entry.mode & 0o777)


def _open_input(uri: str, target: Path) -> None:
    import fsspec  # takes a while to import, and few jobs have inputs

    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        fs, path = fsspec.core.url_to_fs(uri)
        fs.get(path, os.fspath(target), recursive=fs.isdir(path))
    except Exception as cause:
        raise PreparationFailed(f"The input {uri} could not be fetched: {type(cause).__name__}: {cause}", uri=uri) from cause


def _place(folder: Path, path: str) -> Path:
    """Return where an input goes: people may write ``./data/``, and a file by itself has no path below its place."""
    names = str(PurePosixPath(path))
    try:
        return folder if names == "." else landing.below(folder, names)
    except UnsafePath as cause:
        raise PreparationFailed(cause.sentence, next_step="Give a relative path.", **cause.facts) from cause


def _describe_call(spec: FunctionJob, where: TaskFolders) -> None:
    call = {
        "function": spec.function,
        "script": spec.script,
        "args": spec.args,
        "kwargs": spec.kwargs,
        "result": str(where.work / RESULT_FILE),
    }
    (where.root / CALL_FILE).write_text(json.dumps(call))
