"""The files a job leaves: what is new or changed in its work folder since it was filled."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from gpulayer.artifacts import copying
from gpulayer.spec.files import Blob, FileEntry

_PASSED_OVER = frozenset({"__pycache__"})
Stamp = tuple[int, ...]
"""What tells a file from the same file after a change."""


def take_baseline(work: Path, to: Path) -> None:
    """Note what ``work`` holds before the job starts (its bundle and our links) in the file ``to``."""
    held = {path: _stamp(status) for path, _, status in _files(work)}
    with copying.written_beside(to) as file:
        copying.write_all(file, json.dumps(held).encode())


class Scan:
    """Looks for outputs, as often as asked, and stores each state of a file once.

    ``passed_over`` says of files that could not be taken why.
    """

    def __init__(self, work: Path, baseline: Path, put: Callable[[Path], Blob]) -> None:
        self._work = work
        self._baseline: dict[str, Stamp] = {path: tuple(stamp) for path, stamp in json.loads(baseline.read_bytes()).items()}
        self._put = put
        self._stored: dict[str, tuple[Stamp, Blob]] = {}
        self.passed_over: dict[str, str] = {}

    def changed(self) -> list[tuple[str, Path]]:
        """Return the path below the work folder and the absolute one of each output, by path.

        A link is an output when the job made it and its file lies in the work folder: then it counts as that file.
        """
        return [(path, file) for path, file, _ in self._found()]

    def entries(self) -> Iterator[FileEntry]:
        """Yield the outputs, each stored; a file that vanishes meanwhile is none."""
        for path, file, _ in self._found():
            try:
                status = file.stat()
                # A link counts as its file, and says by its mode that it is one.
                mode = stat.S_IMODE(status.st_mode) | (stat.S_IFLNK if file.is_symlink() else 0)
                yield FileEntry(path=path, blob=self._blob(path, file, status), mode=mode, mtime=status.st_mtime)
            except FileNotFoundError:
                continue
            except PermissionError as cause:
                self.passed_over[path] = str(cause)

    def _found(self) -> list[tuple[str, Path, os.stat_result]]:
        top = os.path.realpath(self._work)
        found = []
        for path, file, status in _files(self._work):
            if self._baseline.get(path) == _stamp(status) or not _is_output(file, status, top):
                continue
            if not _can_be_named(path):
                self.passed_over[os.fsencode(path).decode("utf-8", "backslashreplace")] = "its name is not UTF-8"
                continue
            found.append((path, file, status))
        return sorted(found, key=lambda each: each[0])

    def _blob(self, path: str, file: Path, status: os.stat_result) -> Blob:
        stamp = _stamp(status)
        known = self._stored.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        blob = self._put(file)
        # The stamp is older than the reading: a change in between is seen the next time.
        self._stored[path] = (stamp, blob)
        return blob


def _files(work: Path) -> Iterator[tuple[str, Path, os.stat_result]]:
    """Yield everything in ``work`` but folders; what lies behind a link to a folder is not in it."""
    waiting = [""]
    while waiting:
        base = waiting.pop()
        try:
            entries = list(os.scandir(work / base))
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _PASSED_OVER:
                    waiting.append(f"{base}{entry.name}/")
                continue
            try:
                yield base + entry.name, Path(entry.path), entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue


def _is_output(file: Path, status: os.stat_result, top: str) -> bool:
    if file.name.endswith(copying.PART_SUFFIX):
        return False
    if not stat.S_ISLNK(status.st_mode):
        return stat.S_ISREG(status.st_mode)
    inside = os.path.realpath(file).startswith(top + os.sep)
    return inside and file.is_file()


def _can_be_named(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _stamp(status: os.stat_result) -> Stamp:
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
