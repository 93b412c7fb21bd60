"""From a job that did not end well to the exception that the caller gets."""

from __future__ import annotations

import copyreg
import sys
from collections.abc import Mapping
from typing import Any, TypeVar

from gpulayer import errors
from gpulayer.spec import loading
from gpulayer.spec.calls import ErrorRecord
from gpulayer.spec.records import JobRecord
from gpulayer.spec.states import JobState, Reason

E = TypeVar("E", bound=BaseException)
_CLASSES: dict[Reason, type[errors.GPULayerError]] = {
    Reason.UNSCHEDULABLE: errors.Unschedulable,
    Reason.QUEUE_TIMEOUT: errors.JobTimedOut,
    Reason.TIMEOUT: errors.JobTimedOut,
    Reason.PREPARATION_FAILED: errors.PreparationFailed,
    Reason.RENDEZVOUS_FAILED: errors.RendezvousFailed,
    Reason.STRAGGLER: errors.Straggler,
    Reason.WORKER_LOST: errors.WorkerLost,
    Reason.CALLS_DIVERGED: errors.CallsDiverged,
    Reason.CANCELLED_BY_USER: errors.JobCancelled,
    Reason.CALLER_GONE: errors.JobCancelled,
}
CALLERS_NAME = {loading.MAIN: "__main__"}
"""A module of the job whose name is another one here: what a script defines, where the job loads it for a function."""


def of_job(job: JobRecord) -> Exception:
    """Return what to raise for a job that ended badly: the user's own exception where that is the cause, else one of ours."""
    record = job.cause.error if job.cause is not None else None
    return job_error(job) if record is None else of_record(record)


def of_record(record: ErrorRecord) -> Exception:
    """Return the exception that a job's process recorded, of its own class where that is here, with its traceback as a note."""
    name = CALLERS_NAME.get(record.module, record.module)
    error = rebuilt(record.model_copy(update={"module": name}))
    return noted(error if isinstance(error, Exception) else unknown(record), record)


def rebuilt(record: ErrorRecord) -> BaseException | None:
    """Make an exception of what its record says by itself; None where its class isn't here, or can't be made."""
    if record.module == errors.__name__:
        ours: Any = getattr(errors, record.qualname, None)
        known = isinstance(ours, type) and issubclass(ours, errors.GPULayerError)
        return ours(record.message, next_step="", rank=record.rank) if known else None
    cls = class_of(record.module, record.qualname)
    args = [record.message] if record.args is None else list(record.args)
    return None if cls is None else make(cls, args, record.fields)


def class_of(module: str, qualname: str) -> type[BaseException] | None:
    """Look up a class of exceptions."""
    try:
        found: Any = find(module, qualname)
    except (LookupError, AttributeError, ImportError):
        return None
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def unknown(record: ErrorRecord) -> errors.RemoteError:
    """Return what stands for an exception that can't be made here."""
    name = f"{record.module}.{record.qualname}"
    return errors.RemoteError(f"{record.qualname}: {record.message}", rank=record.rank, cls=name)


def noted(error: E, record: ErrorRecord) -> E:
    """Add the remote traceback to an exception."""
    if record.traceback:
        error.add_note(f"On rank {record.rank} of the job:\n{record.traceback.rstrip()}")
    return error


def job_error(job: JobRecord) -> errors.GPULayerError:
    """Return the error that tells of a job's end, for ends that no exception of the user's explains."""
    cls = _CLASSES.get(job.reason) if job.reason is not None else None
    if cls is None:
        cls = errors.JobLost if job.state is JobState.LOST else errors.JobFailed
    sentence = job.sentence or f"It ended as {job.state} ({job.reason})."
    facts = {"job_id": job.id, "state": str(job.state), "reason": str(job.reason)}
    if job.cause is not None:
        facts |= {"rank": job.cause.rank, "node_rank": job.cause.node_rank}  # type: ignore[dict-item]
    next_step = (job.cause and job.cause.next_step) or cls.fix.replace("jobs logs ID", f"jobs logs {job.id}")
    return cls(f"{job.id}: {sentence}", next_step=next_step, **facts)


def find(module: str, qualname: str) -> Any:
    """Look a class or function up by name, importing only what belongs to a package that is imported already."""
    if module not in sys.modules:
        if module.partition(".")[0] not in sys.modules:
            raise LookupError(f"{module} isn't imported here")
        __import__(module)
    found: Any = sys.modules[module]
    for part in qualname.split("."):
        found = getattr(found, part)
    return found


def make(cls: type[BaseException], args: list[Any], attrs: Mapping[str, Any]) -> BaseException | None:
    try:
        error = cls.__new__(cls, *args)
        error.args = tuple(args)
        _set_fields(error, attrs)
    except (AttributeError, TypeError, ValueError):
        return None
    return error if isinstance(error, BaseException) else None


def _set_fields(error: BaseException, own: Mapping[str, Any]) -> None:
    slots = set(copyreg._slotnames(type(error)) or ())  # type: ignore[attr-defined]
    builtin = set(_builtin_names(type(error)))
    for name, value in own.items():
        if name in slots or name in builtin:
            try:
                object.__setattr__(error, name, value)
            except (AttributeError, TypeError):  # a read-only field of a builtin, made of args already
                continue
        else:
            error.__dict__[name] = value


def _builtin_names(cls: type[BaseException]) -> list[str]:
    return [name for base in cls.__mro__ if base.__module__ == "builtins" for name in vars(base)]
