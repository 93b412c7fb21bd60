"""gpulayer://: the files of jobs through fsspec, over a real plane in a home."""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.tests.abstract import AbstractFixtures, AbstractGetTests

from gpulayer import plane
from gpulayer.client.filesystem import GPULayerFileSystem
from gpulayer.control.store import files
from gpulayer.control.store.store import open_store
from gpulayer.errors import ArtifactNotFound, InvalidJob, UnsafePath
from gpulayer.plane import Plane
from gpulayer.spec.files import CheckpointShare, FileEntry, Manifest
from gpulayer.spec.reports import CheckpointAnnounced, OutputsIndexed, TaskEnded
from gpulayer.spec.states import Reason, TaskState
from tests.control.given import a_gang, a_worker


class Job:
    """A running job in a real home, whose reports the test makes up."""

    def __init__(self, at: Plane) -> None:
        self.plane = at
        for name in ("one", "two"):
            at.register(a_worker(name, owner=at.process_id, process=at.process_id))
        self.id = at.submit(a_gang()).id
        self.files: dict[str, bytes] = {}

    def entry(self, path: str, data: bytes) -> FileEntry:
        return FileEntry(path=path, blob=self.plane.put_blob(data), mtime=1_000_000.0)

    def task(self, node_rank: int) -> dict[str, Any]:
        (task,) = [each for each in self.plane.job(self.id).tasks if each.node_rank == node_rank]
        return {"worker_id": task.worker_id, "job_id": self.id, "attempt": 1, "node_rank": node_rank}

    def leave(self, files: dict[str, bytes], node_rank: int = 0) -> None:
        entries = tuple(self.entry(path, data) for path, data in files.items())
        manifest = Manifest(job_id=self.id, attempt=1, node_rank=node_rank, entries=entries, final=True)
        self.plane.report(OutputsIndexed(**self.task(node_rank), manifest=manifest))

    def announce(self, path: str, serial: int, files: dict[int, dict[str, bytes]], **fields: Any) -> None:
        for rank in (0, 1):
            entries = tuple(self.entry(name, data) for name, data in files.get(rank, {}).items())
            share = CheckpointShare(job_id=self.id, attempt=1, rank=rank, path=path, serial=serial, entries=entries, **fields)
            self.plane.report(CheckpointAnnounced(**self.task(rank), share=share))


@pytest.fixture
def job(home: Path) -> Iterator[Job]:
    with_plane = plane.open(home)
    yield Job(with_plane)
    GPULayerFileSystem.close_all()
    GPULayerFileSystem.clear_instance_cache()
    with_plane.close()


@pytest.fixture
def fs(job: Job) -> GPULayerFileSystem:
    return GPULayerFileSystem()


def test_the_protocol_is_known_to_fsspec() -> None:
    assert fsspec.get_filesystem_class("gpulayer") is GPULayerFileSystem


def test_files_are_listed_by_job_and_node(job: Job, fs: GPULayerFileSystem) -> None:
    job.leave({"metrics.csv": b"step,loss\n1,0.5\n", "logs/a.txt": b"a"})
    job.leave({"logs/b.txt": b"bb"}, node_rank=1)
    assert fs.ls("gpulayer://", detail=False) == [job.id]
    assert fs.ls(f"gpulayer://{job.id}/", detail=False) == [f"{job.id}/node0", f"{job.id}/node1"]
    assert fs.ls(f"{job.id}/node0", detail=False) == [f"{job.id}/node0/logs", f"{job.id}/node0/metrics.csv"]
    assert fs.isdir(f"gpulayer://{job.id}/node1/logs")
    assert fs.info(f"gpulayer://{job.id}/node1/logs/b.txt")["size"] == 2
    assert fs.glob(f"gpulayer://{job.id}/**/*.txt") == [f"{job.id}/node0/logs/a.txt", f"{job.id}/node1/logs/b.txt"]
    assert fs.du(f"gpulayer://{job.id}") == 19
    assert [names for _, _, names in fs.walk(f"{job.id}/node0")] == [["metrics.csv"], ["a.txt"]]
    assert fs.modified(f"{job.id}/node0/metrics.csv").timestamp() == 1_000_000.0


def test_a_name_that_leaves_its_folder_is_not_written(home: Path, job: Job, fs: GPULayerFileSystem, tmp_path: Path) -> None:
    entry = job.entry("../../evil", b"evil")
    with closing(open_store(home)) as store, store.write() as db:
        files.keep_manifest(db, Manifest(job_id=job.id, attempt=1, node_rank=0, entries=(entry,), final=True))
    with pytest.raises(UnsafePath, match="evil"):
        fs.get_file(f"{job.id}/node0/../../evil", str(tmp_path / "out/node0/../../evil"))
    assert not list(tmp_path.rglob("evil"))


