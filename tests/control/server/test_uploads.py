"""Blobs on their way in: hashed as they grow, kept as they are, and nobody writes to one that is kept."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from gpulayer.artifacts.store import BlobStore
from gpulayer.control.server.app import EmbeddedPlane
from gpulayer.control.server.keeping import Keeper
from gpulayer.control.server.uploads import Part, Upload, Uploads
from gpulayer.errors import BadRequest, PlaneBusy
from gpulayer.spec.files import Blob

DATA = bytes(range(256)) * 40
SHA256 = hashlib.sha256(DATA).hexdigest()
WHOLE = Blob(sha256=SHA256, size=len(DATA))


@pytest.fixture
def keeper(plane: EmbeddedPlane, tmp_path: Path) -> Keeper:
    return Keeper(plane._store, BlobStore(str(tmp_path / "blobs")))


@pytest.fixture
def begin(keeper: Keeper, tmp_path: Path) -> Callable[[int, int], Upload]:
    """Begin to send the bytes of a span."""
    uploads = Uploads(tmp_path / "uploads", keeper)

    def begin(start: int, end: int) -> Upload:
        upload = uploads.begin("tok-1", SHA256, Part(start, end - start, len(DATA)))
        assert isinstance(upload, Upload)
        return upload

    return begin


def send(upload: Upload, data: bytes) -> Blob | int:
    try:
        upload.write(data)
        return upload.finish()
    finally:
        upload.close()


def stored(keeper: Keeper) -> bytes:
    with keeper.open(SHA256) as file:
        return file.read()


def test_parts_in_turn_and_over_each_other_make_the_blob(keeper: Keeper, begin: Callable[[int, int], Upload]) -> None:
    assert send(begin(0, 4000), DATA[:4000]) == 4000
    assert send(begin(5000, 6000), DATA[5000:6000]) == 4000
    assert send(begin(1000, 6000), DATA[1000:6000]) == 6000
    assert send(begin(6000, len(DATA)), DATA[6000:]) == WHOLE
    assert stored(keeper) == DATA


def test_what_is_kept_is_written_to_no_more(keeper: Keeper, begin: Callable[[int, int], Upload], tmp_path: Path) -> None:
    late, other = begin(0, len(DATA)), begin(0, len(DATA))
    late.write(DATA[:100])
    assert send(other, DATA) == WHOLE
    late.write(b"?" * 100)
    assert late.finish() == WHOLE
    late.close()
    assert stored(keeper) == DATA
    assert [path for path in (tmp_path / "uploads").rglob("*") if path.is_file()] == []


def test_bytes_that_were_hashed_are_written_over_by_nobody(keeper: Keeper, begin: Callable[[int, int], Upload]) -> None:
    assert send(begin(0, 4000), DATA[:4000]) == 4000
    assert send(begin(0, 4000), b"?" * 4000) == 4000
    assert send(begin(4000, len(DATA)), DATA[4000:]) == WHOLE
    assert stored(keeper) == DATA


def test_what_another_process_began_is_hashed_as_well(
    keeper: Keeper, begin: Callable[[int, int], Upload], tmp_path: Path
) -> None:
    (tmp_path / "uploads" / "tok-1").mkdir(parents=True)
    (tmp_path / "uploads" / "tok-1" / SHA256).write_bytes(b"?" * 4000)
    with pytest.raises(BadRequest):
        send(begin(4000, len(DATA)), DATA[4000:])
    assert not keeper.has(SHA256)
    assert send(begin(0, len(DATA)), DATA) == WHOLE


def test_two_servers_with_one_folder_do_not_write_to_one_file(keeper: Keeper, tmp_path: Path) -> None:
    part = Part(0, 100, len(DATA))
    first = Uploads(tmp_path / "uploads", keeper).begin("tok-1", SHA256, part)
    with pytest.raises(PlaneBusy):
        Uploads(tmp_path / "uploads", keeper).begin("tok-1", SHA256, part)
    assert isinstance(first, Upload)
    first.close()


def test_a_whole_blob_that_could_not_be_kept_is_there_for_another_try(
    keeper: Keeper, begin: Callable[[int, int], Upload], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(source: Path, blob: Blob) -> None:
        raise PlaneBusy("The artifact store is away.")

    with monkeypatch.context() as patched:
        patched.setattr(keeper, "adopt", away)
        with pytest.raises(PlaneBusy):
            send(begin(0, len(DATA)), DATA)
    assert send(begin(len(DATA) - 1, len(DATA)), DATA[-1:]) == WHOLE
    assert stored(keeper) == DATA


def test_many_that_are_begun_are_not_all_kept_open(keeper: Keeper, tmp_path: Path) -> None:
    uploads = Uploads(tmp_path / "uploads", keeper)
    blobs = [f"blob {number}".encode() * 10 for number in range(40)]

    def part(data: bytes, start: int, end: int) -> Blob | int:
        found = uploads.begin("tok-1", hashlib.sha256(data).hexdigest(), Part(start, end - start, len(data)))
        assert isinstance(found, Upload)
        return send(found, data[start:end])

    assert {part(data, 0, 10) for data in blobs} == {10}
    assert len(uploads._growing) < len(blobs)
    for data in blobs:
        assert part(data, 10, len(data)) == Blob(sha256=hashlib.sha256(data).hexdigest(), size=len(data))
    assert not uploads._growing


def test_folders_that_nobody_needs_are_removed_beside_uploads_that_begin(keeper: Keeper, tmp_path: Path) -> None:
    uploads, over = Uploads(tmp_path / "uploads", keeper), threading.Event()

    def clean() -> None:
        while not over.is_set():
            uploads.forget_abandoned()

    cleaning = threading.Thread(target=clean)
    cleaning.start()
    try:
        for at in range(1000):
            upload = uploads.begin(f"tok-{at}", SHA256, Part(0, len(DATA), len(DATA)))
            assert isinstance(upload, Upload)
            upload.close()
            (tmp_path / "uploads" / f"tok-{at}" / SHA256).unlink()  # as when it has become the blob
    finally:
        over.set()
        cleaning.join()
