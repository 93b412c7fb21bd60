"""Where a process of a job stands: which job, which rank, which folders."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpulayer.spec.job import Calls


@dataclass(frozen=True)
class Context:
    """What the worker told this process through its environment.

    ``work`` is the unpacked bundle and the output folder at once. ``calls`` is set when the script's Trainer calls advance in
    lockstep with a caller.
    """

    job_id: str
    attempt: int
    node_rank: int
    rank: int
    local_rank: int
    world_size: int
    local_world_size: int
    work: Path
    output: Path
    input: Path
    task: Path
    socket: str | None
    calls: Calls | None
    straggler_grace_s: float = 60.0
    """How long it may stand still once others, or its own script, have ended."""


def current() -> Context | None:
    """Return the context of this process, or None at a caller."""
    return read(os.environ)


def read(environ: Mapping[str, str]) -> Context | None:
    """Read a context; without torchrun's variables it is rank 0 of 1."""
    if not environ.get("GPULAYER_JOB_ID"):
        return None
    calls = environ.get("GPULAYER_CALLS")
    return Context(
        job_id=environ["GPULAYER_JOB_ID"],
        attempt=int(environ["GPULAYER_ATTEMPT"]),
        node_rank=int(environ["GPULAYER_NODE_RANK"]),
        rank=int(environ.get("RANK", "0")),
        local_rank=int(environ.get("LOCAL_RANK", "0")),
        world_size=int(environ.get("WORLD_SIZE", "1")),
        local_world_size=int(environ.get("LOCAL_WORLD_SIZE", "1")),
        work=Path(environ["GPULAYER_OUTPUT_DIR"]),
        output=Path(environ["GPULAYER_OUTPUT_DIR"]),
        input=Path(environ["GPULAYER_INPUT_DIR"]),
        task=Path(environ["GPULAYER_TASK_DIR"]),
        socket=environ.get("GPULAYER_SOCKET") or None,
        calls=Calls.model_validate_json(calls) if calls else None,
        straggler_grace_s=float(environ.get("GPULAYER_STRAGGLER_GRACE_S", Context.straggler_grace_s)),
    )
