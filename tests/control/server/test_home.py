"""Which homes can't be used, and what is said of them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gpulayer.control.server import home
from gpulayer.control.server.app import EmbeddedPlane, open_home
from gpulayer.errors import DiskFull, HomeOnNetworkFilesystem, HomeTooNew, HomeUnwritable
from gpulayer.spec.states import JobState
from tests.control.given import a_command
from tests.control.store.test_sqlite import set_schema

MOUNTS = [
    "overlay / overlay rw 0 0",
    "server:/export /home nfs4 rw 0 0",
    "/dev/sda1 /home/me/local\\040disk ext4 rw 0 0",
]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/srv/x", "overlay"),
        ("/home", "nfs4"),
        ("/home/me/.gpulayer", "nfs4"),
        ("/homestead", "overlay"),
        ("/home/me/local disk/x", "ext4"),
    ],
)
def test_the_innermost_mount_says_which_file_system_it_is(path: str, kind: str) -> None:
    assert home.filesystem_of(path, MOUNTS) == kind


def test_a_home_on_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home, "filesystem_of", lambda path, mounts: "nfs4")
    with pytest.raises(HomeOnNetworkFilesystem, match=r"nfs4.*local disk"):
        open_home(tmp_path / "home", "caller")
    assert not (tmp_path / "home").exists()


def test_a_file_in_the_place_of_the_home_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("mine")
    with pytest.raises(HomeUnwritable, match="GPULAYER_HOME"):
        open_home(tmp_path / "home", "caller")
    with pytest.raises(HomeUnwritable):
        open_home(tmp_path / "home" / "below", "caller")
    assert (tmp_path / "home").read_text() == "mine"


def test_a_newer_home_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    open_home(tmp_path / "home", "caller").close()
    set_schema(tmp_path / "home", 99)
    with pytest.raises(HomeTooNew, match="schema 99"):
        open_home(tmp_path / "home", "caller")
    assert list((tmp_path / "home" / "locks").iterdir()) == []


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A folder with an empty home in it, on a file system that was made read-only."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"mounting needs root: {mounted.stderr.strip()}")
    open_home(folder / "home", "caller").close()
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_read_only_home_is_refused_by_name(read_only: Path) -> None:
    with pytest.raises(HomeUnwritable, match="Point GPULAYER_HOME"):
        open_home(read_only / "home", "caller")
    with pytest.raises(HomeUnwritable):
        open_home(read_only / "fresh", "caller")


def test_a_plane_on_a_full_disk_says_so_and_goes_on_when_there_is_room(small_disk: Path) -> None:
    plane = open_home(small_disk / "home", "caller")
    try:
        kept = plane.submit(a_command(on_unschedulable="queue"))
        filler = small_disk / "filler"
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"x" * 4096)
        with pytest.raises(DiskFull, match="Free some space"):
            fill(plane)
        with pytest.raises(DiskFull):
            plane.put_blob(b"x" * 4_000_000)
        assert plane.job(kept.id).state is JobState.QUEUED
        filler.unlink()
        assert plane.submit(a_command(on_unschedulable="queue")).state is JobState.QUEUED
    finally:
        plane.close()


def fill(plane: EmbeddedPlane) -> None:
    for _ in range(1000):
        plane.submit(a_command(on_unschedulable="queue", env={"A": "x" * 20000}))
