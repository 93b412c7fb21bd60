"""What a job spec accepts, and how it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from gpulayer import errors
from gpulayer.spec.job import Calls, CommandJob, DistributedJob, FunctionJob, parse_job, shape
from gpulayer.spec.resources import Resources

CUDA = {"accelerator": "cuda", "gpu_count": 1}

REFUSED: list[tuple[str, dict[str, Any], type[errors.InvalidJob], str]] = [
    ("mps", {"procs_per_worker": 2, "resources": {"accelerator": "mps"}}, errors.DistributedMPS, "2 processes"),
    ("nccl", {"backend": "nccl"}, errors.NcclWithoutCuda, "accelerator is auto"),
    ("procs", {"procs_per_worker": 2, "resources": CUDA}, errors.MoreProcsThanGpus, "gpu_count is 1"),
    ("retries", {"max_attempts": 2}, errors.DistributedRetries, "max_attempts is 2"),
    ("no workers", {"num_workers": 0}, errors.InvalidCount, "num_workers is 0"),
    ("no processes", {"procs_per_worker": -1}, errors.InvalidCount, "procs_per_worker is -1"),
    ("timeout", {"timeout_s": 0}, errors.InvalidCount, "timeout_s is 0"),
    ("grace", {"grace_s": -1}, errors.InvalidCount, "grace_s is -1"),
    ("for ever", {"timeout_s": float("inf")}, errors.InvalidCount, "timeout_s is inf"),
    ("no number", {"grace_s": float("nan")}, errors.InvalidCount, "grace_s is nan"),
    ("NUL in a value", {"env": {"A": "1\0"}}, errors.InvalidJob, "NUL character in env"),
    ("NUL in an argument", {"args": ["a\0b"]}, errors.InvalidJob, "NUL character in args"),
    ("priority", {"priority": 101}, errors.InvalidCount, "priority is 101"),
    ("env", {"env": {"A-B": "1"}}, errors.InvalidEnvName, "'A-B'"),
    ("version", {"resources": {"torch": "2.x"}}, errors.InvalidSpecifier, "torch reads '2.x'"),
    ("entry point", {"entrypoint": " "}, errors.EntrypointMissing, "empty"),
]


@pytest.mark.parametrize(("fields", "error", "says"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_what_cannot_run_is_refused_with_its_own_class_and_a_next_step(
    fields: dict[str, Any], error: type[errors.InvalidJob], says: str
) -> None:
    with pytest.raises(error, match=says) as caught:
        DistributedJob.model_validate({"entrypoint": "train.py", **fields})
    assert caught.value.next_step


def test_an_unknown_field_of_a_person_is_refused_by_name() -> None:
    with pytest.raises(ValidationError, match="num_gpus"):
        DistributedJob.model_validate({"entrypoint": "train.py", "num_gpus": 2})


@pytest.mark.parametrize("function", ["train", "pkg.mod:", ":f", "a b:c", "lambda: 0"])
def test_a_function_is_named_by_module_and_name(function: str) -> None:
    with pytest.raises(errors.InvalidFunctionValue):
        FunctionJob(function=function)


@pytest.mark.parametrize(
    "job",
    [
        CommandJob(command=("echo", "", "0")),
        FunctionJob(function="a.b:c", args=(0, "", False, None), kwargs={"k": [1, {"x": None}]}),
        DistributedJob(
            entrypoint="-m pkg.mod",
            args=("--x", ""),
            num_workers=2,
            procs_per_worker=3,
            calls=Calls(root="/r", cwd="/r/c"),
            resources=Resources(python=">=3.11", frameworks={"jax": ">=0.4"}),
        ),
    ],
    ids=lambda job: job.kind,
)
def test_a_spec_survives_its_json(job: CommandJob | FunctionJob | DistributedJob) -> None:
    assert parse_job(job.model_dump_json()) == job
    assert parse_job(job.model_dump()) == job


def test_shape_and_world_size() -> None:
    job = DistributedJob(entrypoint="train.py", num_workers=2, procs_per_worker=3)
    assert (shape(job), job.world_size) == ((2, 3), 6)
    assert shape(CommandJob(command=("true",))) == (1, 1)
