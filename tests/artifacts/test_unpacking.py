"""Unpacking trusts nothing."""

from __future__ import annotations

import io
import os
import shutil
import stat
import struct
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpulayer.artifacts import bundle
from gpulayer.artifacts.bundle import Limits
from gpulayer.errors import UnsafeArchive
from tests.artifacts.given import a_folder

FILE, LINK, FOLDER, PIPE, DEVICE = stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR, stat.S_IFIFO, stat.S_IFCHR


def a_zip(to: Path, *entries: tuple[str, bytes, int]) -> Path:
    with zipfile.ZipFile(to, "w") as archive:
        for name, data, kind in entries:
            info = zipfile.ZipInfo("x")
            info.filename = name
            info.create_system = 3
            info.external_attr = (kind | 0o644) << 16
            archive.writestr(info, data)
    return to


HOSTILE = [
    [("/etc/x", b"", FILE)],
    [("../x", b"", FILE)],
    [("a/../../x", b"", FILE)],
    [("a/./x", b"", FILE)],
    [("a//x", b"", FILE)],
    [("..", b"", FILE)],
    [("link", b"/etc", LINK)],
    [("link", b"../out", LINK)],
    [("a/link", b"../../out", LINK)],
    [("a/link", b"../../elsewhere", LINK)],
    [("link", b"..", LINK), ("link/x", b"", FILE)],
    [("link/x", b"", FILE), ("link", b"..", LINK)],
    [("a", b"", FILE), ("a/b", b"", FILE)],
    [("deep/er/up", b"../..", LINK), ("deep/er/out", b"up/../x", LINK)],
    [("one", b"two", LINK), ("two", b"../x", LINK)],
    [("pipe", b"", PIPE)],
    [("null", b"", DEVICE)],
    [("folder/", b"", LINK)],
    [("folder", b"", FOLDER)],
]


@pytest.mark.parametrize("entries", HOSTILE)
def test_an_archive_that_reaches_out_is_refused_and_leaves_nothing(
    tmp_path: Path, entries: list[tuple[str, bytes, int]]
) -> None:
    archive = a_zip(tmp_path / "bad.zip", ("good.py", b"x", FILE), *entries)
    with pytest.raises(UnsafeArchive):
        bundle.unpack(archive, tmp_path / "out")
    assert sorted(tmp_path.iterdir()) == [archive, tmp_path / "out"]
    assert not any((tmp_path / "out").iterdir())


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_repeats_is_refused(tmp_path: Path) -> None:
    for names in (("a", "a"), ("a/", "a/"), ("a/", "a")):
        entries = [(name, b"", FOLDER if name.endswith("/") else FILE) for name in names]
        with pytest.raises(UnsafeArchive):
            bundle.unpack(a_zip(tmp_path / "bad.zip", *entries), tmp_path / "out")


def test_bombs_are_refused_as_declared_and_as_found(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.zip"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(10_000_000))
    with pytest.raises(UnsafeArchive, match="10,000,000"):
        bundle.unpack(bomb, tmp_path / "out", limits=Limits(bytes=1_000_000))
    with pytest.raises(UnsafeArchive):
        bundle.unpack(
            a_zip(tmp_path / "many.zip", *((f"{n}", b"", FILE) for n in range(20))), tmp_path / "out", limits=Limits(files=10)
        )
    # The central directory says 10 bytes; the data has ten million.
    data = bytearray(bomb.read_bytes())
    at = data.rfind(b"PK\x01\x02")
    data[at + 24 : at + 28] = struct.pack("<I", 10)
    bomb.write_bytes(data)
    with pytest.raises(UnsafeArchive):
        bundle.unpack(bomb, tmp_path / "out", limits=Limits(bytes=1_000_000))
    assert not any((tmp_path / "out").iterdir())


def test_an_encrypted_or_unknown_archive_is_refused(tmp_path: Path) -> None:
    whole = bytearray(a_zip(tmp_path / "good.zip", ("a", b"hello", FILE)).read_bytes())
    at = whole.rfind(b"PK\x01\x02")
    for place, value in ((8, 1), (10, 99)):
        data = bytearray(whole)
        data[at + place] = value
        (tmp_path / "bad.zip").write_bytes(data)
        with pytest.raises(UnsafeArchive):
            bundle.unpack(tmp_path / "bad.zip", tmp_path / "out")
    (tmp_path / "bad.zip").write_bytes(b"no zip at all")
    with pytest.raises(UnsafeArchive):
        bundle.unpack(tmp_path / "bad.zip", tmp_path / "out")


def test_a_folder_in_use_is_not_unpacked_into(tmp_path: Path) -> None:
    a_folder(tmp_path / "out", {"mine": "x"})
    with pytest.raises(FileExistsError):
        bundle.unpack(a_zip(tmp_path / "good.zip", ("a", b"", FILE)), tmp_path / "out")
    assert (tmp_path / "out/mine").read_text() == "x"


def test_no_bit_of_the_mode_gives_rights_away(tmp_path: Path) -> None:
    bundle.unpack(a_zip(tmp_path / "a.zip", ("tool", b"", FILE | stat.S_ISUID | stat.S_ISGID)), tmp_path / "out")
    assert (tmp_path / "out/tool").stat().st_mode & 0o7000 == 0


def _good() -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data, kind in (("a.py", b"print()\n" * 50, FILE), ("b/c.py", b"x", FILE), ("l", b"b/c.py", LINK)):
            info = zipfile.ZipInfo(name)
            info.create_system = 3
            info.external_attr = (kind | 0o644) << 16
            archive.writestr(info, data)
    return held.getvalue()


GOOD = _good()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=300)
@given(
    edits=st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1, max_size=8),
    cut=st.none() | st.integers(0, len(GOOD)),
)
def test_damaged_bytes_unpack_inside_or_are_refused(tmp_path: Path, edits: list[tuple[int, int]], cut: int | None) -> None:
    data = bytearray(GOOD[:cut])
    for at, value in edits:
        if at < len(data):
            data[at] = value
    archive, out = tmp_path / "fuzz.zip", tmp_path / "out"
    archive.write_bytes(data)
    try:
        bundle.unpack(archive, out)
    except UnsafeArchive:
        assert not any(out.iterdir())
    else:
        for path in out.rglob("*"):
            assert os.path.realpath(path).startswith(os.path.realpath(out) + os.sep)
    assert sorted(tmp_path.iterdir()) in ([archive, out], [archive, tmp_path / "home", out])
    empty(out)


