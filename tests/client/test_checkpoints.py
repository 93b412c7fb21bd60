"""Choosing a checkpoint to go on from."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from gpulayer.client import checkpoints
from gpulayer.errors import ArtifactNotFound, UnsafePath
from gpulayer.spec.files import Artifact, Blob, Checkpoint, FileEntry
from gpulayer.spec.job import CommandJob
from gpulayer.spec.records import JobRecord


def made(path: str, at: float, *, job: str = "job-1", removed: bool = False, score: float | None = None) -> Checkpoint:
    entry = FileEntry(path=path, blob=Blob(sha256=hashlib.sha256(path.encode()).hexdigest(), size=1))
    return Checkpoint(
        job_id=job, attempt=1, path=path, serial=int(at), created_at=at, entries=(entry,), removed=removed, score=score
    )


class Kept:
    """A plane with the checkpoints and artifacts of its jobs."""

    def __init__(self, *found: Checkpoint, artifacts: tuple[str, ...] = ()) -> None:
        self.found = found
        self.others = artifacts
        self.fetched: list[str] = []

    def job(self, job_id: str) -> JobRecord:
        return JobRecord(id=job_id, spec=CommandJob(command=("x",)))

    def jobs(self) -> list[JobRecord]:
        return [self.job(job_id) for job_id in sorted({each.job_id for each in self.found}, reverse=True)]

    def checkpoints(self, job_id: str) -> list[Checkpoint]:
        return [each for each in self.found if each.job_id == job_id]

    def artifacts(self, job_id: str) -> list[Artifact]:
        return [Artifact(job_id=job_id, attempt=1, path=path, blob=Blob(sha256="0" * 64, size=1)) for path in self.others]

    def fetch_blob(self, sha256: str, to: Path) -> None:
        self.fetched.append(to.name)
        to.write_text("x")


def test_last_is_the_newest_that_is_still_kept(tmp_path: Path) -> None:
    plane = Kept(made("a.ckpt", 1), made("b.ckpt", 2), made("c.ckpt", 3, removed=True))
    path = checkpoints.by_url(plane, "gpulayer://job-1/last", tmp_path)  # type: ignore[arg-type]
    assert (path.name, path.read_text()) == ("b.ckpt", "x")
    checkpoints.by_url(plane, "gpulayer://job-1/last", tmp_path)  # type: ignore[arg-type]
    assert plane.fetched == ["b.ckpt"]


@pytest.mark.parametrize("name", ["../evil.ckpt", "/evil.ckpt"])
def test_a_checkpoint_or_file_that_would_leave_its_folder_is_refused(tmp_path: Path, name: str) -> None:
    plane = Kept(made(name, 1), artifacts=(f"node0/{name}",))
    for url in ("gpulayer://job-1/last", f"gpulayer://job-1/node0/{name}"):
        with pytest.raises(UnsafePath, match=r"evil\.ckpt"):
            checkpoints.by_url(plane, url, tmp_path / "below")  # type: ignore[arg-type]
    assert plane.fetched == []


def test_the_newest_stays_even_if_the_job_deleted_all() -> None:
    assert checkpoints.newest([made("a", 1, removed=True), made("b", 2, removed=True)]) == made("b", 2, removed=True)
    assert checkpoints.newest([]) is None


def test_best_is_the_scored_one_that_the_job_kept(tmp_path: Path) -> None:
    plane = Kept(made("a", 1, score=0.5, removed=True), made("b", 2, score=0.4), made("last", 3))
    assert checkpoints.by_url(plane, "gpulayer://job-1/best", tmp_path).name == "b"  # type: ignore[arg-type]


def test_a_path_in_a_job_is_a_checkpoint_or_a_file(tmp_path: Path) -> None:
    plane = Kept(made("x/a.ckpt", 1), artifacts=("node0/notes.txt",))
    for url, name in [("gpulayer://job-1/node0/x/a.ckpt", "a.ckpt"), ("gpulayer://job-1/node0/notes.txt", "notes.txt")]:
        assert checkpoints.by_url(plane, url, tmp_path).name == name  # type: ignore[arg-type]
    with pytest.raises(ArtifactNotFound, match=r"no file node0/none"):
        checkpoints.by_url(plane, "gpulayer://job-1/node0/none", tmp_path)  # type: ignore[arg-type]


def test_a_job_without_checkpoints_says_so(tmp_path: Path) -> None:
    with pytest.raises(ArtifactNotFound, match="no complete checkpoint"):
        checkpoints.by_url(Kept(), "gpulayer://job-1/last", tmp_path)  # type: ignore[arg-type]


def test_the_previous_job_is_the_newest_that_has_a_checkpoint() -> None:
    plane = Kept(made("a", 1, job="job-1"), made("b", 2, job="job-2"), made("c", 3, job="job-3"))
    found = checkpoints.previous_of(plane, lambda job: job.id != "job-3")  # type: ignore[arg-type]
    assert found is not None
    assert found[1].path == "b"


def test_best_is_the_best_score_where_the_job_says_which_way_is_better() -> None:
    def scored(path: str, at: float, score: float, monitor: str = "val_loss", mode: str = "min") -> Checkpoint:
        return made(path, at, score=score).model_copy(update={"monitor": monitor, "mode": mode})

    found = [scored("a", 1, 0.5), scored("b", 2, 0.2), scored("c", 3, 0.4), scored("d", 4, 0.9, "val_acc", "max")]
    assert checkpoints.best(found) == found[1]
    upwards = [each.model_copy(update={"mode": "max"}) for each in found]
    assert checkpoints.best(upwards) == upwards[0]
    deleted = [found[0], found[1].model_copy(update={"removed": True}), found[2]]
    assert checkpoints.best(deleted) == deleted[2]
