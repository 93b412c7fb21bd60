"""``gpulayer artifacts``: list and fetch the files that a job left."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click

from gpulayer.artifacts import landing
from gpulayer.cli.completing import job_ids
from gpulayer.cli.opened import opened
from gpulayer.cli.output import Form, age, print_list, size, with_forms
from gpulayer.errors import ArtifactNotFound
from gpulayer.logs.harmless import harmless
from gpulayer.spec.files import Artifact


@click.group()
def command() -> None:
    """List, fetch and forget the files that a job left, as node0/path."""


def artifact_facts(artifact: Artifact) -> dict[str, object]:
    """Return the object that ``artifacts ls --json`` prints of each file."""
    return {
        "path": artifact.path,
        "size": artifact.blob.size,
        "sha256": artifact.blob.sha256,
        "job_id": artifact.job_id,
        "attempt": artifact.attempt,
        "mtime": artifact.mtime,
    }


@command.command()
@click.argument("job_id", metavar="ID", shell_complete=job_ids)
@click.option("--attempt", type=int, help="Files of an earlier attempt.")
@with_forms()
def ls(job_id: str, attempt: int | None, form: Form) -> None:
    """List a job's files."""
    with opened() as plane:
        found = plane.artifacts(plane.job(job_id).id, attempt=attempt)
    columns = {
        "PATH": lambda artifact: artifact.path,
        "SIZE": lambda artifact: size(artifact.blob.size),
        "AGE": lambda artifact: age(artifact.mtime),
    }
    print_list(found, form, facts=artifact_facts, columns=columns, id_key="path", nothing="The job left no files.")


@command.command()
@click.argument("job_id", metavar="ID", shell_complete=job_ids)
@click.argument("path", required=False)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, file_okay=False), help="Folder to write to (./ID if not given)."
)
def get(job_id: str, path: str | None, output: Path | None) -> None:
    """Fetch a job's files: all of them, one, or those below a folder."""
    with opened() as plane:
        job = plane.job(job_id)
        folder = output or Path(job.id)
        for artifact in below(plane.artifacts(job.id), path):
            target = landing.below(folder, artifact.path)
            target.parent.mkdir(parents=True, exist_ok=True)
            plane.fetch_blob(artifact.blob.sha256, target)
            target.chmod(artifact.mode & 0o777)
            click.echo(harmless(str(target)))


@command.command()
@click.argument("job_id", metavar="ID", shell_complete=job_ids)
@click.argument("path")
def cat(job_id: str, path: str) -> None:
    """Write one file to standard output."""
    with opened() as plane:
        artifact = exactly(plane.artifacts(plane.job(job_id).id), path)
        with plane.open_blob(artifact.blob.sha256) as source:
            shutil.copyfileobj(source, sys.stdout.buffer)


@command.command()
@click.argument("job_id", metavar="ID", shell_complete=job_ids)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
def rm(job_id: str, paths: tuple[str, ...]) -> None:
    """Forget files of an ended job, or all below a folder; those of its checkpoints go with the job alone."""
    with opened() as plane:
        job = plane.job(job_id)
        found = plane.artifacts(job.id)
        wanted = {artifact.path: None for path in paths for artifact in below(found, path)}
        for artifact in plane.remove_artifacts(job.id, list(wanted)):
            click.echo(harmless(artifact.path))


def below(artifacts: list[Artifact], path: str | None) -> list[Artifact]:
    """Return the file at ``path`` or the files below it; all when it isn't given."""
    if path is None:
        return artifacts
    wanted = path.strip("/")
    found = [artifact for artifact in artifacts if artifact.path == wanted or artifact.path.startswith(wanted + "/")]
    if not found:
        raise ArtifactNotFound(f"The job left nothing at {path}.", path=path)
    return found


def exactly(artifacts: list[Artifact], path: str) -> Artifact:
    """Return the file at ``path``."""
    found = [artifact for artifact in artifacts if artifact.path == path.strip("/")]
    if not found:
        raise ArtifactNotFound(f"The job left no file {path}.", path=path)
    return found[0]
