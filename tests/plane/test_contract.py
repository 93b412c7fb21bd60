"""What every plane answers alike, embedded in a home or reached over HTTP."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from gpulayer.client.filesystem import GPULayerFileSystem
from gpulayer.errors import BlobNotFound, InvalidJob, JobNotFound, NotFound, PlaneFromChild, Unschedulable, WorkerNotFound
from gpulayer.plane import Plane
from gpulayer.spec.calls import Fingerprint, Go
from gpulayer.spec.files import FileEntry, Manifest
from gpulayer.spec.job import Calls
from gpulayer.spec.news import Cursor
from gpulayer.spec.records import JobRecord
from gpulayer.spec.reports import CheckpointAnnounced, OutputsIndexed, TaskEnded, TaskReady, TaskRunning
from gpulayer.spec.states import JobState, Reason, TaskState
from gpulayer.spec.workers import WorkerInfo
from tests.control.given import a_command, a_gang, a_share, a_worker, some_lines

REMOTE: dict[str, Any] = {"placement": {"target": "remote"}}
WAITS: dict[str, Any] = {"on_unschedulable": "queue"}


@pytest.fixture
def worker(plane: Plane) -> WorkerInfo:
    return plane.register(a_worker(origin="existing", process=plane.process_id)).info


def saying(worker: WorkerInfo, job: JobRecord) -> dict[str, Any]:
    return {
        "worker_id": worker.id,
        "incarnation": worker.incarnation,
        "job_id": job.id,
        "attempt": 1,
        "node_rank": 0,
    }


def begin(plane: Plane, worker: WorkerInfo, job: JobRecord) -> None:
    plane.report(TaskReady(**saying(worker, job)))
    plane.report(TaskRunning(**saying(worker, job)))


def end(plane: Plane, worker: WorkerInfo, job: JobRecord) -> None:
    plane.report(TaskEnded(**saying(worker, job), state=TaskState.SUCCEEDED, reason=Reason.DONE, exit_code=0))


# --- jobs ----------------------------------------------------------------------------------------------------------------


def test_a_job_is_found_by_a_prefix_and_listed_newest_first(plane: Plane) -> None:
    first = plane.submit(a_command(name="first", env={"A": "ü\u2028"}, **WAITS))
    second = plane.submit(a_command(name="second", **WAITS))
    assert plane.job(first.id[:-1]).spec == first.spec
    assert [job.spec.name for job in plane.jobs()] == ["second", "first"]
    assert [job.id for job in plane.jobs(limit=1)] == [second.id]
    assert first.owner == plane.process_id


def test_the_same_key_is_the_same_job(plane: Plane) -> None:
    assert plane.submit(a_command(**WAITS), key="k").id == plane.submit(a_command(**WAITS), key="k").id
    assert len(plane.jobs()) == 1


@pytest.mark.parametrize("wrong", ["job-000000000000", "", ".", "..", "../workers", "a/b", "%2e"])
def test_what_names_no_job_is_not_found(plane: Plane, wrong: str) -> None:
    plane.submit(a_command(**WAITS))
    plane.submit(a_command(**WAITS))
    with pytest.raises(NotFound):
        plane.job(wrong)
    with pytest.raises(NotFound):
        plane.cancel(wrong)


def test_a_job_that_nobody_could_run_is_refused_with_the_reasons_and_recorded(plane: Plane, worker: WorkerInfo) -> None:
    with pytest.raises(Unschedulable, match="99 usable cuda") as caught:
        plane.submit(a_command(resources={"accelerator": "cuda", "gpu_count": 99}))
    assert plane.job(caught.value.facts["job_id"]).reason is Reason.UNSCHEDULABLE


def test_a_job_is_explained_before_and_after_it_is_submitted(plane: Plane, worker: WorkerInfo) -> None:
    spec = a_command(resources={"cpus": 99}, **WAITS)
    said = plane.explain_spec(spec)
    assert [verdict.worker_id for verdict in said.verdicts] == [worker.id]
    assert plane.explain(plane.submit(spec).id).verdicts == said.verdicts


def test_a_queued_job_is_cancelled_once(plane: Plane) -> None:
    job = plane.submit(a_command(**WAITS))
    ended = plane.cancel(job.id)
    assert (ended.state, ended.reason) == (JobState.CANCELLED, Reason.CANCELLED_BY_USER)
    assert plane.cancel(job.id, kill=True) == ended


def test_an_ended_job_is_forgotten_and_a_living_one_is_not(plane: Plane) -> None:
    job = plane.submit(a_command(**WAITS))
    with pytest.raises(InvalidJob, match="cancel"):
        plane.remove(job.id)
    plane.cancel(job.id)
    plane.remove(job.id)
    with pytest.raises(JobNotFound):
        plane.job(job.id)


def test_unended_jobs_are_those_of_one_process(plane: Plane) -> None:
    job, ended = plane.submit(a_command(**WAITS)), plane.submit(a_command(**WAITS))
    plane.cancel(ended.id)
    assert [each.id for each in plane.unended_jobs(plane.process_id)] == [job.id]
    assert plane.unended_jobs("prc-000000000000") == []


def test_news_wait_for_what_happens_and_tell_it_once(plane: Plane) -> None:
    job = plane.submit(a_command(**WAITS))
    seen = plane.news(job.id, Cursor())
    cancelling = threading.Timer(0.2, plane.cancel, [job.id])
    cancelling.start()
    news = plane.news(job.id, seen.cursor, timeout_s=30)
    cancelling.join()
    assert news.job.state is JobState.CANCELLED
    assert news.events
    assert not {event.seq for event in news.events} & {event.seq for event in seen.events}
    assert plane.news(job.id, news.cursor).events == ()


def test_news_come_back_unchanged_when_the_time_is_up(plane: Plane) -> None:
    job = plane.submit(a_command(**WAITS))
    seen = plane.news(job.id, Cursor()).cursor
    assert plane.news(job.id, seen, timeout_s=0.05).cursor == seen


def test_a_call_is_told_to_go_and_a_caller_says_farewell(plane: Plane) -> None:
    job = plane.submit(a_gang(calls=Calls(root="/r", cwd="/r"), **WAITS))
    go = Go(fingerprint=Fingerprint(call=0, function="fit", trainer=0, module="m:M", shapes=""), state_digest="d")
    assert plane.go(job.id, go).go == go
    assert plane.job(job.id).calls[0].go == go
    state = plane.put_blob(b"tensors")
    plane.send_state(job.id, 0, state)
    plane.farewell(job.id)
    assert plane.job(job.id).caller_ended


# --- workers -------------------------------------------------------------------------------------------------------------


def test_a_worker_runs_a_job_from_its_orders_to_its_end(plane: Plane, worker: WorkerInfo) -> None:
    job = plane.submit(a_command(timeout_s=60, **REMOTE))
    orders = plane.orders(worker.id, timeout_s=10)
    assert [(order.job_id, order.spec) for order in orders.orders] == [(job.id, job.spec)]
    begin(plane, worker, job)
    assert plane.job(job.id).state is JobState.RUNNING
    assert plane.workers()[0].busy == ((job.id, 1, 0),)
    end(plane, worker, job)
    assert plane.job(job.id).state is JobState.SUCCEEDED
    assert plane.orders(worker.id, seen=orders.version, timeout_s=10).orders == ()


def test_orders_wait_until_they_differ(plane: Plane, worker: WorkerInfo) -> None:
    seen = plane.orders(worker.id).version
    assert plane.orders(worker.id, seen=seen, timeout_s=0.05).version == seen
    submitting = threading.Timer(0.2, plane.submit, [a_command(**REMOTE)])
    submitting.start()
    assert plane.orders(worker.id, seen=seen, timeout_s=30).orders
    submitting.join()


def test_a_worker_is_drained_and_leaves(plane: Plane, worker: WorkerInfo) -> None:
    plane.drain(worker.id)
    assert [each.state for each in plane.workers()] == ["draining"]
    assert plane.orders(worker.id).draining
    plane.unregister(worker.id)
    assert not [each for each in plane.workers() if each.state != "gone"]
    with pytest.raises(WorkerNotFound):
        plane.drain("wkr-000000000000")


def test_a_worker_that_is_removed_loses_its_tasks(plane: Plane, worker: WorkerInfo) -> None:
    job = plane.submit(a_command(**REMOTE))
    begin(plane, worker, job)
    plane.remove_worker(worker.id)
    assert plane.job(job.id).state is JobState.LOST
    assert worker.id not in {each.info.id for each in plane.workers()}


def test_lines_are_kept_once_in_order_and_read_by_rank_or_from_the_end(plane: Plane, worker: WorkerInfo) -> None:
    job = plane.submit(a_command(**REMOTE))
    begin(plane, worker, job)
    texts = ["plain", "sep\u2028arator", "ret\rurn", "nul\x00", "\ud7ff ü", "x" * 100_000]
    plane.append_lines(job.id, some_lines(job.id, texts))
    plane.append_lines(job.id, some_lines(job.id, texts[3:], first=3))
    plane.append_lines(job.id, some_lines(job.id, ["other"], rank=1))
    assert [line.text for line in plane.lines(job.id)] == [*texts, "other"]
    assert [line.text for line in plane.lines(job.id, rank=1)] == ["other"]
    assert [line.text for line in plane.lines(job.id, tail=2)] == [texts[-1], "other"]
    assert plane.log_marks(job.id, 1, 0) == {"0/stdout": len(texts) - 1, "1/stdout": 0}
    assert [line.text for line in plane.news(job.id, Cursor()).lines] == [*texts, "other"]
    with pytest.raises(JobNotFound):
        list(plane.lines("job-000000000000"))


def test_the_files_and_checkpoints_of_a_job_are_listed(plane: Plane, worker: WorkerInfo) -> None:
    job = plane.submit(a_command(**REMOTE))
    begin(plane, worker, job)
    blob = plane.put_blob(b"made")
    manifest = Manifest(job_id=job.id, attempt=1, node_rank=0, entries=(FileEntry(path="a/b", blob=blob),), final=True)
    plane.report(OutputsIndexed(**saying(worker, job), manifest=manifest))
    share = a_share(job.id, 0).model_copy(update={"entries": (FileEntry(path="last.ckpt", blob=blob),)})
    plane.report(CheckpointAnnounced(**saying(worker, job), share=share))
    assert [(each.path, each.blob) for each in plane.artifacts(job.id)] == [("node0/a/b", blob)]
    assert plane.artifacts(job.id, attempt=7) == []
    assert [each.path for each in plane.checkpoints(job.id)] == ["last.ckpt"]


def test_a_jobs_files_are_read_through_their_urls(plane: Plane, worker: WorkerInfo, tmp_path: Path) -> None:
    job = plane.submit(a_command(**REMOTE))
    begin(plane, worker, job)
    data = os.urandom(5 * 1024 * 1024)
    entries = (FileEntry(path="a/b", blob=plane.put_blob(data)),)
    manifest = Manifest(job_id=job.id, attempt=1, node_rank=0, entries=entries, final=True)
    plane.report(OutputsIndexed(**saying(worker, job), manifest=manifest))
    files = GPULayerFileSystem(plane=plane, skip_instance_cache=True)
    with files.open(f"{job.id}/node0/a/b") as opened:
        assert opened.size == len(data)
        opened.seek(4_500_000)
        assert opened.read(10) == data[4_500_000:4_500_010]
    assert files.cat_file(f"{job.id}/node0/a/b", start=-3) == data[-3:]
    files.get(f"{job.id}/node0/", str(tmp_path / "got"), recursive=True)
    assert (tmp_path / "got" / "a" / "b").read_bytes() == data


# --- blobs ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"x", os.urandom(100_000), os.urandom(17 * 1024 * 1024)], ids=len)
def test_bytes_come_back_as_they_went(plane: Plane, tmp_path: Path, data: bytes) -> None:
    blob = plane.put_blob(data)
    assert (blob.sha256, blob.size) == (hashlib.sha256(data).hexdigest(), len(data))
    assert plane.has_blob(blob.sha256)
    (tmp_path / "source").write_bytes(data)
    assert plane.put_blob(tmp_path / "source") == blob
    plane.fetch_blob(blob.sha256, tmp_path / "below" / "target")
    assert (tmp_path / "below" / "target").read_bytes() == data
    assert os.listdir(tmp_path / "below") == ["target"]
    with plane.open_blob(blob.sha256) as opened:
        assert opened.read() == data


def test_an_open_blob_is_read_anywhere(plane: Plane) -> None:
    data = os.urandom(9 * 1024 * 1024)
    with plane.open_blob(plane.put_blob(data).sha256) as opened:
        assert opened.seek(-5, os.SEEK_END) == len(data) - 5
        assert opened.read() == data[-5:]
        assert opened.read() == b""
        opened.seek(5_000_000)
        assert opened.read(3) == data[5_000_000:5_000_003]
        assert opened.tell() == 5_000_003
        opened.seek(1)
        assert opened.read(8_000_000) == data[1:8_000_001]


def test_a_blob_that_is_not_there_is_said(plane: Plane, tmp_path: Path) -> None:
    missing = "0" * 64
    assert not plane.has_blob(missing)
    with pytest.raises(BlobNotFound):
        plane.open_blob(missing)
    with pytest.raises(BlobNotFound):
        plane.fetch_blob(missing, tmp_path / "below" / "target")
    assert not list(tmp_path.glob("below/*"))


# --- the process -----------------------------------------------------------------------------------------------------------


def test_a_forked_child_is_refused(plane: Plane) -> None:
    plane.jobs()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            plane.jobs()
        except PlaneFromChild:
            os.write(writing, b"refused")
        finally:
            plane.close()
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    assert os.read(reading, 20) == b"refused"
    os.close(reading)
    assert plane.jobs() == []


def test_many_threads_may_ask_at_once(plane: Plane) -> None:
    def submit(at: int) -> None:
        plane.put_blob(b"%d" % at)
        plane.submit(a_command(**WAITS))

    threads = [threading.Thread(target=submit, args=[at]) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(plane.jobs()) == 8


def test_closing_twice_is_harmless(plane: Plane) -> None:
    plane.submit(a_command(**WAITS))
    plane.close()
    plane.close()
