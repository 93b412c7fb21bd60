"""From a script and a Trainer's wishes to a job."""

from __future__ import annotations

import platform
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpulayer.client.options import JobOptions
from gpulayer.errors import EntrypointMissing
from gpulayer.spec.job import CommandJob, DistributedJob
from gpulayer.spec.resources import Resources
from gpulayer.strategies import autoload, job_spec
from gpulayer.strategies.job_spec import PackedSource, Source
from gpulayer.strategies.script import Program

PACKED = PackedSource(None, "a" * 64, "b" * 64)  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a script, in which the process began."""
    project = tmp_path / "project"
    (project / "code").mkdir(parents=True)
    (project / "pyproject.toml").touch()
    (project / "code" / "train.py").touch()
    monkeypatch.setattr(autoload, "STARTED_CWD", str(project / "code"))
    return project


def request(options: JobOptions | None = None, num_nodes: int = 2, procs: int = 2) -> Any:
    names = SimpleNamespace(namespace="lightning.pytorch")
    return SimpleNamespace(options=options or JobOptions(), num_nodes=num_nodes, procs_per_worker=procs, names=names)


def program(folder: Path) -> Program:
    return Program(folder / "code" / "train.py", None, ("--lr", ""), word="train.py")


def test_the_job_runs_the_same_script_from_the_same_place(folder: Path) -> None:
    source = job_spec.find_source(program(folder), JobOptions())
    made = job_spec.spec(request(), program(folder), source, PACKED, "c" * 64)
    assert isinstance(made, DistributedJob)
    assert (made.entrypoint, made.args, made.cwd) == ("train.py", ("--lr", ""), "code")
    assert (made.num_workers, made.procs_per_worker) == (2, 2)
    assert made.calls is not None
    assert (made.calls.root, made.calls.cwd, made.calls.settings) == (str(folder), str(folder / "code"), "c" * 64)
    assert made.source_root == str(folder)


def test_one_process_needs_no_torchrun(folder: Path) -> None:
    source = job_spec.find_source(program(folder), JobOptions())
    made = job_spec.spec(request(num_nodes=1, procs=1), program(folder), source, PACKED, None)
    assert isinstance(made, CommandJob)
    assert made.command == ("python", "-m", "gpulayer.runtime", "train.py", "--lr", "")


def test_a_module_is_run_as_a_module_from_the_folder_above_its_package(folder: Path) -> None:
    (folder / "pyproject.toml").unlink()
    module = Program(folder / "code" / "train.py", "code.train", ())
    source = job_spec.find_source(module, JobOptions())
    assert source.root == folder
    made = job_spec.spec(request(), module, source, PACKED, None)
    assert isinstance(made, DistributedJob)
    assert made.entrypoint == "-m code.train"


def test_a_working_directory_elsewhere_has_its_place_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autoload, "STARTED_CWD", "/elsewhere")
    script = Program(folder / "code" / "train.py", None, (), word=str(folder / "code" / "train.py"))
    source = job_spec.find_source(script, JobOptions())
    made = job_spec.spec(request(), script, source, PACKED, None)
    assert isinstance(made, DistributedJob)
    assert (made.cwd, made.entrypoint) == ("abs/elsewhere", "../../code/train.py")


def test_outputs_lie_where_the_caller_would_have_written_them() -> None:
    source = Source(Path("/home/me/project"), "/home/me/project/code")
    assert source.place("code/logs/a.csv") == Path("/home/me/project/code/logs/a.csv")
    assert source.place("abs/data/out.pt") == Path("/data/out.pt")


def test_a_script_outside_of_the_named_source_is_refused_with_the_way_out(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with pytest.raises(EntrypointMissing, match="source_dir"):
        job_spec.find_source(program(folder), JobOptions(source_dir=str(tmp_path / "other")))


def test_workers_must_have_the_callers_minor_versions_unless_told_otherwise() -> None:
    asked = job_spec.matching(JobOptions(resources=Resources(torch=">=2.4")), "lightning.pytorch")
    major, minor, _ = platform.python_version_tuple()
    assert (asked.python, asked.torch) == (f"=={major}.{minor}.*", ">=2.4")
    assert list(asked.frameworks) == ["lightning"]
    assert job_spec.matching(JobOptions(match="none"), "lightning.pytorch") == Resources()


def test_the_options_reach_the_job(folder: Path) -> None:
    options = JobOptions(
        name="n", env={"A": "1"}, timeout_s=5, priority=7, labels={"k": "v"}, workers=("w",), idle_limit_s=3, grace_s=1
    )
    source = job_spec.find_source(program(folder), options)
    made = job_spec.spec(request(options), program(folder), source, PACKED, None)
    assert (made.name, made.env, made.timeout_s, made.priority, made.labels) == ("n", {"A": "1"}, 5, 7, {"k": "v"})
    assert (made.placement.workers, made.grace_s) == (("w",), 1)
    assert made.calls is not None
    assert made.calls.idle_limit_s == 3


def test_only_a_local_worker_is_told_of_the_callers_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LR", "0.1")
    source = job_spec.find_source(program(folder), JobOptions())
    away = JobOptions(target="remote", forward_env=("LR",), env={"A": "1"}, secrets=("WANDB_API_KEY",))
    made = job_spec.spec(request(away), program(folder), source, PACKED, None)
    assert (made.placement.target, made.source_root, made.left_out) == ("remote", None, None)
    assert (made.env, made.forward_env, made.secrets) == ({"A": "1", "LR": "0.1"}, ("LR",), ("WANDB_API_KEY",))
    here = job_spec.spec(request(JobOptions(target="local")), program(folder), source, PACKED, None)
    assert (here.placement.target, here.source_root, here.left_out) == ("local", str(folder), "b" * 64)
