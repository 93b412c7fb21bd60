"""Source folders that tests of the bundle begin with."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path


def a_folder(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files below ``root``; a name that ends in ``/`` is an empty folder, a text ``-> x`` a link to x."""
    root.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir(exist_ok=True)
        elif isinstance(content, str) and content.startswith("-> "):
            path.symlink_to(content[3:])
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def a_repository(root: Path, files: Mapping[str, str | bytes], *, tracked: tuple[str, ...] = ()) -> Path:
    """The same, in a git repository that tracks some of them."""
    a_folder(root, files)
    git(root, "init", "-q")
    if tracked:
        git(root, "add", "-f", *tracked)
    return root


def git(root: Path, *words: str) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    subprocess.run(("git", *words), cwd=root, check=True, env={**env, "GIT_CONFIG_GLOBAL": "/dev/null"})
