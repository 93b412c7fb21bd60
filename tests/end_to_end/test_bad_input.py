"""Bad input: each a clear error that names the cause and the next step, with no traceback of ours, and nothing lost."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpulayer

from .processes import SCRIPT_S
from .scripts import run_script

pytestmark = pytest.mark.timeout(3 * SCRIPT_S)

_OURS = Path(gpulayer.__file__).parent
TINY = Path(__file__).parent / "programs" / "tiny.py"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A caller's folder with the script in it."""
    folder = tmp_path / "caller"
    folder.mkdir()
    shutil.copy(TINY, folder / "tiny.py")
    return folder


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of four megabytes."""
    if os.geteuid() != 0:
        pytest.skip("mounting a disk needs root")
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)], check=True)
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def run(folder: Path, home: Path | str, *argv: str) -> subprocess.CompletedProcess[str]:
    return run_script(folder, *(argv or ("tiny.py",)), GPULAYER_HOME=str(home))


def assert_said(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """The last line names the cause and the next step, and no frame of ours stands above it."""
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    for word in words:
        assert word in last, done.stderr
    assert f"{_OURS}{os.sep}" not in _frames(done.stderr), done.stderr


def _frames(stderr: str) -> str:
    return "\n".join(line for line in stderr.splitlines() if line.lstrip().startswith('File "'))


def test_a_source_folder_of_a_gigabyte_is_refused_with_its_largest_files(folder: Path, tmp_path: Path) -> None:
    with (folder / "movie.bin").open("wb") as stream:
        stream.truncate(2**30)
    done = run(folder, tmp_path / "home")
    assert_said(done, "BundleTooLarge", "movie.bin", ".gpulayerignore")


@pytest.mark.parametrize("home", ["/proc/gpulayer-home", "blocked/home"], ids=["a kernel's folder", "below a file"])
def test_an_unwritable_home_is_named(folder: Path, tmp_path: Path, home: str) -> None:
    (tmp_path / "blocked").write_text("a file")
    done = run(folder, tmp_path / home)
    assert_said(done, "HomeUnwritable", home, "GPULAYER_HOME")


def test_a_full_disk_is_named_and_the_script_keeps_its_files(folder: Path, small_disk: Path) -> None:
    with pytest.raises(OSError, match="No space"):
        (small_disk / "ballast").write_bytes(b"x" * 5_000_000)
    done = run(folder, small_disk / "home")
    assert_said(done, "DiskFull", str(small_disk), "Free some space")
    assert (folder / "tiny.py").read_bytes() == TINY.read_bytes()


def test_a_home_of_a_newer_version_is_left_as_it_is(folder: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert "FITTED 2" in run(folder, home).stdout
    with sqlite3.connect(home / "plane.db") as db:
        db.execute("PRAGMA user_version = 9999")
    db.close()
    done = run(folder, home)
    assert_said(done, "HomeTooNew", "9999", "Upgrade gpulayer")
    with sqlite3.connect(home / "plane.db") as db:
        assert db.execute("SELECT count(*) FROM jobs").fetchone() == (1,)
    db.close()


def test_code_that_no_file_holds_is_refused_before_anything_starts(folder: Path, tmp_path: Path) -> None:
    text = TINY.read_text()
    done = run(folder, tmp_path / "home", "-c", text)
    assert_said(done, "ScriptUnavailable", "file")


def test_a_script_that_was_removed_while_it_ran_is_named(folder: Path, tmp_path: Path) -> None:
    script = folder / "gone.py"
    script.write_text(TINY.read_text().replace("    trainer.fit(", "    __import__('os').unlink(__file__)\n    trainer.fit("))
    done = run(folder, tmp_path / "home", "gone.py")
    assert_said(done, "EntrypointMissing", "gone.py")
