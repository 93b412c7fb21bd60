"""Says of the user's exception from another machine that what it missed is at the caller: a variable, a file."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from gpulayer.spec.job import JobBase
from gpulayer.strategies.job_spec import PackedSource, Source


def tell(error: BaseException, job: JobBase, source: Source, packed: PackedSource, environ: Mapping[str, str]) -> None:
    """Add a note, where the caller's environment or folder explains what the job's lacked; local jobs see both."""
    if job.placement.target == "local":
        return
    if isinstance(error, KeyError):
        note = _of_variable(error, job, environ)
    elif isinstance(error, FileNotFoundError):
        note = _of_file(error, source, packed)
    else:
        note = None
    if note is not None:
        error.add_note(note)


def _of_variable(error: KeyError, job: JobBase, environ: Mapping[str, str]) -> str | None:
    name = error.args[0] if error.args else None
    if not isinstance(name, str):
        return None
    if name not in environ or name in job.env or name in job.secrets:
        return None
    return f"{name} is set here, and was not forwarded to the job: JobOptions(forward_env=[{name!r}])."


def _of_file(error: FileNotFoundError, source: Source, packed: PackedSource) -> str | None:
    named = error.filename or _quoted_last(str(error))
    if not isinstance(named, str | bytes):
        return None
    path = Path(os.path.normpath(os.path.join(source.cwd, os.fsdecode(named))))
    if not path.exists():
        return None
    way = "inputs=[{'uri': ..., 'path': ...}] puts files from any URL into GPULAYER_INPUT_DIR"
    if not path.is_relative_to(source.root):
        return f"{path} is here, outside of the source folder {source.root}, so it did not travel with the job: {way}."
    inside = path.relative_to(source.root).as_posix()
    rule = packed.rule_for(inside)
    if rule is None:
        return None
    return f"{path} is here, and did not travel with the job ({rule}): !/{inside} in .gpulayerignore takes it along, or {way}."


def _quoted_last(text: str) -> str | None:
    """Return what a message quotes at its end: some libraries name the file in words alone."""
    found = re.search(r"'([^']+)'\Z", text)
    return found and found[1]
