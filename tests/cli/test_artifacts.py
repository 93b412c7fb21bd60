"""``gpulayer artifacts`` on a real home."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gpulayer.control.store import files
from gpulayer.control.store.store import open_store
from gpulayer.spec.files import FileEntry, Manifest
from gpulayer.spec.records import JobRecord
from tests.cli.conftest import Cli
from tests.cli.played import PlayedWorker, submit

Told = Callable[..., Any]
FILES = {"metrics.csv": b"a,b\n1,2\n", "ckpt/last.ckpt": b"\x00\xff", "ckpt/best.ckpt": b"best"}


@pytest.fixture
def job(worker: PlayedWorker) -> JobRecord:
    """A job that left ``FILES``."""
    job = submit(worker)
    worker.begin(job)
    worker.leave_files(job, FILES)
    worker.end(job)
    return job


def test_files_are_listed_below_their_node(job: JobRecord, cli: Cli, told: Told) -> None:
    listed = {each["path"]: each["size"] for each in told("artifacts", "ls", job.id)}
    assert listed == {f"node0/{path}": len(data) for path, data in FILES.items()}
    assert set(cli("artifacts", "ls", "-q", job.id).stdout.split()) == set(listed)
    assert "8 B" in cli("artifacts", "ls", job.id).stdout


def test_get_writes_all_files(job: JobRecord, cli: Cli, tmp_path: Path) -> None:
    printed = cli("artifacts", "get", job.id, "-o", str(tmp_path / "out")).stdout.split()
    assert {Path(path).relative_to(tmp_path / "out/node0").as_posix(): Path(path).read_bytes() for path in printed} == FILES


@pytest.mark.parametrize(
    ("path", "names"), [("node0/ckpt", {"last.ckpt", "best.ckpt"}), ("node0/metrics.csv", {"metrics.csv"})]
)
def test_get_takes_a_folder_or_a_file(job: JobRecord, cli: Cli, tmp_path: Path, path: str, names: set[str]) -> None:
    cli("artifacts", "get", job.id, path, "-o", str(tmp_path / "out"))
    assert {found.name for found in (tmp_path / "out").rglob("*") if found.is_file()} == names


def test_get_writes_beside_you_unless_told_otherwise(
    job: JobRecord, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cli("artifacts", "get", job.id)
    assert (tmp_path / job.id / "node0/metrics.csv").read_bytes() == FILES["metrics.csv"]


def test_cat_writes_the_bytes(job: JobRecord, cli: Cli) -> None:
    assert cli("artifacts", "cat", job.id, "node0/ckpt/last.ckpt").stdout_bytes == b"\x00\xff"


@pytest.mark.parametrize("verb", ["get", "cat"])
def test_a_path_that_is_not_there_is_wrong_use(job: JobRecord, cli: Cli, verb: str) -> None:
    assert "gpulayer artifacts ls" in cli("artifacts", verb, job.id, "node0/none", exits=2).stderr


def left_directly(worker: PlayedWorker, home: Path, entry: FileEntry) -> JobRecord:
    """Make a job with a file of which the server took a worker's word unread."""
    job = submit(worker)
    worker.begin(job)
    with closing(open_store(home)) as store, store.write() as db:
        files.keep_manifest(db, Manifest(job_id=job.id, attempt=1, node_rank=0, entries=(entry,), final=True))
    return job


@pytest.mark.parametrize("name", ["../../evil", "/evil", "deep/../../../evil"])
def test_get_refuses_a_name_that_leaves_its_folder(
    worker: PlayedWorker, home: Path, cli: Cli, tmp_path: Path, name: str
) -> None:
    job = left_directly(worker, home, FileEntry(path=name, blob=worker.plane.put_blob(b"evil")))

    assert name in cli("artifacts", "get", job.id, "-o", str(tmp_path / "down/out"), exits=1).stderr

    assert not list(tmp_path.rglob("*evil*"))


def test_get_gives_no_file_special_bits(worker: PlayedWorker, home: Path, cli: Cli, tmp_path: Path) -> None:
    job = left_directly(worker, home, FileEntry(path="tool", blob=worker.plane.put_blob(b"#!"), mode=0o107755))

    cli("artifacts", "get", job.id, "-o", str(tmp_path / "out"))

    assert (tmp_path / "out/node0/tool").stat().st_mode & 0o7777 == 0o755