def empty(out: Path) -> None:
    for path in sorted(out.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


PART = st.sampled_from(
    ["..", ".", "", "a", "b", "l", "A", "\u00e4", "a\u0308", "a\\..\\b", "C:", "a\nb", "x" * 300, "\u202e", " "]
)
NAME = st.builds("/".join, st.lists(PART, min_size=1, max_size=4)) | st.builds("/".join, st.just(["a"] * 2000))
TARGET = st.sampled_from([b"..", b"a", b"l", b"../l", b"/etc", b"a/../..", b"", b"\xff", b"\0", b"x" * 5000, b"l/../../x"])
ENTRY = st.one_of(
    st.tuples(NAME, st.binary(max_size=40), st.sampled_from([FILE, FILE, FOLDER, PIPE, DEVICE])),
    st.tuples(NAME, TARGET, st.just(LINK)),
    st.tuples(NAME.map(lambda name: name + "/"), st.just(b""), st.just(FOLDER)),
)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=300)
@given(entries=st.lists(ENTRY, max_size=6), declared=st.none() | st.integers(0, 2**32 - 1))
def test_crafted_archives_unpack_inside_or_are_refused(
    tmp_path: Path, entries: list[tuple[str, bytes, int]], declared: int | None
) -> None:
    archive, out = a_zip(tmp_path / "crafted.zip", *entries), tmp_path / "out"
    shutil.rmtree(out, ignore_errors=True)
    if declared is not None and entries:
        data = bytearray(archive.read_bytes())
        at = data.rfind(b"PK\x01\x02")
        data[at + 24 : at + 28] = struct.pack("<I", declared)
        archive.write_bytes(data)
    try:
        bundle.unpack(archive, out, limits=Limits(bytes=100_000, files=5))
    except UnsafeArchive:
        assert not any(out.iterdir())
    else:
        for path in out.rglob("*"):
            assert Path(os.path.realpath(path)).is_relative_to(os.path.realpath(out))
            assert path.is_symlink() or path.is_file() or path.is_dir()
    assert {path.name for path in tmp_path.iterdir()} <= {"crafted.zip", "home", "out"}


@pytest.mark.parametrize("kind", [FILE, LINK])
def test_a_bomb_that_says_it_is_small_takes_no_memory(tmp_path: Path, kind: int) -> None:
    bomb = tmp_path / "bomb.zip"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        info = zipfile.ZipInfo("bomb")
        info.create_system = 3
        info.external_attr = (kind | 0o644) << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(info, bytes(200_000_000))
    data = bytearray(bomb.read_bytes())
    at = data.rfind(b"PK\x01\x02")
    data[at + 24 : at + 28] = struct.pack("<I", 10)
    bomb.write_bytes(data)

    tracemalloc.start()
    try:
        with pytest.raises(UnsafeArchive):
            bundle.unpack(bomb, tmp_path / "out")
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
