"""Puts a source folder into a plane, as the bundle of a job."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from gpulayer.artifacts import bundle
from gpulayer.plane import Plane


@dataclass(frozen=True)
class StoredSource:
    """The bundle and the list of what it left out, both by their SHA-256."""

    sha256: str
    left_out: str


def store(plane: Plane, root: Path, *, home: Path, always: Sequence[Path] = ()) -> StoredSource:
    """Bundle ``root`` into the plane's store; an unchanged tree is neither zipped nor stored again.

    ``always`` names files that travel whatever the rules say. ``home`` never does, and holds what is remembered of the tree.
    """
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    memory = home / "bundles" / f"{hashlib.sha256(str(root).encode()).hexdigest()[:16]}.json"
    with TemporaryDirectory(prefix="bundle-", dir=home) as folder:
        made = bundle.pack(root, Path(folder) / "bundle.zip", never=[home], always=always, memory=memory, known=plane.has_blob)
        if made.path is not None:
            plane.put_blob(made.path)
    left_out = json.dumps([dataclasses.asdict(each) for each in made.left_out]).encode()
    return StoredSource(made.sha256, plane.put_blob(left_out).sha256)