def test_files_are_read_whole_in_parts_and_by_prefix_of_the_job(job: Job, fs: GPULayerFileSystem) -> None:
    job.leave({"metrics.csv": b"step,loss\n1,0.5\n"})
    path = f"gpulayer://{job.id[:8]}/node0/metrics.csv"
    assert fs.cat(path) == b"step,loss\n1,0.5\n"
    assert fs.cat_file(path, start=5, end=9) == b"loss"
    assert fs.cat_ranges([path, path], [0, -5], [4, None]) == [b"step", b",0.5\n"]
    assert fs.head(path, 4) == b"step"
    assert fs.tail(path, 4) == b"0.5\n"
    with fsspec.open(path, "rt") as text:
        assert text.read().splitlines() == ["step,loss", "1,0.5"]
    with fs.open(path) as file:
        assert file.seek(-4, 2) == 12
        assert file.read() == b"0.5\n"


def test_what_is_missing_is_a_file_not_found_with_a_next_step(job: Job, fs: GPULayerFileSystem) -> None:
    job.leave({"a": b"a"})
    for path in (f"{job.id}/node0/b", f"{job.id}/node0/a/b", "job-none/node0/a", f"{job.id}/last", f"{job.id}/node7"):
        assert not fs.exists(f"gpulayer://{path}")
        with pytest.raises(FileNotFoundError) as failure:
            fs.open(f"gpulayer://{path}")
        assert isinstance(failure.value, ArtifactNotFound)
        assert failure.value.next_step
        with pytest.raises(FileNotFoundError):
            fs.ls(f"gpulayer://{path}")
    with pytest.raises(IsADirectoryError):
        fs.open(f"gpulayer://{job.id}/node0")


def test_it_is_read_only(job: Job, fs: GPULayerFileSystem, tmp_path: Path) -> None:
    job.leave({"a": b"a"})
    path = f"gpulayer://{job.id}/node0/a"
    writes: list[Callable[[], object]] = [
        lambda: fs.open(path, "wb"),
        lambda: fs.open(path, "ab"),
        lambda: fs.rm(path),
        lambda: fs.mkdir(path + "b"),
        lambda: fs.makedirs(path + "b"),
        lambda: fs.touch(path),
        lambda: fs.pipe(path, b"b"),
        lambda: fs.mv(path, path + "b"),
        lambda: fs.copy(path, path + "b"),
        lambda: fs.put_file(__file__, path),
    ]
    for write in writes:
        with pytest.raises(OSError, match="only read"):
            write()
    assert fs.cat(path) == b"a"


def test_last_and_best_are_the_jobs_complete_checkpoints(job: Job, fs: GPULayerFileSystem) -> None:
    job.announce("checkpoints/a.ckpt", 1, {0: {"checkpoints/a.ckpt": b"a"}}, monitor="loss", score=0.1, mode="min")
    job.announce("checkpoints/b.ckpt", 2, {0: {"checkpoints/b.ckpt": b"bb"}}, monitor="loss", score=0.3, mode="min")
    assert fs.cat(f"gpulayer://{job.id}/last") == b"bb"
    assert fs.cat(f"gpulayer://{job.id}/best") == b"a"
    assert fs.isfile(f"gpulayer://{job.id}/best")
    assert fs.size(f"gpulayer://{job.id}/last") == 2
    assert not any(name.endswith(("/last", "/best")) for name in fs.find(f"gpulayer://{job.id}"))


def test_a_checkpoint_is_read_while_its_job_runs(job: Job, fs: GPULayerFileSystem) -> None:
    job.announce("checkpoints/a.ckpt", 1, {0: {"checkpoints/a.ckpt": b"first"}})
    assert fs.cat(f"gpulayer://{job.id}/node0/checkpoints/a.ckpt") == b"first"
    job.announce("checkpoints/a.ckpt", 2, {0: {"checkpoints/a.ckpt": b"second"}})
    assert fs.cat(f"gpulayer://{job.id}/checkpoints/a.ckpt") == b"second"
    assert fs.cat(f"gpulayer://{job.id}/last") == b"second"
    job.leave({"checkpoints/a.ckpt": b"second"}, node_rank=1)
    assert fs.ls(f"gpulayer://{job.id}", detail=False) == [f"{job.id}/checkpoints", f"{job.id}/node1"]


def test_a_file_of_a_checkpoint_is_not_forgotten_by_itself(job: Job) -> None:
    job.announce("checkpoints/a.ckpt", 1, {0: {"checkpoints/a.ckpt": b"a"}})
    job.leave({"checkpoints/a.ckpt": b"a", "notes.txt": b"n"})
    for node_rank in (0, 1):
        job.plane.report(TaskEnded(**job.task(node_rank), state=TaskState.SUCCEEDED, reason=Reason.DONE))

    with pytest.raises(InvalidJob, match=r"node0/checkpoints/a\.ckpt is the checkpoint checkpoints/a\.ckpt of"):
        job.plane.remove_artifacts(job.id, ["node0/notes.txt", "node0/checkpoints/a.ckpt"])

    assert [each.path for each in job.plane.artifacts(job.id)] == ["node0/checkpoints/a.ckpt", "node0/notes.txt"]


