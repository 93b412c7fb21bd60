"""Python environments for jobs that ask for packages: built once, over the worker's own, and kept for the next job.

An environment is a venv whose interpreter also finds what the worker's own has (torch, Lightning, GPUlayer); what is
installed into it goes before that. It is named by a digest of all that decides what is in it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import select
import shutil
import subprocess
import sys
import time
import venv
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from gpulayer.errors import PreparationFailed
from gpulayer.worker.wishes import Stopped

MOST_KEPT = 10
KEPT_S = 30 * 24 * 3600.0
_LOOK_S = 0.1
_TAIL = 8
_READY = "ready"
_FIXED = ("torch", "lightning", "pytorch-lightning", "gpulayer")
"""What stays as the worker has it, unless a requirement names it: a dependency must not bring another torch."""


@dataclass(frozen=True)
class Environment:
    """One that is ready: its folder, and its interpreter."""

    folder: Path

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    def variables(self, path: str) -> dict[str, str]:
        """Return what makes ``python`` and the installed commands those of the environment."""
        return {"VIRTUAL_ENV": str(self.folder), "PATH": f"{self.folder / 'bin'}:{path}"}


class Environments:
    """Those of one worker, below a folder. ``say`` gets what the installation prints; ``stopped`` ends a wait or a build."""

    def __init__(self, root: Path, say: Callable[[str], None], stopped: Callable[[], bool]) -> None:
        self._root = root
        self._say = say
        self._stopped = stopped

    @contextmanager
    def of(self, requirements: Sequence[str], variables: Mapping[str, str]) -> Iterator[Environment]:
        """Give the environment for these requirements, building it first where nobody has; it is kept while it is used.

        ``variables`` are the job's: those that begin with ``PIP_`` are pip's. Raises ``PreparationFailed`` with pip's own last
        words, and ``Stopped``.
        """
        name = digest(requirements, variables)
        folder, using = self._root / name, self._root / f"{name}.lock"
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with using.open("ab") as lock:  # flock, not fcntl: two tasks of one process must keep each other out as well
            if not self._is_ready(lock, folder):
                self._take(lock, fcntl.LOCK_EX)
                if not (folder / _READY).exists():
                    self._build(folder, requirements, variables)
                self._take(lock, fcntl.LOCK_SH)
                collect(self._root)
            os.utime(folder / _READY)
            yield Environment(folder)

    def _is_ready(self, lock: BinaryIO, folder: Path) -> bool:
        self._take(lock, fcntl.LOCK_SH)
        return (folder / _READY).exists()

    def _take(self, lock: BinaryIO, kind: int) -> None:
        """Have a lock, waiting as long as the task is wanted."""
        told = False
        while True:
            try:
                fcntl.flock(lock, kind | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if not told:
                    self._say("waits for another task, which builds the same environment")
                told = True
                if self._stopped():
                    raise Stopped from None
                time.sleep(_LOOK_S)

    def _build(self, folder: Path, requirements: Sequence[str], variables: Mapping[str, str]) -> None:
        shutil.rmtree(folder, ignore_errors=True)  # what a build that was broken off has left
        self._say(f"building the environment {folder.name}: {', '.join(requirements)}")
        try:
            venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
            _let_it_find_ours(folder)
            (folder / "requirements.txt").write_text("\n".join(requirements) + "\n")
            (folder / "constraints.txt").write_text("\n".join(_constraints(requirements)) + "\n")
            self._install(folder, variables)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        (folder / _READY).touch()

    def _install(self, folder: Path, variables: Mapping[str, str]) -> None:
        pip = ["pip", "install", "--no-input", "--disable-pip-version-check", "--progress-bar", "off"]
        files = ["-r", str(folder / "requirements.txt"), "-c", str(folder / "constraints.txt")]
        program = subprocess.Popen(
            [Environment(folder).python, "-P", "-m", "gpulayer.worker.tied", str(os.getpid()), *pip, *files],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **{name: value for name, value in variables.items() if name.startswith("PIP_")}},
            cwd=folder,
        )
        last = deque[str](maxlen=_TAIL)
        with program:
            for line in self._lines(program):
                self._say(line)
                last.append(line)
        if program.returncode:
            raise PreparationFailed(
                f"The environment could not be built: {' / '.join(last) or f'pip ended with {program.returncode}'}",
                next_step="Mend the requirements, or let the worker reach what they are installed from.",
            )

    def _lines(self, program: subprocess.Popen[bytes]) -> Iterator[str]:
        """Give what a program prints; raises ``Stopped``, and ends it, when the task is to end."""
        assert program.stdout is not None
        rest = b""
        while True:
            if self._stopped():
                program.kill()
                raise Stopped
            if not select.select([program.stdout], [], [], _LOOK_S)[0]:
                continue
            data = os.read(program.stdout.fileno(), 65536)
            *lines, rest = (rest + data).split(b"\n")
            lines += [rest] if rest and not data else []
            yield from (line.decode(errors="replace").rstrip() for line in lines)
            if not data:
                return


def digest(requirements: Sequence[str], variables: Mapping[str, str]) -> str:
    """Name an environment by its requirements and pip's settings, and by the interpreter and packages that it lies over."""
    below = sorted(f"{each.name}=={each.version}" for each in metadata.distributions())
    settings = {name: value for name, value in sorted(variables.items()) if name.startswith("PIP_")}
    what = [[*map(_with_state, requirements)], settings, sys.version, os.path.realpath(sys.executable), below]
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]


def _with_state(line: str) -> str:
    """Add to a requirement that names a file of this machine which state of the file that is."""
    url = urlsplit(Requirement(line.partition(" --hash")[0]).url or "")
    if url.scheme != "file" or not os.path.exists(path := unquote(url.path)):
        return line
    status = os.stat(path)
    return f"{line} {status.st_size} {status.st_mtime_ns}"


def collect(root: Path, now: float | None = None) -> list[str]:
    """Remove the environments that were used longest ago, beyond ``MOST_KEPT`` or ``KEPT_S``; none that is used or built."""
    at = time.time() if now is None else now
    ready = {folder: folder.stat().st_mtime for folder in root.glob(f"*/{_READY}")}
    newest_first = sorted(ready, key=ready.__getitem__, reverse=True)
    old = [mark.parent for rank, mark in enumerate(newest_first) if rank >= MOST_KEPT or at - ready[mark] > KEPT_S]
    return [folder.name for folder in old if _removed(folder)]


def _removed(folder: Path) -> bool:
    with (folder.parent / f"{folder.name}.lock").open("ab") as lock, suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        (folder / _READY).unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        return True
    return False


def _let_it_find_ours(folder: Path) -> None:
    """Have the interpreter look into the worker's own folders of packages after its own, with the .pth files in there."""
    (packages,) = (folder / "lib").glob("python*/site-packages")
    ours = [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]
    here = str(Path(__file__).resolve().parents[2])
    lines = [f"import site; site.addsitedir({path!r})" for path in dict.fromkeys(ours)]
    (packages / "gpulayer_worker.pth").write_text("\n".join([*lines, *([] if here in ours else [here])]) + "\n")


def _constraints(requirements: Sequence[str]) -> Iterator[str]:
    named = {canonicalize_name(Requirement(line.partition(" --hash")[0]).name) for line in requirements}
    for name in _FIXED:
        with suppress(metadata.PackageNotFoundError):
            if name not in named:
                yield f"{name}=={metadata.version(name)}"
