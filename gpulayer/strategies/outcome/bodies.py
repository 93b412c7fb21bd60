"""The file that an outcome travels in: written by ``torch.save``, read without ever unpickling an object.

What belongs to the module is a second archive behind the first, so that the first can be read alone. The file ends with their
lengths.
"""

from __future__ import annotations

import contextlib
import io
import os
import struct
from pathlib import Path
from typing import IO, Any, cast

import torch

MODULE = "module"
"""The entry of an outcome that is an archive of its own."""

_END = struct.Struct("<QQ8s")
_MARK = b"gpulayer"


def save(body: dict[str, Any], path: str | Path | IO[bytes]) -> None:
    """Write plain data and tensors; a ``module`` in it goes behind the rest."""
    if MODULE not in body:
        torch.save(body, path)
        return
    with _opened(path, "wb") as file:
        begin = file.tell()
        torch.save({name: value for name, value in body.items() if name != MODULE}, file)
        middle = file.tell()
        torch.save(body[MODULE], file)
        file.write(_END.pack(middle - begin, file.tell() - middle, _MARK))


def load(path: str | Path | IO[bytes], *, module: bool = True) -> dict[str, Any]:
    """Read what ``save`` wrote; without ``module`` nothing of that part is read, where it is a part of its own."""
    with _opened(path, "rb") as file:
        first, second = _lengths(file)
        body = _read(_Part(file, 0, first))
        if module and second:
            body[MODULE] = _read(_Part(file, first, second))
        return body


def _read(file: Any) -> dict[str, Any]:
    return cast(dict[str, Any], torch.load(file, map_location="cpu", weights_only=True))


def _opened(path: str | Path | IO[bytes], mode: str) -> contextlib.AbstractContextManager[Any]:
    return open(path, mode) if isinstance(path, str | Path) else contextlib.nullcontext(path)


def _lengths(file: IO[bytes]) -> tuple[int, int]:
    """Return the lengths of both archives; a file that is one archive alone has no second."""
    size = file.seek(0, os.SEEK_END)
    if size > _END.size:
        file.seek(size - _END.size)
        first, second, mark = _END.unpack(file.read(_END.size))
        if mark == _MARK and first + second + _END.size == size:
            return first, second
    return size, 0


class _Part(io.RawIOBase):
    """A part of a file, as a file."""

    def __init__(self, file: Any, start: int, size: int) -> None:
        super().__init__()
        self._file, self._start, self._size, self._at = file, start, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence] + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        into = memoryview(buffer).cast("B")
        self._file.seek(self._start + self._at)
        got = self._file.readinto(into[: max(0, self._size - self._at)]) or 0
        self._at += got
        return int(got)
