"""Zip files of source folders: the same bytes for the same tree, and nothing trusted on the way out."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from gpulayer.artifacts import copying
from gpulayer.artifacts.listing import Entry, Limits
from gpulayer.errors import BundleError, UnsafeArchive

_TIME = (1980, 1, 1, 0, 0, 0)
_LEVEL = 1
_AT_ONCE = 4 * 1024 * 1024
_CHUNK = 1024 * 1024
_LONGEST_PATH = 4096
UNPACK_LIMITS = Limits(bytes=4_000_000_000, files=200_000)


def write(root: Path, entries: Sequence[Entry], to: Path) -> None:
    """Zip entries of ``root`` in their order; a file that is gone meanwhile is passed over."""
    with copying.written_beside(to) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive:
        for entry in entries:
            _add(archive, root, entry)


def _add(archive: zipfile.ZipFile, root: Path, entry: Entry) -> None:
    info = zipfile.ZipInfo(entry.path, _TIME)
    info.create_system = 3
    info.external_attr = (stat.S_IFMT(entry.status.st_mode) | stat.S_IMODE(entry.status.st_mode) & 0o777) << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    if entry.target is not None:
        archive.writestr(info, os.fsencode(entry.target))
    elif entry.path.endswith("/"):
        archive.writestr(info, b"")
    else:
        _add_file(archive, root / entry.path, info, entry.status.st_size)


def _add_file(archive: zipfile.ZipFile, path: Path, info: zipfile.ZipInfo, size: int) -> None:
    try:
        file = path.open("rb", buffering=0)
    except FileNotFoundError:
        return
    except PermissionError as cause:
        raise BundleError(
            f"{path} can't be read.", next_step="Change its permissions, or add it to .gpulayerignore.", path=str(path)
        ) from cause
    with file:
        if size <= _AT_ONCE:
            archive.writestr(info, file.read())
            return
        info.file_size = size
        with archive.open(info, "w") as writing:
            shutil.copyfileobj(file, writing, _CHUNK)


def unpack(archive: Path, to: Path, *, limits: Limits = UNPACK_LIMITS) -> None:
    """Unpack a bundle into the empty or new folder ``to``; raises ``UnsafeArchive``, and then ``to`` is empty again.

    Refused: names that are absolute, climb, repeat, or lie below a file; links that lead out; entries that are no file,
    folder or link; more bytes or files than the limits, as declared and as found.
    """
    to.mkdir(parents=True, exist_ok=True)
    if any(to.iterdir()):
        raise FileExistsError(f"{to} is not empty.")
    try:
        with copying.full_disk_named(to), zipfile.ZipFile(archive) as reading:
            infos = reading.infolist()
            _check_names(infos)
            _check_sizes(infos, limits)
            _unpack(reading, infos, to)
    except BaseException as failure:
        _empty(to)
        if isinstance(failure, _DAMAGE) or (isinstance(failure, OSError) and failure.errno in _DAMAGE_NUMBERS):
            raise UnsafeArchive(f"{archive.name} is damaged: {failure}.") from failure
        raise


_DAMAGE = (zipfile.BadZipFile, zlib.error, struct.error, RuntimeError, EOFError, ValueError, LookupError, ArithmeticError)
_DAMAGE_NUMBERS = (errno.EINVAL, errno.ENAMETOOLONG)
"""What zipfile raises for bytes that are no archive of ours (a place before the file's begin is EINVAL)."""


def _check_names(infos: list[zipfile.ZipInfo]) -> None:
    kinds: dict[str, int] = {}
    for info in infos:
        name = info.filename.removesuffix("/")
        if not name or name.startswith("/") or any(part in ("", ".", "..") for part in name.split("/")):
            raise UnsafeArchive(f"The archive holds the name {info.filename!r}.", name=info.filename)
        if name in kinds:
            raise UnsafeArchive(f"The archive holds {name!r} twice.", name=name)
        kinds[name] = _kind(info)
    for name in kinds:
        for parent in PurePosixPath(name).parents:
            if kinds.get(str(parent), stat.S_IFDIR) != stat.S_IFDIR:
                raise UnsafeArchive(f"The archive holds {name!r} below {str(parent)!r}, which is no folder.", name=name)


def _kind(info: zipfile.ZipInfo) -> int:
    kind = stat.S_IFMT(info.external_attr >> 16) or (stat.S_IFDIR if info.is_dir() else stat.S_IFREG)
    if kind not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK) or info.is_dir() != (kind == stat.S_IFDIR):
        raise UnsafeArchive(f"The archive holds {info.filename!r}, which is no file, folder or link.", name=info.filename)
    return kind


def _check_sizes(infos: list[zipfile.ZipInfo], limits: Limits) -> None:
    size = sum(info.file_size for info in infos)
    if len(infos) > limits.files or size > limits.bytes:
        raise UnsafeArchive(f"The archive holds {len(infos):,} files of {size:,} bytes.", files=len(infos), size=size)


def _unpack(archive: zipfile.ZipFile, infos: list[zipfile.ZipInfo], to: Path) -> None:
    made: set[Path] = set()
    for info in infos:
        path = to / info.filename
        folder = path if info.is_dir() else path.parent
        if folder not in made:
            folder.mkdir(parents=True, exist_ok=True)
            made.add(folder)
        if _kind(info) == stat.S_IFREG:
            _unpack_file(archive, info, path)
    # Links come last, so that nothing is ever written through one.
    links = [info for info in infos if _kind(info) == stat.S_IFLNK]
    for info in links:
        os.symlink(_target(archive, info), os.fsencode(to / info.filename))
    for info in links:
        _check_link(to, to / info.filename)


def _unpack_file(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> None:
    mode = (info.external_attr >> 16) & 0o777 or 0o644
    # The job may change its sources, whatever their modes at home.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode | 0o600)
    with os.fdopen(descriptor, "wb", buffering=0) as writing, archive.open(info) as reading:
        left = info.file_size
        while data := reading.read(_CHUNK):
            left -= len(data)
            if left < 0:
                raise UnsafeArchive(f"{info.filename!r} is larger than it says.", name=info.filename)
            copying.write_all(writing, data)
        os.fchmod(writing.fileno(), mode | 0o600)


def _target(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Read where a link leads: no more than a path is long, whatever the archive unpacks to."""
    with archive.open(info) as reading:
        target = reading.read(_LONGEST_PATH + 1)
    if not 0 < len(target) <= _LONGEST_PATH:
        raise UnsafeArchive(f"The link {info.filename!r} leads to no path.", name=info.filename)
    return target


def _check_link(to: Path, link: Path) -> None:
    """Judge a link by its words, and by where it leads: through other links, harmless words can lead out too."""
    name = str(link.relative_to(to))
    words = os.path.normpath(os.path.join(os.path.dirname(name), os.readlink(link)))
    leads, top = os.path.realpath(link), os.path.realpath(to)
    if words.startswith(("/", "../")) or words == ".." or not f"{leads}/".startswith(f"{top}/"):
        raise UnsafeArchive(f"The link {name!r} leads out.", name=name)


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
