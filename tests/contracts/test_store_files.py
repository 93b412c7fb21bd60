"""What every store promises of outputs, checkpoints and blobs."""

from __future__ import annotations

from collections.abc import Iterable

from gpulayer.control.store import blobs, files, jobs
from gpulayer.control.store.store import Store
from gpulayer.spec.files import CheckpointShare, FileEntry, Manifest
from gpulayer.spec.records import JobRecord
from gpulayer.spec.states import JobState
from tests.control.given import a_blob, a_gang, a_record, a_share, a_task


def a_running_gang(store: Store, **spec: object) -> JobRecord:
    record = a_record(spec=a_gang(**spec))  # type: ignore[arg-type]
    with store.write() as db:
        queued = jobs.add(db, record, ())
        tasks = tuple(a_task(record, node, f"wkr-{node}") for node in (0, 1))
        return jobs.save(db, queued, queued.model_copy(update={"state": JobState.RUNNING, "attempt": 1, "tasks": tasks}), ())


def keep(store: Store, shares: Iterable[CheckpointShare]) -> None:
    with store.write() as db:
        for share in shares:
            for entry in share.entries:
                blobs.keep(db, entry.blob, 1.0)


def announce(store: Store, share: CheckpointShare, now: float = 1.0) -> object:
    with store.write() as db:
        return files.announce(db, share, now)


def complete(store: Store, job_id: str) -> list[tuple[str, int, bool]]:
    with store.read() as db:
        return [(each.path, each.serial, each.removed) for each in files.complete(db, job_id)]


def test_a_later_manifest_replaces_an_earlier_one_and_never_the_other_way(store: Store) -> None:
    def manifest(name: str, **fields: object) -> Manifest:
        entries = (FileEntry(path=name, blob=a_blob(name)),)
        return Manifest(job_id="job-1", attempt=1, node_rank=1, entries=entries, **fields)

    with store.write() as db:
        assert files.keep_manifest(db, manifest("first", call=0))
        assert files.keep_manifest(db, manifest("second", call=1))
        assert not files.keep_manifest(db, manifest("first", call=0))
        assert [each.path for each in files.of_attempt(db, "job-1", 1)] == ["node1/second"]
        assert files.keep_manifest(db, manifest("last", final=True))
        assert not files.keep_manifest(db, manifest("third", call=2))
        assert files.keep_manifest(db, manifest("last", final=True))
        assert [each.path for each in files.of_attempt(db, "job-1", 1)] == ["node1/last"]
        assert files.of_attempt(db, "job-1", 2) == []


def test_a_checkpoint_is_shown_when_every_rank_announced_it_and_all_its_files_are_stored(store: Store) -> None:
    job = a_running_gang(store)
    shares = [a_share(job.id, rank) for rank in (0, 1)]
    keep(store, shares[:1])
    assert announce(store, shares[0], 5.0) is None
    assert announce(store, shares[1], 6.0) is None
    assert complete(store, job.id) == []
    keep(store, shares[1:])
    assert announce(store, shares[1], 7.0) is None
    with store.read() as db:
        [whole] = files.complete(db, job.id)
    assert (whole.created_at, len(whole.entries)) == (6.0, 2)


def test_the_share_that_makes_a_checkpoint_whole_is_told_once(store: Store) -> None:
    job = a_running_gang(store)
    shares = [a_share(job.id, rank) for rank in (0, 1)]
    keep(store, shares)
    assert announce(store, shares[0]) is None
    assert announce(store, shares[1]) is not None
    assert announce(store, shares[1]) is None


def test_a_rewritten_path_is_another_checkpoint_and_an_older_save_can_be_removed(store: Store) -> None:
    job = a_running_gang(store)
    for serial in (1, 2):
        shares = [a_share(job.id, rank, serial=serial) for rank in (0, 1)]
        keep(store, shares)
        for share in shares:
            announce(store, share, float(serial))
    assert complete(store, job.id) == [("last.ckpt", 1, False), ("last.ckpt", 2, False)]
    announce(store, a_share(job.id, 0, serial=1, removed=True, entries=()))
    assert complete(store, job.id) == [("last.ckpt", 1, True), ("last.ckpt", 2, False)]


