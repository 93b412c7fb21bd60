"""Brings a job's files home: what is new or changed, to the caller's paths, never over what the caller changed."""

from __future__ import annotations

import enum
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer

from gpulayer.artifacts.landing import plain
from gpulayer.client.checkpoints import SCHEME
from gpulayer.client.choice import Choice
from gpulayer.plane import Plane
from gpulayer.spec.files import Artifact, FileEntry

_CHUNK = 1 << 20
SLOW_S = 2.0
"""How long a homecoming may take without a word."""


class Deed(enum.Enum):
    """What to do about one file."""

    NOTHING = "nothing"
    WRITE = "write"
    BESIDE = "beside"


@dataclass(frozen=True)
class Home:
    """A file at the caller's as this run knows it: the hash it wrote or found, with the stat it then had."""

    sha256: str
    stamp: tuple[int, int, int]


@dataclass
class Brought:
    """What one homecoming did."""

    written: list[Path] = field(default_factory=list)
    beside: list[tuple[Path, Path]] = field(default_factory=list)
    """Files that the caller had changed, and where the job's lie instead."""
    doubles: list[Path] = field(default_factory=list)
    """Files of other nodes that differ from node 0's."""
    removed: list[Path] = field(default_factory=list)
    left: list[Artifact] = field(default_factory=list)
    """Files that stay with the job for now."""


def choose(artifacts: Iterable[Artifact]) -> dict[str, Artifact]:
    """Give every file its place below the work folder: node 0 wins a path, another node's different file goes to node<r>/."""
    # Folders that the caller linked into its source may lead anywhere: that is the caller's word, a name is the worker's.
    chosen: dict[str, Artifact] = {}
    named = {str(plain(each.path)): each for each in artifacts}
    for name, artifact in sorted(named.items(), key=lambda each: (_node(each[0]), each[0])):
        node, _, path = name.partition("/")
        if path not in chosen:
            chosen[path] = artifact
        elif chosen[path].blob.sha256 != artifact.blob.sha256:
            chosen[f"{node}/{path}"] = artifact
    return chosen


def _node(path: str) -> int:
    return int(path.partition("/")[0].removeprefix("node"))


def decide(new: str, *, here: str | None, wrote: str | None, base: Callable[[], str | None]) -> Deed:
    """Decide about one file from hashes: the job's, the one lying here, what this run wrote, and what was in the bundle."""
    if here == new:
        return Deed.NOTHING
    if here is None or here == wrote or here == base():
        return Deed.WRITE
    return Deed.BESIDE


