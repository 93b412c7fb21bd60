"""From a script and a Trainer's wishes to the job that is submitted."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import sys
import zipfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from gpulayer.artifacts import bundle
from gpulayer.client import environment, requirements
from gpulayer.client.options import JobOptions
from gpulayer.client.source import store
from gpulayer.errors import EntrypointMissing
from gpulayer.plane import Plane
from gpulayer.spec.files import FileEntry
from gpulayer.spec.job import Calls, CommandJob, DistributedJob
from gpulayer.spec.resources import Resources
from gpulayer.strategies import autoload, installed, interpreter, names, pytest_runs
from gpulayer.strategies.paths import PathMap, between
from gpulayer.strategies.script import Program
from gpulayer.worker.torchrun import entry_words

if TYPE_CHECKING:
    from gpulayer.strategies.session import CallRequest

_WORK = "/-"
"""A work folder's name where only what lies below it matters."""


@dataclass(frozen=True)
class Source:
    """The folder that is bundled and where the caller's process began; both absolute."""

    root: Path
    cwd: str

    @property
    def paths(self) -> PathMap:
        """The map to a work folder, named as seen from the work folder itself."""
        return between(str(self.root), self.cwd, _WORK)

    @property
    def job_cwd(self) -> str:
        """The job's working directory, relative to its work folder."""
        return os.path.relpath(self.paths.job_cwd(), _WORK)

    def place(self, path: str) -> Path:
        """Return where an output (relative to the work folder) lies at the caller."""
        return Path(self.paths.to_caller(f"{_WORK}/{path}"))


@dataclass(frozen=True)
class PackedSource:
    """The bundle of a job, in the plane's store, with the list of what it left out, where that is known."""

    plane: Plane
    sha256: str
    left_out: str | None

    def hash_of(self, path: str) -> str | None:
        """Return the hash that a file had in the bundle, None for one that wasn't in it."""
        return self._hashes.get(path) if "\0" not in path else None

    def rule_for(self, path: str) -> str | None:
        """Return the rule that left a path out of the bundle, None where none did."""
        return next((rule for name, rule in self._left_out if path == name or path.startswith(f"{name}/")), None)

    @functools.cached_property
    def _left_out(self) -> list[tuple[str, str]]:
        if self.left_out is None:
            return []
        with self.plane.open_blob(self.left_out) as opened:
            return [(entry["path"].rstrip("/"), entry["rule"]) for entry in json.load(opened)]

    @functools.cached_property
    def _hashes(self) -> dict[str, str]:
        with self.plane.open_blob(self.sha256) as opened, zipfile.ZipFile(opened) as archive:
            return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}


def find_source(program: Program, options: JobOptions) -> Source:
    """Choose the folder that is bundled: the one named, else the project around the program (or, for a tool, the cwd)."""
    cwd = autoload.STARTED_CWD
    near = program.package_root / "-" if program.module else program.file
    if program.near is not None:
        near = program.near / "-"
    elif installed.is_installed(near):
        near = Path(cwd) / "-"
    source = Source(bundle.find_root(near, options.source_dir), cwd)
    if program.module is None and program.command is None and not program.file.is_relative_to(source.root):
        raise EntrypointMissing(
            f"The script {program.file} is not below the source folder {source.root}.",
            next_step="Name a source folder that holds it: JobOptions(source_dir=...).",
        )
    return source


def pack(source: Source, program: Program, plane: Plane, home: Path) -> PackedSource:
    """Bundle the source into the plane's store; the script goes in whatever the rules say."""
    always = [program.file] if program.file.is_relative_to(source.root) else []
    stored = store(plane, source.root, home=home, always=always)
    return PackedSource(plane, stored.sha256, stored.left_out)


def spec(
    request: CallRequest,
    program: Program,
    source: Source,
    packed: PackedSource,
    settings: str | None,
    files: tuple[FileEntry, ...] = (),
) -> DistributedJob | CommandJob:
    """Write the job: torchrun on ``num_nodes`` workers, or one process without it. ``files`` are there when it begins.

    The caller's folder itself is named to local workers alone: a path that another machine happens to have is another folder.
    """
    options = request.options
    target = options.target or "local"
    here = {"left_out": packed.left_out, "source_root": str(source.root)} if target == "local" else {}
    calls = Calls(
        root=str(source.root),
        cwd=source.cwd,
        idle_limit_s=options.idle_limit_s,
        straggler_grace_s=options.straggler_grace_s,
        caller_lease_s=options.caller_lease_s,
        settings=settings,
        files=files,
        import_folders=_import_folders(source, program),
    )
    common = {
        "name": options.name,
        "env": interpreter.variables(sys.flags, sys.warnoptions)
        | environment.forwarded(os.environ, pytest_runs.VARIABLES if program.pytest else ())
        | environment.gather(os.environ, env=options.env, env_file=options.env_file, forward_env=options.forward_env),
        "forward_env": options.forward_env,
        "secrets": options.secrets,
        "timeout_s": options.timeout_s,
        "queue_timeout_s": options.queue_timeout_s,
        "rendezvous_timeout_s": options.rendezvous_timeout_s,
        "priority": options.priority,
        "labels": options.labels,
        "inputs": options.inputs,
        "requirements": requirements.gather(options.requirements, options.requirements_file),
        "source": packed.sha256,
        **here,
        "cwd": source.job_cwd,
        "resources": matching(options, request.names.namespace),
        "placement": options.placement(target),
        "on_unschedulable": options.on_unschedulable,
        "grace_s": options.grace_s,
        "calls": calls,
    }
    entrypoint = program.entrypoint(source.paths.to_job(str(program.file)), source.paths.job_cwd())
    if (request.num_nodes, request.procs_per_worker) == (1, 1):
        command = ("python", "-m", "gpulayer.runtime", *entry_words(entrypoint), *program.words(source.paths))
        return CommandJob(command=command, **common)
    return DistributedJob(
        entrypoint=entrypoint,
        args=program.words(source.paths),
        num_workers=request.num_nodes,
        procs_per_worker=request.procs_per_worker,
        **common,
    )


def _import_folders(source: Source, program: Program) -> tuple[str, ...]:
    found = installed.import_folders(source.root, sys.path, os.environ.get("PYTHONPATH", ""))
    if program.module is not None or program.command is not None:
        above = program.package_root if program.module else program.near
        if above is not None and above.is_relative_to(source.root) and not installed.is_installed(above):
            found.append(os.path.relpath(above, source.root))
    return tuple(dict.fromkeys(found))


def matching(options: JobOptions, namespace: str) -> Resources:
    """Add the caller's minor versions to what workers must have, where the options don't say otherwise."""
    asked = options.resources
    if options.match == "none":
        return asked
    lightning = names.DISTRIBUTIONS[namespace]
    return asked.model_copy(
        update={
            "python": asked.python or _minor(platform.python_version()),
            "torch": asked.torch or _minor(metadata.version("torch")),
            "frameworks": {lightning: _minor(metadata.version(lightning)), **asked.frameworks},
        }
    )


def _minor(version: str) -> str:
    return f"=={'.'.join(version.split('.')[:2])}.*"