def test_ranks_that_wrote_nothing_count(store: Store) -> None:
    job = a_running_gang(store)
    shares = [a_share(job.id, 0), a_share(job.id, 1, entries=())]
    keep(store, shares)
    announce(store, shares[0])
    assert announce(store, shares[1]) is not None


def test_shares_of_another_attempt_are_another_checkpoint(store: Store) -> None:
    job = a_running_gang(store)
    shares = [a_share(job.id, 0), a_share(job.id, 1, attempt=2)]
    keep(store, shares)
    for share in shares:
        announce(store, share)
    assert complete(store, job.id) == []


def test_only_blobs_that_nothing_refers_to_are_collected(store: Store) -> None:
    source, output, loose = a_blob("source"), a_blob("output"), a_blob("loose")
    job = a_running_gang(store, source=source.sha256)
    manifest = Manifest(job_id=job.id, attempt=1, node_rank=0, entries=(FileEntry(path="a", blob=output),))
    with store.write() as db:
        for blob in (source, output, loose):
            blobs.keep(db, blob, 5.0)
        files.keep_manifest(db, manifest)
        assert blobs.of_job(db, job.id) == {source.sha256, output.sha256}
        assert blobs.unreferenced(db, 6.0, 6.0, set()) == [loose.sha256]
        assert blobs.unreferenced(db, 4.0, 6.0, set()) == []
        assert blobs.unreferenced(db, 4.0, 6.0, {loose.sha256, source.sha256}) == [loose.sha256]
        assert not blobs.condemn(db, loose.sha256, 6.0, untouched_since=5.0, given_up_since=0.0)
        assert blobs.condemn(db, loose.sha256, 6.0, untouched_since=5.1, given_up_since=0.0)


def test_a_condemned_blob_is_not_counted_on_and_its_deletion_can_be_taken_over(store: Store) -> None:
    blob = a_blob("going")

    def condemn(now: float, given_up_since: float = 0.0) -> bool:
        return blobs.condemn(db, blob.sha256, now, untouched_since=5.1, given_up_since=given_up_since)

    with store.write() as db:
        blobs.keep(db, blob, 5.0)
        assert condemn(6.0)
        assert blobs.touched_at(db, blob.sha256) is None
        assert not blobs.touch(db, blob.sha256, 7.0)
        assert not blobs.keep(db, blob, 7.0)
        assert blobs.unreferenced(db, 9.0, 9.0, set()) == []
        assert not condemn(8.0)
        assert blobs.half_deleted(db, 7.0) == [blob.sha256]
        assert condemn(8.0, given_up_since=7.0)
        blobs.forget_condemned(db, blob.sha256, 6.0)
        assert blobs.condemned_at(db, blob.sha256) == 8.0
        blobs.forget_condemned(db, blob.sha256, 8.0)
        assert blobs.keep(db, blob, 9.0)
        assert blobs.touched_at(db, blob.sha256) == 9.0


def test_a_large_file_and_an_exact_time_are_kept(store: Store) -> None:
    large, moment = a_blob("large").model_copy(update={"size": 5 * 1024**4}), 1764459512.123456
    entry = FileEntry(path="a", blob=large, mtime=moment)
    with store.write() as db:
        blobs.keep(db, large, moment)
        files.keep_manifest(db, Manifest(job_id="job-1", attempt=1, node_rank=0, entries=(entry,)))
    with store.read() as db:
        [found] = files.of_attempt(db, "job-1", 1)
        assert (found.blob, found.mtime, blobs.touched_at(db, large.sha256)) == (large, moment, moment)


def test_files_of_a_deleted_checkpoint_are_collected_but_never_the_newest(store: Store) -> None:
    job = a_running_gang(store)
    for serial, path in ((1, "a.ckpt"), (2, "b.ckpt")):
        shares = [a_share(job.id, rank, path=path, serial=serial) for rank in (0, 1)]
        keep(store, shares)
        for share in shares:
            announce(store, share, float(serial))
        announce(store, a_share(job.id, 0, path=path, serial=serial, removed=True, entries=()))
    with store.read() as db:
        gone = blobs.unreferenced(db, 0.0, 10.0, set())
    assert set(gone) == {a_blob(f"a.ckpt-1-{rank}").sha256 for rank in (0, 1)}
