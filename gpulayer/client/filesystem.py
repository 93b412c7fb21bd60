"""``gpulayer://<job>/node0/checkpoints/last.ckpt``: the files of jobs as an fsspec file system, to read from."""

from __future__ import annotations

import atexit
import errno
import io
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.spec import AbstractFileSystem

from gpulayer import plane, settings
from gpulayer.artifacts.landing import plain
from gpulayer.client.job_files import FolderInfo, JobFile, JobFiles, read_job_files
from gpulayer.errors import ArtifactNotFound, JobNotFound
from gpulayer.plane import Plane


class GPULayerFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec ships no types
    """The files of a plane's jobs, read-only.

    A path begins with a job's id or a unique prefix of it. Below it are ``node<r>/`` with the files of each node, complete
    checkpoints by their own path, and (not listed) ``last`` and ``best``: the newest and the best complete checkpoint, a file
    or a folder as the job saved it. The plane is the settings' one, or that of ``home``; it is opened at the first question.
    """

    protocol = "gpulayer"
    root_marker = ""
    _shared: ClassVar[dict[tuple[int, str], Plane]] = {}
    _opening: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, *args: Any, home: str | None = None, plane: Plane | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self._home = home
        self._given = plane
        self._held: dict[str, JobFiles] | None = None

    # --- what fsspec asks --------------------------------------------------------------------------------------------

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        job, rest = self._split(path)
        if not job:
            found = [_folder(record.id) for record in self._plane().jobs()]
        else:
            files = self._files(job)
            here = files.look(rest)
            if here is None:
                raise _missing(path)
            inner = files.inside(rest) if isinstance(here, FolderInfo) else [(rest, here)]
            found = [_described(f"{job}/{name}" if name else job, each) for name, each in inner]
        return found if detail else [each["name"] for each in found]

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        job, rest = self._split(path)
        if not job:
            return _folder("")
        found = self._files(job).look(rest)
        if found is None:
            raise _missing(path)
        return _described(f"{job}/{rest}" if rest else job, found)

    def find(self, path: str, maxdepth: int | None = None, withdirs: bool = False, detail: bool = False, **options: Any) -> Any:
        with self._holding():
            return super().find(path, maxdepth=maxdepth, withdirs=withdirs, detail=detail, **options)

    def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        if mode != "rb":
            _refuse_writing(path)
        blob = self._file(path).blob
        opened = self._plane().open_blob(blob.sha256)
        if hasattr(opened, "size") or not isinstance(opened, io.BufferedReader):
            return opened
        return _Reader(opened, blob.size)

    def get_file(self, rpath: str, lpath: str, callback: Any = DEFAULT_CALLBACK, outfile: Any = None, **options: Any) -> None:
        if outfile is not None or not isinstance(lpath, str | os.PathLike):
            super().get_file(rpath, lpath, callback=callback, outfile=outfile, **options)
        elif self.isdir(rpath):
            os.makedirs(lpath, exist_ok=True)
        else:
            file = self._file(rpath)
            plain(self._split(rpath)[1])  # of which fsspec made lpath
            callback.set_size(file.blob.size)
            self._plane().fetch_blob(file.blob.sha256, Path(lpath))
            callback.absolute_update(file.blob.size)

    def modified(self, path: str) -> datetime:
        return datetime.fromtimestamp(self._file(path).mtime, UTC)

    def created(self, path: str) -> datetime:
        return self.modified(path)

    def checksum(self, path: str) -> str:
        return self._file(path).blob.sha256

    def ukey(self, path: str) -> str:
        return self.checksum(path)

    def _mkdir(self, path: str, *_: Any, **__: Any) -> NoReturn:
        _refuse_writing(path)

    mkdir = makedirs = rm_file = _rm = cp_file = mv = touch = pipe_file = put_file = rm = _mkdir

    # --- how it is answered ------------------------------------------------------------------------------------------

    def _split(self, path: str) -> tuple[str, str]:
        job, _, rest = self._strip_protocol(path).strip("/").partition("/")
        return job, rest

    def _file(self, path: str) -> JobFile:
        job, rest = self._split(path)
        found = self._files(job).look(rest) if job else None
        if found is None:
            raise _missing(path)
        if isinstance(found, FolderInfo):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return found

    def _files(self, job: str) -> JobFiles:
        if self._held is not None and job in self._held:
            return self._held[job]
        try:
            files = read_job_files(self._plane(), job)
        except JobNotFound as cause:
            raise ArtifactNotFound(cause.sentence, next_step=cause.next_step, **cause.facts) from cause
        if self._held is not None:
            self._held[job] = files
        return files

    @contextmanager
    def _holding(self) -> Iterator[None]:
        """Answer from one look at each job, for as long as one question takes."""
        outermost = self._held is None
        if outermost:
            self._held = {}
        try:
            yield
        finally:
            if outermost:
                self._held = None

    def _plane(self) -> Plane:
        if self._given is not None:
            return self._given
        # A forked child must not use its parent's connection; fsspec makes an instance a thread, and they share one.
        target = self._home or settings.read().url or str(settings.read().home)
        key = (os.getpid(), target)
        with self._opening:
            if key not in self._shared:
                self._shared[key] = plane.open(target, process="client")
            return self._shared[key]

    @classmethod
    def close_all(cls) -> None:
        """Close the planes that file systems of this process opened; the next question opens them again."""
        with cls._opening:
            for key in [key for key in cls._shared if key[0] == os.getpid()]:
                with suppress(Exception):
                    cls._shared.pop(key).close()


class _Reader(io.BufferedReader):
    """A local file that knows its size, as fsspec asks of every file."""

    def __init__(self, opened: io.BufferedReader, size: int) -> None:
        super().__init__(opened.detach())
        self.size = size


atexit.register(GPULayerFileSystem.close_all)


def _renew_lock() -> None:
    GPULayerFileSystem._opening = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def _described(name: str, found: JobFile | FolderInfo) -> dict[str, Any]:
    if isinstance(found, FolderInfo):
        return _folder(name)
    return {
        "name": name,
        "size": found.blob.size,
        "type": "file",
        "sha256": found.blob.sha256,
        "mode": found.mode,
        "mtime": found.mtime,
    }


def _folder(name: str) -> dict[str, Any]:
    return {"name": name, "size": 0, "type": "directory"}


def _missing(path: str) -> ArtifactNotFound:
    return ArtifactNotFound(f"There is no gpulayer://{GPULayerFileSystem._strip_protocol(path)}.", path=path)


def _refuse_writing(path: str) -> NoReturn:
    raise OSError(errno.EROFS, "The files of jobs are only read; write below GPULAYER_OUTPUT_DIR in the job", path)
