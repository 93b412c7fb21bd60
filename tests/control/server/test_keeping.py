"""Blobs are collected only when nobody can count on them any more."""

from __future__ import annotations

import time
from pathlib import Path

from gpulayer.artifacts.store import BlobStore
from gpulayer.control.server.app import EmbeddedPlane
from gpulayer.control.server.keeping import RELEASED_S, UNTOUCHED_S, Keeper
from tests.control.given import a_command


def a_keeper(plane: EmbeddedPlane, home: Path) -> Keeper:
    return Keeper(plane._store, BlobStore((home / "blobs").as_uri()))


def test_a_blob_without_reference_goes_after_a_day_and_not_before(plane: EmbeddedPlane, home: Path) -> None:
    keeper = a_keeper(plane, home)
    loose, used = keeper.put(b"loose"), keeper.put(b"used")
    plane.submit(a_command(source=used.sha256, on_unschedulable="queue"))
    keeper.collect(time.time() + UNTOUCHED_S - 60)
    assert keeper.has(loose.sha256)
    keeper.collect(time.time() + UNTOUCHED_S + 60)
    assert not keeper.has(loose.sha256)
    assert not (home / "blobs" / loose.sha256[:2] / loose.sha256).exists()
    assert keeper.has(used.sha256)
    assert keeper.put(b"loose") == loose
    assert keeper.has(loose.sha256)


def test_the_blobs_of_a_removed_job_go_soon_unless_another_job_has_them(plane: EmbeddedPlane, home: Path) -> None:
    keeper = a_keeper(plane, home)
    own, shared = keeper.put(b"own"), keeper.put(b"shared")
    removed = plane.submit(a_command(source=own.sha256, left_out=shared.sha256, on_unschedulable="queue"))
    plane.submit(a_command(source=shared.sha256, on_unschedulable="queue"))
    plane.cancel(removed.id)
    plane.remove(removed.id)
    assert keeper.has(own.sha256)
    keeper.collect(time.time() + RELEASED_S + 60, released=[own.sha256, shared.sha256])
    assert not keeper.has(own.sha256)
    assert keeper.has(shared.sha256)


def test_a_file_that_someone_deleted_is_not_there_whatever_the_row_says(plane: EmbeddedPlane, home: Path) -> None:
    keeper = a_keeper(plane, home)
    blob = keeper.put(b"x")
    (home / "blobs" / blob.sha256[:2] / blob.sha256).unlink()
    assert not keeper.has(blob.sha256)


def test_one_process_collects_at_a_time(plane: EmbeddedPlane, home: Path) -> None:
    keeper = a_keeper(plane, home)
    keeper.collect_in_turn(time.time())
    blob = keeper.put(b"x")
    keeper.collect_in_turn(time.time() + 1)
    assert keeper.has(blob.sha256)
