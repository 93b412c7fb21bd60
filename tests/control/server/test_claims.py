"""A worker's reports are taken for its own task and its own ranks, and nothing else of them is stored."""

from __future__ import annotations

from typing import Any

import pytest

from gpulayer.control.server.app import EmbeddedPlane
from gpulayer.errors import BadRequest
from gpulayer.spec.calls import Progress
from gpulayer.spec.files import Blob, FileEntry, Manifest
from gpulayer.spec.records import JobRecord
from gpulayer.spec.reports import CheckpointAnnounced, OutputsIndexed, RankProgress
from tests.control.given import a_blob, a_gang, a_share, a_worker


def a_running_gang(plane: EmbeddedPlane) -> JobRecord:
    """Two nodes of two ranks."""
    for name in ("one", "two"):
        plane.register(a_worker(name, owner=plane.process_id, process=plane.process_id))
    return plane.submit(a_gang(2, 2))


def of_node(job: JobRecord, node_rank: int) -> dict[str, Any]:
    return {"worker_id": job.tasks[node_rank].worker_id, "job_id": job.id, "attempt": 1, "node_rank": node_rank}


@pytest.mark.parametrize("rank", [-1, 2, 3, 4])
def test_a_worker_cannot_announce_checkpoints_for_the_ranks_of_another(plane: EmbeddedPlane, rank: int) -> None:
    job = a_running_gang(plane)
    for own in (0, 1):
        plane.report(CheckpointAnnounced(**of_node(job, 0), share=a_share(job.id, own, entries=())))
    with pytest.raises(BadRequest, match=f"rank {rank}"):
        plane.report(CheckpointAnnounced(**of_node(job, 0), share=a_share(job.id, rank, entries=())))
    plane.report(CheckpointAnnounced(**of_node(job, 1), share=a_share(job.id, 2, entries=())))
    assert plane.checkpoints(job.id) == []
    plane.report(CheckpointAnnounced(**of_node(job, 1), share=a_share(job.id, 3, entries=())))
    assert len(plane.checkpoints(job.id)) == 1


@pytest.mark.parametrize("other", [{"job_id": "job-000000000000"}, {"attempt": 2}, {"node_rank": 1}])
def test_files_of_another_task_are_refused(plane: EmbeddedPlane, other: dict[str, Any]) -> None:
    job = a_running_gang(plane)
    named = {"job_id": job.id, "attempt": 1, "node_rank": 0, **other}
    manifest = Manifest(**named, entries=(FileEntry(path="a", blob=a_blob()),))
    with pytest.raises(BadRequest, match="another task"):
        plane.report(OutputsIndexed(**of_node(job, 0), manifest=manifest))
    assert plane.artifacts(job.id, attempt=1) == plane.artifacts(job.id, attempt=2) == []


def test_only_the_node_of_rank_0_says_how_far_a_job_is(plane: EmbeddedPlane) -> None:
    job = a_running_gang(plane)
    plane.report(RankProgress(**of_node(job, 1), progress=Progress(call=0, at=1.0)))
    assert plane.job(job.id).progress is None
    plane.report(RankProgress(**of_node(job, 0), progress=Progress(call=0, at=2.0)))
    assert plane.job(job.id).progress is not None


BAD_PATHS = ["", ".", "/etc/passwd", "../up", "a/../../up", "a//b", "a/./b", "a/", "a\0b", "a/" * 3000 + "b"]


@pytest.mark.parametrize("path", BAD_PATHS)
def test_files_are_named_below_the_output_folder(plane: EmbeddedPlane, path: str) -> None:
    job = a_running_gang(plane)
    entries = (FileEntry(path=path, blob=plane.put_blob(b"x")),)
    manifest = Manifest(job_id=job.id, attempt=1, node_rank=0, entries=entries)
    with pytest.raises(BadRequest, match="no path below"):
        plane.report(OutputsIndexed(**of_node(job, 0), manifest=manifest))
    with pytest.raises(BadRequest, match="no path below"):
        plane.report(CheckpointAnnounced(**of_node(job, 0), share=a_share(job.id, 0, entries=entries)))
    assert plane.artifacts(job.id) == []


@pytest.mark.parametrize("path", BAD_PATHS[2:])
def test_checkpoints_are_named_below_the_output_folder(plane: EmbeddedPlane, path: str) -> None:
    job = a_running_gang(plane)
    with pytest.raises(BadRequest, match="no path below"):
        plane.report(CheckpointAnnounced(**of_node(job, 0), share=a_share(job.id, 0, path=path, entries=())))


@pytest.mark.parametrize("blob", [Blob(sha256="x", size=1), Blob(sha256="A" * 64, size=1), Blob(sha256="a" * 64, size=-1)])
def test_blobs_are_named_by_a_digest(plane: EmbeddedPlane, blob: Blob) -> None:
    job = a_running_gang(plane)
    share = a_share(job.id, 0, entries=(FileEntry(path="a", blob=blob),))
    with pytest.raises(BadRequest, match="names no blob"):
        plane.report(CheckpointAnnounced(**of_node(job, 0), share=share))


def test_a_manifest_names_stored_bytes(plane: EmbeddedPlane) -> None:
    job = a_running_gang(plane)
    entries = (FileEntry(path="there", blob=plane.put_blob(b"x")), FileEntry(path="gone", blob=a_blob("gone")))
    manifest = Manifest(job_id=job.id, attempt=1, node_rank=0, entries=entries)
    with pytest.raises(BadRequest, match="'gone' are not stored"):
        plane.report(OutputsIndexed(**of_node(job, 0), manifest=manifest))
    assert plane.artifacts(job.id) == []
