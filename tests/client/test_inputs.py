"""What becomes of a job's inputs where it is submitted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpulayer import plane as planes
from gpulayer.client import inputs
from gpulayer.errors import InvalidJob
from gpulayer.plane import Plane
from gpulayer.spec.job import CommandJob


@pytest.fixture
def plane(home: Path) -> Any:
    opened = planes.open(home, process="caller")
    yield opened
    opened.close()


def a_job(uri: str, target: str = "remote", **placement: Any) -> CommandJob:
    placed = {"target": target, **placement}
    return CommandJob(command=("true",), inputs=({"uri": uri, "path": "data"},), placement=placed)


def brought(plane: Plane, job: CommandJob) -> dict[str, bytes] | None:
    """Return the files that travel with the one input, None when the worker is to open it."""
    (found,) = inputs.carried(plane, job).inputs
    if found.entries is None:
        return None
    files = {}
    for entry in found.entries:
        with plane.open_blob(entry.blob.sha256) as opened:
            files[entry.path] = opened.read()
    return files


@pytest.mark.parametrize("form", ["{}", "file://{}", "relative"])
def test_a_folder_of_the_caller_travels_to_another_machine(
    plane: Plane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    (tmp_path / "set" / "deep").mkdir(parents=True)
    (tmp_path / "set" / "a").write_text("A")
    (tmp_path / "set" / "deep" / "run.sh").write_text("B")
    (tmp_path / "set" / "deep" / "run.sh").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    uri = "set" if form == "relative" else form.format(tmp_path / "set")
    assert brought(plane, a_job(uri)) == {"a": b"A", "deep/run.sh": b"B"}
    (found,) = inputs.carried(plane, a_job(uri)).inputs
    assert found.entries is not None
    assert [entry.mode & 0o100 for entry in found.entries] == [0, 0o100]


def test_a_file_by_itself_has_no_path_of_its_own(plane: Plane, tmp_path: Path) -> None:
    (tmp_path / "one").write_text("1")
    assert brought(plane, a_job(str(tmp_path / "one"))) == {"": b"1"}
    assert brought(plane, a_job(str(tmp_path / "one"), "local", fallback_targets=("remote",))) == {"": b"1"}


def test_a_job_that_stays_on_this_machine_opens_the_file_itself(
    plane: Plane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one").write_text("1")
    monkeypatch.chdir(tmp_path)
    (found,) = inputs.carried(plane, a_job("one", "local")).inputs
    assert (found.uri, found.entries) == (str(tmp_path / "one"), None)


@pytest.mark.parametrize("uri", ["s3://bucket/key", "https://example.org/x.zip", "zip://a::file:///no/such.zip"])
def test_what_any_machine_can_open_is_left_to_the_worker(plane: Plane, uri: str) -> None:
    assert brought(plane, a_job(uri)) is None


@pytest.mark.parametrize("uri", ["/no/such/file", "gpulayer://job-000000000000/node0/x"])
def test_what_is_not_there_is_refused_before_anything_is_submitted(plane: Plane, uri: str) -> None:
    with pytest.raises(InvalidJob, match="is not there"):
        inputs.carried(plane, a_job(uri))


def test_a_folder_of_very_many_files_is_refused(plane: Plane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "MOST_FILES", 2)
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "a").touch()
    (tmp_path / "set" / "again").symlink_to(tmp_path / "set")
    with pytest.raises(InvalidJob, match="more than 2 files"):
        inputs.carried(plane, a_job(str(tmp_path / "set")))