def test_a_checkpoint_of_many_files_is_one_folder(job: Job, fs: GPULayerFileSystem, tmp_path: Path) -> None:
    name = "checkpoints/x.ckpt"
    job.announce(name, 1, {0: {f"{name}/.metadata": b"m", f"{name}/__0_0.distcp": b"0"}, 1: {f"{name}/__1_0.distcp": b"1"}})
    assert fs.isdir(f"gpulayer://{job.id}/last")
    names = [".metadata", "__0_0.distcp", "__1_0.distcp"]
    assert fs.ls(f"gpulayer://{job.id}/last", detail=False) == [f"{job.id}/last/{each}" for each in names]
    assert fs.ls(f"gpulayer://{job.id}/{name}", detail=False) == [f"{job.id}/{name}/{each}" for each in names]
    fs.get(f"gpulayer://{job.id}/last", str(tmp_path / "fetched"), recursive=True)
    assert sorted(path.name for path in (tmp_path / "fetched").iterdir()) == names


def test_a_fetched_file_can_be_changed_without_changing_the_jobs(job: Job, fs: GPULayerFileSystem, tmp_path: Path) -> None:
    job.leave({"a": b"a"})
    fs.get(f"gpulayer://{job.id}/node0/a", str(tmp_path / "copy"))
    with (tmp_path / "copy").open("ab") as file:
        file.write(b"more")
    assert fs.cat(f"gpulayer://{job.id}/node0/a") == b"a"


def test_it_is_pickled_and_shared_by_threads(job: Job, fs: GPULayerFileSystem) -> None:
    job.leave({"a": b"a"})
    path = f"gpulayer://{job.id}/node0/a"
    assert pickle.loads(pickle.dumps(fs)).cat(path) == b"a"
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: fsspec.filesystem("gpulayer").cat(path), range(16))) == [b"a"] * 16
    assert len(GPULayerFileSystem._shared) == 1


def _read_in_child(path: str, answers: Any) -> None:
    try:
        answers.put(fsspec.filesystem("gpulayer").cat(path))
        GPULayerFileSystem.close_all()
    except BaseException as failure:
        answers.put(failure)


def test_a_forked_child_opens_a_plane_of_its_own(job: Job, fs: GPULayerFileSystem) -> None:
    job.leave({"a": b"a"})
    path = f"gpulayer://{job.id}/node0/a"
    assert fs.cat(path) == b"a"
    fork = multiprocessing.get_context("fork")
    answers = fork.SimpleQueue()
    child = fork.Process(target=_read_in_child, args=(path, answers))
    child.start()
    assert answers.get() == b"a"
    child.join()
    assert fs.cat(path) == b"a"


def test_torch_and_lightning_load_from_it(job: Job, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from lightning.pytorch import Trainer
    from lightning.pytorch.demos.boring_classes import BoringModel

    model = BoringModel()
    trainer = Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False, max_epochs=0)
    trainer.strategy.connect(model)
    trainer.save_checkpoint(tmp_path / "x.ckpt")
    job.leave({"x.ckpt": (tmp_path / "x.ckpt").read_bytes()})
    with fsspec.open(f"gpulayer://{job.id}/node0/x.ckpt") as file:
        loaded = torch.load(file, weights_only=True)
    assert torch.equal(loaded["state_dict"]["layer.weight"], model.layer.weight)
    again = BoringModel.load_from_checkpoint(f"gpulayer://{job.id}/node0/x.ckpt", weights_only=True)
    assert torch.equal(again.layer.weight, model.layer.weight)


class WritableForTheSuite(GPULayerFileSystem):
    """Puts fsspec's test files into a job, through the plane; the file system itself only reads."""

    job: Job

    def touch(self, path: str, **_: Any) -> None:  # type: ignore[override]
        self.pipe(path, b"")

    def pipe(self, path: str, value: bytes = b"", **_: Any) -> None:
        self.job.files[self._strip_protocol(path).split("/", 2)[2]] = value
        self.job.leave(self.job.files)

    def mkdir(self, path: str, *_: Any, **__: Any) -> None:  # type: ignore[override]
        """A job's folders are those of its files."""

    makedirs = mkdir  # type: ignore[assignment]

    def rm(self, path: str, *_: Any, **__: Any) -> None:  # type: ignore[override]
        """Every test has a job of its own."""


class TestFsspecsOwnGetSuite(AbstractFixtures, AbstractGetTests):  # type: ignore[misc]
    @pytest.fixture
    def fs(self, job: Job) -> WritableForTheSuite:
        fs = WritableForTheSuite(skip_instance_cache=True)
        fs.job = job
        return fs

    @pytest.fixture
    def fs_path(self, job: Job) -> str:
        return f"{job.id}/node0"

    @pytest.fixture
    def supports_empty_directories(self) -> bool:
        return False
