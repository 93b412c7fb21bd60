"""A job's outputs: what is new or changed in its work folder."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from gpulayer.artifacts import outputs
from gpulayer.artifacts.copying import PART_SUFFIX
from gpulayer.artifacts.store import BlobStore
from gpulayer.spec.files import Blob
from tests.artifacts.given import a_folder


class Kept:
    """A store that counts what it is given."""

    def __init__(self, folder: Path) -> None:
        self._store = BlobStore(str(folder))
        self.given: list[str] = []

    def put(self, path: Path) -> Blob:
        self.given.append(path.name)
        return self._store.put(path)


@pytest.fixture
def store(tmp_path: Path) -> Kept:
    return Kept(tmp_path / "blobs")


def scan_of(work: Path, store: Kept) -> outputs.Scan:
    baseline = work.with_name("work.baseline")
    outputs.take_baseline(work, baseline)
    return outputs.Scan(work, baseline, store.put)


def paths(scan: outputs.Scan) -> list[str]:
    return [entry.path for entry in scan.entries()]


def test_new_and_changed_files_are_outputs_and_the_bundle_is_not(tmp_path: Path, store: Kept) -> None:
    work = a_folder(tmp_path / "work", {"train.py": "x", "config.yaml": "x", "same.txt": "x", "old.txt": "x"})
    scan = scan_of(work, store)
    assert paths(scan) == []
    a_folder(work, {"logs/deep/a.csv": "new", "config.yaml": "changed"})
    os.replace(a_folder(tmp_path / "beside", {"s": "y"}) / "s", work / "same.txt")
    (work / "old.txt").unlink()
    assert scan.changed() == [(name, work / name) for name in ("config.yaml", "logs/deep/a.csv", "same.txt")]
    entry = next(iter(scan.entries()))
    assert (entry.path, entry.blob.size, entry.mode) == ("config.yaml", 7, (work / "config.yaml").stat().st_mode & 0o777)


def test_a_rewrite_of_the_same_length_at_the_same_time_is_seen(tmp_path: Path, store: Kept) -> None:
    work = a_folder(tmp_path / "work", {"a": "x"})
    scan, before = scan_of(work, store), (work / "a").stat()
    deadline = 10_000
    while (work / "a").stat().st_ctime_ns == before.st_ctime_ns and deadline:
        (work / "a").write_text("y")
        os.utime(work / "a", ns=(before.st_atime_ns, before.st_mtime_ns))
        deadline -= 1
    assert paths(scan) == ["a"]


def test_each_state_of_a_file_is_stored_once(tmp_path: Path, store: Kept) -> None:
    work = a_folder(tmp_path / "work", {})
    scan = scan_of(work, store)
    a_folder(work, {"a": "1", "b": "1"})
    assert paths(scan) == paths(scan) == ["a", "b"]
    a_folder(work, {"b": "22"})
    assert paths(scan) == ["a", "b"]
    assert store.given == ["a", "b", "b"]


def test_links_of_ours_and_linked_folders_are_no_outputs(tmp_path: Path, store: Kept) -> None:
    data = a_folder(tmp_path / "data", {"x.csv": "x"})
    work = a_folder(tmp_path / "work", {"train.py": "", "data": f"-> {data}", "one.csv": f"-> {data / 'x.csv'}"})
    scan = scan_of(work, store)
    a_folder(work, {"more": f"-> {data}", "passwd": "-> /etc/passwd", "gone": "-> nothing"})
    (work / "data/new.csv").write_text("through the link")
    (work / "one.csv").write_text("through the link")
    assert paths(scan) == []
    (work / "one.csv").unlink()
    (work / "one.csv").write_text("a file now")
    assert paths(scan) == ["one.csv"]


def test_a_link_that_the_job_made_to_an_output_counts_as_that_file(tmp_path: Path, store: Kept) -> None:
    work = a_folder(tmp_path / "work", {})
    scan = scan_of(work, store)
    a_folder(work, {"checkpoints/epoch=1.ckpt": "weights", "checkpoints/last.ckpt": "-> epoch=1.ckpt"})
    found = {entry.path: entry for entry in scan.entries()}
    assert found["checkpoints/last.ckpt"].blob == found["checkpoints/epoch=1.ckpt"].blob
    assert [stat.S_ISLNK(found[f"checkpoints/{name}.ckpt"].mode) for name in ("last", "epoch=1")] == [True, False]


def test_bytecode_sockets_pipes_and_half_files_are_passed_over(tmp_path: Path, store: Kept) -> None:
    work = a_folder(tmp_path / "work", {})
    scan = scan_of(work, store)
    a_folder(work, {"__pycache__/a.pyc": "", "pkg/__pycache__/b.pyc": "", f".x{PART_SUFFIX}": "", "result": ""})
    os.mkfifo(work / "pipe")
    listening = socket.socket(socket.AF_UNIX)
    folder = os.open(work, os.O_RDONLY)
    listening.bind(f"/proc/self/fd/{folder}/sock")
    os.close(folder)
    assert paths(scan) == ["result"]
    listening.close()


def test_a_file_that_vanishes_during_the_scan_is_none(tmp_path: Path, store: Kept) -> None:
    work = a_folder(tmp_path / "work", {})
    scan = scan_of(work, store)
    a_folder(work, {"a": "", "b.tmp": "", "c": ""})
    entries = scan.entries()
    next(entries)
    (work / "b.tmp").unlink()
    assert [entry.path for entry in entries] == ["c"]


def test_what_cannot_be_taken_is_told(tmp_path: Path, store: Kept) -> None:
    work = a_folder(tmp_path / "work", {})
    scan = scan_of(work, store)
    (work / os.fsdecode(b"bad\xff")).touch()
    assert paths(scan) == []
    assert list(scan.passed_over) == ["bad\\xff"]


def test_growing_a_stored_output_leaves_its_blob_alone(tmp_path: Path, store: Kept) -> None:
    work = a_folder(tmp_path / "work", {})
    scan = scan_of(work, store)
    a_folder(work, {"metrics.csv": "1\n"})
    (first,) = scan.entries()
    with (work / "metrics.csv").open("a") as file:
        file.write("2\n")
    (second,) = scan.entries()
    with BlobStore(str(tmp_path / "blobs")).open(first.blob.sha256) as kept:
        assert kept.read() == b"1\n"
    assert second.blob.size == 4
