"""The artifact store, on a local folder and on a file system in memory."""

from __future__ import annotations

import errno
import hashlib
import os
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from gpulayer.artifacts import copying
from gpulayer.artifacts.store import BlobStore
from gpulayer.errors import BlobNotFound, DiskFull
from gpulayer.spec.files import Blob


@pytest.fixture(params=["file", "plain", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BlobStore]:
    if request.param == "memory":
        yield BlobStore("memory://blobs")
        fsspec.filesystem("memory").rm("/blobs", recursive=True)
    else:
        folder = tmp_path / "my blobs"
        folder.mkdir()
        yield BlobStore(f"file://{folder}" if request.param == "file" else str(folder))


def test_bytes_and_files_come_back_as_they_went(store: BlobStore, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(os.urandom(3_000_000))
    blob = store.put(source)
    assert blob.sha256 == hashlib.sha256(source.read_bytes()).hexdigest()
    assert blob.size == 3_000_000
    assert store.put(source.read_bytes()) == blob
    assert store.has(blob.sha256)
    with store.open(blob.sha256) as reading:
        reading.seek(1_000_000)
        assert reading.read(10) == source.read_bytes()[1_000_000:1_000_010]
    store.fetch(blob.sha256, tmp_path / "new" / "folder" / "copy")
    assert (tmp_path / "new" / "folder" / "copy").read_bytes() == source.read_bytes()


def test_an_empty_file_is_a_blob(store: BlobStore, tmp_path: Path) -> None:
    blob = store.put(b"")
    store.fetch(blob.sha256, tmp_path / "empty")
    assert (tmp_path / "empty").read_bytes() == b""


def test_what_is_missing_is_named(store: BlobStore, tmp_path: Path) -> None:
    store.put(b"something else")
    missing = "0" * 64
    assert not store.has(missing)
    with pytest.raises(BlobNotFound):
        store.open(missing)
    with pytest.raises(BlobNotFound):
        store.fetch(missing, tmp_path / "copy")
    for name in ("../../etc/passwd", "", "A" * 64):
        with pytest.raises(BlobNotFound):
            store.has(name)


def test_deleting_twice_is_fine(store: BlobStore) -> None:
    store.put(b"something else")
    blob = store.put(b"gone soon")
    store.delete(blob.sha256)
    store.delete(blob.sha256)
    assert not store.has(blob.sha256)


def test_writing_to_a_fetched_file_or_to_the_source_leaves_the_blob_alone(store: BlobStore, tmp_path: Path) -> None:
    source, copy = tmp_path / "source", tmp_path / "copy"
    source.write_bytes(b"epoch 1\n")
    blob = store.put(source)
    store.fetch(blob.sha256, copy)
    for path in (source, copy):
        with path.open("ab") as file:
            file.write(b"epoch 2\n")
        assert path.stat().st_nlink == 1
    with store.open(blob.sha256) as reading:
        assert reading.read() == b"epoch 1\n"


def test_a_file_that_is_known_to_be_a_blob_is_stored_as_it_is(store: BlobStore, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"known")
    blob = Blob(sha256=hashlib.sha256(b"known").hexdigest(), size=5)
    store.adopt(source, blob)
    store.adopt(source, blob)
    source.unlink()
    with store.open(blob.sha256) as reading:
        assert reading.read() == b"known"
    store.fetch(blob.sha256, tmp_path / "copy")
    assert (tmp_path / "copy").stat().st_mode & 0o200
    assert not list((tmp_path / "my blobs").glob("parts/*"))


def test_where_no_file_has_two_names_an_adopted_one_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    store, source = BlobStore(str(tmp_path / "blobs")), tmp_path / "source"
    source.write_bytes(b"known")
    blob = Blob(sha256=hashlib.sha256(b"known").hexdigest(), size=5)
    store.adopt(source, blob)
    with store.open(blob.sha256) as reading:
        assert reading.read() == b"known"


def test_a_fetch_replaces_what_was_there(store: BlobStore, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.write_bytes(b"old and longer")
    store.fetch(store.put(b"new").sha256, copy)
    assert copy.read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir() if path.name != "my blobs"] == ["copy"]


def test_a_fetched_file_has_the_users_mode(store: BlobStore, tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        store.fetch(store.put(b"new").sha256, tmp_path / "copy")
    finally:
        os.umask(old)
    assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o640


def test_many_threads_put_and_fetch_the_same_blob(tmp_path: Path) -> None:
    store = BlobStore(str(tmp_path / "blobs"))
    data = os.urandom(500_000)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            blob = store.put(data)
            store.fetch(blob.sha256, tmp_path / f"copy{number % 2}")
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert (tmp_path / "copy0").read_bytes() == data == (tmp_path / "copy1").read_bytes()


def test_a_full_disk_is_named_and_leaves_nothing_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = BlobStore(str(tmp_path / "blobs"))
    blob = store.put(b"x" * 100_000)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(copying, "write_all", full)
    monkeypatch.setattr(copying, "copy_bytes", full)
    with pytest.raises(DiskFull, match="No space"):
        store.put(b"y" * 100_000)
    with pytest.raises(DiskFull, match="No space"):
        store.fetch(blob.sha256, tmp_path / "copy")
    assert list(tmp_path.iterdir()) == [tmp_path / "blobs"]
    assert list((tmp_path / "blobs" / "parts").iterdir()) == []


def test_a_file_that_changes_while_it_is_stored_gives_a_blob_of_what_was_read(tmp_path: Path) -> None:
    store = BlobStore(str(tmp_path / "blobs"))
    source = tmp_path / "growing"
    source.write_bytes(b"x" * 5_000_000)
    done = threading.Event()

    def scribble() -> None:
        with source.open("r+b") as file:
            while not done.is_set():
                file.seek(0)
                file.write(os.urandom(1000))

    thread = threading.Thread(target=scribble)
    thread.start()
    try:
        blobs = [store.put(source) for _ in range(5)]
    finally:
        done.set()
        thread.join()
    for blob in blobs:
        with store.open(blob.sha256) as reading:
            assert hashlib.sha256(reading.read()).hexdigest() == blob.sha256


def test_a_large_file_travels_in_constant_memory(tmp_path: Path) -> None:
    store = BlobStore(str(tmp_path / "blobs"))
    source = tmp_path / "large"
    with source.open("wb") as file:
        file.truncate(300_000_000)
    tracemalloc.start()
    try:
        store.fetch(store.put(source).sha256, tmp_path / "copy")
        assert tracemalloc.get_traced_memory()[1] < 16_000_000
    finally:
        tracemalloc.stop()


def test_what_a_killed_process_left_half_written_goes_after_a_day(tmp_path: Path) -> None:
    parts = tmp_path / "blobs" / "parts"
    parts.mkdir(parents=True)
    (parts / "old").touch()
    (parts / "fresh").touch()
    os.utime(parts / "old", (1, 1))
    BlobStore(str(tmp_path / "blobs")).put(b"x")
    assert [part.name for part in parts.iterdir()] == ["fresh"]
