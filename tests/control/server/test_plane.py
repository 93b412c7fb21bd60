"""The embedded plane from a caller's and a worker's side, with no process but this."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulayer import plane as front
from gpulayer.control.server.app import EmbeddedPlane
from gpulayer.errors import BlobNotFound, InvalidJob, JobNotFound, StaleReport, Unschedulable, WorkerNotFound
from gpulayer.spec.calls import Arrival, Fingerprint, Go
from gpulayer.spec.files import FileEntry, Manifest
from gpulayer.spec.job import Calls
from gpulayer.spec.news import Cursor
from gpulayer.spec.records import JobRecord, Order
from gpulayer.spec.reports import (
    CheckpointAnnounced,
    OutputsIndexed,
    RankArrived,
    RankProgress,
    TaskEnded,
    TaskReady,
    TaskRunning,
)
from gpulayer.spec.states import JobState, Reason, TaskState
from gpulayer.spec.workers import WorkerInfo
from tests.control.given import a_command, a_gang, a_share, a_worker, some_lines


def a_local_worker(plane: EmbeddedPlane, name: str = "one") -> WorkerInfo:
    info = a_worker(name, owner=plane.process_id, process=plane.process_id)
    plane.register(info)
    return info


def about(order: Order, worker: WorkerInfo) -> dict[str, object]:
    return {
        "worker_id": worker.id,
        "incarnation": worker.incarnation,
        "job_id": order.job_id,
        "attempt": order.attempt,
        "node_rank": order.node_rank,
    }


def end_well(plane: EmbeddedPlane, job: JobRecord, worker: WorkerInfo) -> None:
    [order] = [each for each in plane.orders(worker.id).orders if each.job_id == job.id]
    plane.report(TaskReady(**about(order, worker)))
    plane.report(TaskRunning(**about(order, worker)))
    ended = {"state": TaskState.SUCCEEDED, "reason": Reason.DONE, "exit_code": 0}
    plane.report(TaskEnded(**about(order, worker), **ended))


def test_it_is_the_plane_that_open_gives(home: Path) -> None:
    opened: front.Plane = front.open(home, process="cli")
    assert opened.process_id.startswith("prc-")
    assert opened.jobs() == []
    opened.close()
    opened.close()


def test_a_job_is_placed_as_it_is_submitted_and_runs_to_its_end(plane: EmbeddedPlane) -> None:
    worker = a_local_worker(plane)
    job = plane.submit(a_command(name="hello"))
    assert (job.state, job.owner) == (JobState.RUNNING, plane.process_id)
    end_well(plane, job, worker)
    news = plane.news(job.id, Cursor())
    assert news.job.state is JobState.SUCCEEDED
    assert [event.kind for event in news.events][:2] == ["submitted", "placed"]
    assert news.events[-1].kind == "ended"
    assert plane.orders(worker.id).orders == ()
    assert plane.workers()[0].busy == ()


def test_the_same_key_is_the_same_job(plane: EmbeddedPlane) -> None:
    a_local_worker(plane)
    assert plane.submit(a_command(), key="k").id == plane.submit(a_command(), key="k").id
    assert len(plane.jobs()) == 1


def test_a_job_that_could_never_run_is_refused_with_reasons_and_recorded(plane: EmbeddedPlane) -> None:
    worker = a_local_worker(plane)
    spec = a_command(resources={"accelerator": "cuda", "gpu_count": 2})
    for _ in range(2):
        with pytest.raises(Unschedulable, match=f"{worker.id}.*cuda") as raised:
            plane.submit(spec, key="k")
    [recorded] = plane.jobs()
    assert (recorded.state, recorded.reason) == (JobState.FAILED, Reason.UNSCHEDULABLE)
    assert raised.value.facts["job_id"] == recorded.id
    assert plane.explain_spec(spec).verdicts


def test_a_job_that_must_wait_says_for_what_and_is_placed_when_the_worker_is_free(plane: EmbeddedPlane) -> None:
    worker = a_local_worker(plane)
    first, second = plane.submit(a_command()), plane.submit(a_command())
    assert second.state is JobState.QUEUED
    assert any("busy" in sentence for sentence in second.why)
    assert plane.explain(second.id).job_id == second.id
    end_well(plane, first, worker)
    assert plane.job(second.id).state is JobState.RUNNING


def test_a_job_that_may_queue_waits_for_a_worker_to_come(plane: EmbeddedPlane) -> None:
    job = plane.submit(a_command(on_unschedulable="queue"))
    assert job.state is JobState.QUEUED
    a_local_worker(plane)
    assert plane.job(job.id).state is JobState.RUNNING


def test_orders_have_the_version_of_their_content(plane: EmbeddedPlane) -> None:
    worker = a_local_worker(plane)
    none = plane.orders(worker.id)
    assert none.version != 0
    assert plane.orders(worker.id, seen=none.version, timeout_s=0.01) == none
    job = plane.submit(a_command())
    given = plane.orders(worker.id, seen=none.version, timeout_s=60.0)
    assert [order.job_id for order in given.orders] == [job.id]
    plane.drain(worker.name)
    assert plane.orders(worker.id, seen=given.version, timeout_s=60.0).draining


def test_news_waits_for_more_than_the_cursor_has_seen(plane: EmbeddedPlane) -> None:
    worker = a_local_worker(plane)
    job = plane.submit(a_command())
    [order] = plane.orders(worker.id).orders
    seen = plane.news(job.id, Cursor()).cursor
    nothing = plane.news(job.id, seen, timeout_s=0.01)
    assert (nothing.events, nothing.lines, nothing.cursor) == ((), (), seen)
    plane.append_lines(job.id, some_lines(job.id, ["hello"]))
    assert plane.news(job.id, seen, lines=False).cursor == seen
    news = plane.news(job.id, seen, timeout_s=60.0)
    assert [line.text for line in news.lines] == ["hello"]
    progress = {"call": 0, "at": 1.0, "step": 3}
    plane.report(RankProgress(**about(order, worker), progress=progress))
    news = plane.news(job.id, news.cursor, timeout_s=60.0)
    assert news.job.progress is not None
    assert (news.job.progress.step, news.lines) == (3, ())


def test_lines_are_stored_once_and_read_by_rank_and_tail(plane: EmbeddedPlane) -> None:
    job = plane.submit(a_command(on_unschedulable="queue"))
    for _ in range(2):
        plane.append_lines(job.id, some_lines(job.id, ["a", "b", "c"]))
        plane.append_lines(job.id, some_lines(job.id, ["x", "y"], rank=1))
    assert [line.text for line in plane.lines(job.id)] == ["a", "b", "c", "x", "y"]
    assert [line.text for line in plane.lines(job.id, rank=1)] == ["x", "y"]
    assert [line.text for line in plane.lines(job.id, tail=3)] == ["c", "x", "y"]
    assert [line.text for line in plane.lines(job.id, rank=0, tail=2)] == ["b", "c"]
    assert plane.log_marks(job.id, 1, 0) == {"0/stdout": 2, "1/stdout": 1}
    with pytest.raises(JobNotFound):
        plane.append_lines("job-none", some_lines("job-none", ["a"]))


def test_cancelling_asks_first_and_can_kill(plane: EmbeddedPlane) -> None:
    worker = a_local_worker(plane)
    running, queued = plane.submit(a_command(grace_s=7)), plane.submit(a_command())
    assert plane.cancel(queued.id).state is JobState.CANCELLED
    plane.cancel(running.id)
    [order] = plane.orders(worker.id).orders
    assert order.stop is not None
    assert (order.stop.reason, order.stop.grace_s, order.stop.kill) == (Reason.CANCELLED_BY_USER, 7, False)
    plane.cancel(running.id, kill=True)
    [order] = plane.orders(worker.id).orders
    assert order.stop is not None
    assert order.stop.kill
    assert plane.cancel(queued.id).state is JobState.CANCELLED


def test_a_call_begins_when_go_and_ranks_agree(plane: EmbeddedPlane) -> None:
    worker = a_local_worker(plane)
    job = plane.submit(a_command(calls=Calls(root="/r", cwd="/r")))
    [order] = plane.orders(worker.id).orders
    plane.report(TaskReady(**about(order, worker)))
    plane.report(TaskRunning(**about(order, worker)))
    mark = Fingerprint(call=0, function="fit", trainer=0, module="m:M", shapes="s")
    assert not plane.go(job.id, Go(fingerprint=mark, state_digest="mine")).begun
    arrival = Arrival(rank=0, call=0, fingerprint=mark, state_digest="its own", at=1.0)
    plane.report(RankArrived(**about(order, worker), arrival=arrival))
    [view] = plane.job(job.id).calls
    assert (view.needs_state, view.begun) == (True, False)
    plane.send_state(job.id, 0, plane.put_blob(b"tensors"))
    [view] = plane.job(job.id).calls
    assert view.begun
    plane.farewell(job.id)
    assert plane.orders(worker.id).orders[0].caller_ended


def test_outputs_and_checkpoints_are_found_under_the_job(plane: EmbeddedPlane) -> None:
    worker = a_local_worker(plane)
    job = plane.submit(a_command())
    [order] = plane.orders(worker.id).orders
    blob = plane.put_blob(b"weights")
    share = a_share(job.id, 0, entries=(FileEntry(path="last.ckpt", blob=blob),), epoch=1)
    plane.report(CheckpointAnnounced(**about(order, worker), share=share))
    manifest = Manifest(job_id=job.id, attempt=1, node_rank=0, entries=(FileEntry(path="a/b", blob=blob),), final=True)
    plane.report(OutputsIndexed(**about(order, worker), manifest=manifest))
    assert [each.path for each in plane.artifacts(job.id)] == ["node0/a/b"]
    assert [(each.path, each.epoch) for each in plane.checkpoints(job.id)] == [("last.ckpt", 1)]
    told = plane.news(job.id, Cursor()).events[-1]
    assert (told.kind, told.facts["path"]) == ("checkpoint", "last.ckpt")


def test_blobs_go_in_and_out(plane: EmbeddedPlane, tmp_path: Path) -> None:
    blob = plane.put_blob(b"hello")
    assert plane.put_blob(b"hello") == blob
    assert plane.has_blob(blob.sha256)
    assert not plane.has_blob("0" * 64)
    with plane.open_blob(blob.sha256) as opened:
        assert opened.read() == b"hello"
    plane.fetch_blob(blob.sha256, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"hello"
    with pytest.raises(BlobNotFound):
        plane.open_blob("0" * 64)


def test_an_ended_job_can_be_forgotten_with_its_folders(plane: EmbeddedPlane, home: Path) -> None:
    job = plane.submit(a_command(on_unschedulable="queue"))
    with pytest.raises(InvalidJob, match="cancel"):
        plane.remove(job.id)
    plane.cancel(job.id)
    folder = home / "work" / f"{job.id}.1.0"
    folder.mkdir(parents=True)
    (folder / "link").symlink_to(home)
    plane.remove(job.id)
    assert not folder.exists()
    assert (home / "plane.db").exists()
    with pytest.raises(JobNotFound):
        plane.job(job.id)


def test_a_removed_worker_is_fenced_and_its_tasks_are_lost(plane: EmbeddedPlane) -> None:
    worker = a_local_worker(plane)
    job = plane.submit(a_command())
    [order] = plane.orders(worker.id).orders
    plane.remove_worker(worker.id)
    told = plane.orders(worker.id)
    assert (told.fenced, told.removed) == (True, True)
    ended = plane.job(job.id)
    assert (ended.state, ended.reason) == (JobState.LOST, Reason.WORKER_LOST)
    assert "was removed by an admin" in ended.sentence
    with pytest.raises(StaleReport):
        plane.report(TaskRunning(**about(order, worker)))
    with pytest.raises(WorkerNotFound):
        plane.drain(worker.id)


def test_the_report_of_an_older_incarnation_is_stale(plane: EmbeddedPlane) -> None:
    worker = a_local_worker(plane)
    plane.submit(a_command())
    [order] = plane.orders(worker.id).orders
    plane.register(worker.model_copy(update={"incarnation": "second"}))
    with pytest.raises(StaleReport):
        plane.report(TaskRunning(**about(order, worker)))


def test_a_gang_is_placed_in_one_step_or_not_at_all(plane: EmbeddedPlane) -> None:
    one = a_local_worker(plane)
    job = plane.submit(a_gang(on_unschedulable="queue"))
    assert job.state is JobState.QUEUED
    two = a_local_worker(plane, "two")
    assert [task.worker_id for task in plane.job(job.id).tasks] == [one.id, two.id]
    orders = [plane.orders(worker.id).orders[0] for worker in (one, two)]
    assert [(order.node_rank, order.num_workers) for order in orders] == [(0, 2), (1, 2)]


def test_a_queue_timeout_is_kept_by_whoever_waits(plane: EmbeddedPlane) -> None:
    job = plane.submit(a_command(on_unschedulable="queue", queue_timeout_s=0.05))
    news = plane.news(job.id, Cursor())
    while not news.job.state.terminal:
        news = plane.news(job.id, news.cursor, timeout_s=60.0)
    assert (news.job.state, news.job.reason) == (JobState.TIMED_OUT, Reason.QUEUE_TIMEOUT)