class Homecoming:
    """Remembers what this run has brought home, so that each file comes once and only its own are overwritten."""

    def __init__(self, plane: Plane, place: Callable[[str], Path]) -> None:
        self._plane = plane
        self._place = place
        self.away: dict[str, str] = {}
        """Checkpoints that stay with their jobs: where they would lie here, and the URLs that they open by."""
        self.named: dict[str, str] = {}
        """The paths here of all checkpoints that ever were away, by their URLs."""
        self._known: dict[Path, Home] = {}
        self._seen: dict[str, dict[str, Artifact]] = {}
        self._left: dict[str, dict[str, Artifact]] = {}

    def below(self, folder: Path) -> list[str]:
        """Return the files that this run brought below a folder, relative to it."""
        return sorted(str(path.relative_to(folder)) for path in self._known if path.is_relative_to(folder))

    def bring(
        self,
        job_id: str,
        base: Callable[[str], str | None],
        outside: Callable[[Artifact], bool] = lambda _: False,
        lasts: Callable[[int], object] = lambda _: None,
        choice: Callable[[Iterable[Artifact]], Choice | None] = lambda _: None,
    ) -> Brought:
        """Bring what changed since the last time; ``base`` answers the hash that a path had in the job's bundle.

        ``outside`` says of files that the script wrote them between its calls: the caller's own script wrote them as well.
        ``lasts`` is told how many files come, from another thread, once they have been coming for ``SLOW_S``. ``choice`` says
        which of those that are new or changed come now; the others are left for another time.
        """
        chosen = choose(self._plane.artifacts(job_id))
        seen, brought = self._seen.get(job_id, {}), Brought()
        changed = {path: each for path, each in chosen.items() if path not in seen or seen[path].blob != each.blob}
        changed = {path: each for path, each in changed.items() if not (outside(each) and self._is_the_callers(each))}
        left = self._leave(job_id, changed, choice(changed.values()))
        brought.left += left.values()
        coming = {path: each for path, each in changed.items() if path not in left}
        with _telling(lambda: lasts(len(coming))):
            for path, artifact in sorted(coming.items(), key=lambda each: _is_link(each[1])):  # what they point to comes first
                self._bring_one(job_id, path, artifact, base, brought)
                self._link(path, chosen)
                if artifact.path != f"node0/{path}" and artifact.path == path:
                    brought.doubles.append(self._place(path))
        for path in seen.keys() - chosen.keys():
            self._remove(self._place(path), seen[path].blob.sha256, brought)
        # What was left counts as not seen: it is asked for again the next time, and nothing of it is here to be removed.
        self._seen[job_id] = {path: each for path, each in chosen.items() if path not in left}
        self._left[job_id] = left
        return brought

    def present(self) -> tuple[FileEntry, ...]:
        """Return the files of all jobs so far, by path below the work folder, as they are here now.

        What the caller has changed since is stored anew, and what it has removed is left out. What stays with its job is as
        the job has it.
        """
        latest: dict[str, tuple[Artifact, bool]] = {}
        for job_id, chosen in self._seen.items():
            latest |= {path: (each, False) for path, each in chosen.items()}
            latest |= {path: (each, True) for path, each in self._left[job_id].items()}
        entries = []
        for path, (artifact, stays) in sorted(latest.items()):
            target = self._place(path)
            here = None if stays else self._hash(target)
            if stays:
                entries.append(FileEntry(path=path, blob=artifact.blob, mode=artifact.mode & 0o777, mtime=artifact.mtime))
            elif here is not None:
                blob = artifact.blob if here == artifact.blob.sha256 else self._plane.put_blob(target)
                entries.append(FileEntry(path=path, blob=blob, mode=artifact.mode & 0o777, mtime=os.stat(target).st_mtime))
        return tuple(entries)

    def _leave(self, job_id: str, changed: Mapping[str, Artifact], choice: Choice | None) -> dict[str, Artifact]:
        """Return what stays of the files of a job, and note by which URLs its checkpoints open meanwhile."""
        self.away = {path: url for path, url in self.away.items() if not url.startswith(f"{SCHEME}{job_id}/")}
        left = {} if choice is None else {path: each for path, each in changed.items() if self._stays(path, each, choice)}
        named = [choice.stays_as(path, each) for path, each in left.items()] if choice is not None else []
        self.away |= {str(place): url for place, url in filter(None, named)}
        self.named |= {url: path for path, url in self.away.items()}
        for place in map(self._place, changed.keys() - left.keys()):
            for whole in (place, *place.parents):  # a checkpoint of many files is known by its folder
                self.away.pop(str(whole), None)
        return left

    def _stays(self, path: str, artifact: Artifact, choice: Choice) -> bool:
        known = self._known.get(self._place(path))
        return (known is None or known.sha256 != artifact.blob.sha256) and not choice.takes(path, artifact)

    def remove(self, job_id: str, paths: Iterable[str]) -> None:
        """Remove what a call deleted of the files that this run wrote, whichever of its jobs did so.

        A folder goes as a whole: rank 0 deletes it on its own machine, and others keep their parts of what is no checkpoint.
        """
        for path in map(Path, paths):
            kept = self._kept(job_id, path)
            for target in [each for each in self._known if each == path or path in each.parents]:
                if target not in kept:
                    self._remove(target, self._known[target].sha256, Brought())
            for folder, _, _ in os.walk(path, topdown=False):
                with suppress(OSError):  # something else is in it
                    os.rmdir(folder)

    def _kept(self, job_id: str, deleted: Path) -> set[Path]:
        """Return what the job still has of a path that it deleted: it may have written it anew."""
        places = {self._place(path): _node(artifact.path) for path, artifact in self._seen.get(job_id, {}).items()}
        below = {place: node for place, node in places.items() if place == deleted or deleted in place.parents}
        return set(below) if 0 in below.values() else set()

    def make_folders(self, paths: Iterable[str]) -> None:
        """Make the folders that the job left empty, where nothing else is in the way."""
        for path in map(Path, paths):
            with suppress(OSError):
                path.mkdir(parents=True, exist_ok=True)

    def _link(self, path: str, chosen: Mapping[str, Artifact]) -> None:
        """Make a link of a file that is one in the job, where what it points to came home as well."""
        artifact, target = chosen[path], self._place(path)
        known = self._known.get(target)
        if not _is_link(artifact) or known is None or known.sha256 != artifact.blob.sha256 or target.is_symlink():
            return
        for other, twin in chosen.items():
            place = self._place(other)
            here = self._known.get(place)
            if twin.blob == artifact.blob and not _is_link(twin) and here is not None and here.sha256 == twin.blob.sha256:
                target.unlink()
                target.symlink_to(os.path.relpath(place, target.parent))
                self._remember(target, artifact.blob.sha256)
                return

    def _bring_one(
        self, job_id: str, path: str, artifact: Artifact, base: Callable[[str], str | None], brought: Brought
    ) -> None:
        target, new = self._place(path), artifact.blob.sha256
        known = self._known.get(target)
        deed = decide(new, here=self._hash(target), wrote=known.sha256 if known else None, base=lambda: base(path))
        if deed is Deed.NOTHING:
            self._remember(target, new)
        elif deed is Deed.WRITE:
            self._write(artifact, target)
            brought.written.append(target)
        else:
            beside = target.with_name(f"{target.name}.{job_id}")
            self._write(artifact, beside)
            brought.beside.append((target, beside))

    def _is_the_callers(self, artifact: Artifact) -> bool:
        """Say whether the caller has a file at this path that isn't as this run brought it, whichever node's this one is."""
        target = self._place(artifact.path.partition("/")[2])
        here, known = self._hash(target), self._known.get(target)
        return here is not None and (known is None or here != known.sha256)

    def _write(self, artifact: Artifact, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        self._plane.fetch_blob(artifact.blob.sha256, target)
        os.chmod(target, artifact.mode & 0o777)
        if artifact.mtime:
            os.utime(target, (artifact.mtime, artifact.mtime))
        self._remember(target, artifact.blob.sha256)

    def _remove(self, target: Path, sha256: str, brought: Brought) -> None:
        """Remove a file that this run wrote and its job has since deleted (a checkpoint beyond top-k)."""
        known, here = self._known.get(target), self._hash(target)
        dangles = here is None and target.is_symlink()
        if known is not None and known.sha256 == sha256 and (here == sha256 or dangles):
            target.unlink()
            del self._known[target]
            brought.removed.append(target)

    def _hash(self, target: Path) -> str | None:
        """Hash the file that lies there; one that wasn't touched since we knew it isn't read again."""
        try:
            stamp = _stamp(target)
            known = self._known.get(target)
            if known is not None and known.stamp == stamp:
                return known.sha256
            with open(target, "rb") as file:
                digest = hashlib.sha256()
                while chunk := file.read(_CHUNK):
                    digest.update(chunk)
            return digest.hexdigest()
        except FileNotFoundError:
            return None

    def _remember(self, target: Path, sha256: str) -> None:
        self._known[target] = Home(sha256, _stamp(target))


def _is_link(artifact: Artifact) -> bool:
    return stat.S_ISLNK(artifact.mode)


def _stamp(path: Path) -> tuple[int, int, int]:
    facts = os.stat(path)
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


@contextmanager
def _telling(tell: Callable[[], object]) -> Iterator[None]:
    """Call ``tell`` once, from another thread, when the block takes long."""
    timer = Timer(SLOW_S, tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
