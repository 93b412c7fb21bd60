"""What belongs to the Python installation and not to a project: packages, and the scripts of installed commands."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

_PACKAGES = frozenset({"site-packages", "dist-packages"})
_PLACES = ("stdlib", "platstdlib", "purelib", "platlib", "scripts")


def is_installed(path: Path) -> bool:
    """Say whether a file belongs to the installation; one may build on another (a virtual environment with its base's)."""
    places = {sysconfig.get_path(name) for name in _PLACES}
    return not _PACKAGES.isdisjoint(path.parts) or any(path.is_relative_to(place) for place in places if place)


def command(file: Path) -> str | None:
    """Return the ``module:function`` that the script of an installed command calls, None for any other file."""
    folders = {os.path.realpath(folder) for folder in _command_folders()}
    if os.path.realpath(file.parent) not in folders and os.path.realpath(file.resolve().parent) not in folders:
        return None
    found = next(iter(metadata.entry_points(group="console_scripts", name=file.name)), None)
    return None if found is None else f"{found.module}:{found.attr}"


def project_of(function: str) -> Path | None:
    """Return the folder from which the module of ``module:function`` is imported, None where it is an installed one."""
    module: Any = sys.modules.get(function.partition(":")[0])
    file = getattr(module, "__file__", None)
    if file is None or is_installed(Path(file)):
        return None
    return above_packages(Path(os.path.abspath(file)), module.__name__)


def above_packages(file: Path, module: str) -> Path:
    """Return the folder above the packages of a module whose code is in ``file``."""
    return file.parents[module.count(".") + (1 if file.name in ("__init__.py", "__main__.py") else 0)]


def import_folders(root: Path, path: Sequence[str], python_path: str) -> list[str]:
    """Return the folders below a source folder from which an interpreter imports before it runs anything.

    They come from PYTHONPATH and from what is installed as editable; ``path`` is ``sys.path``, where the program may have put
    others in front meanwhile.
    """
    stdlib = sysconfig.get_path("stdlib")
    after = list(path[path.index(stdlib) + 1 :]) if stdlib in path else []
    known = [os.path.abspath(folder) for folder in (*filter(None, python_path.split(os.pathsep)), *after) if folder]
    ours = [folder for folder in known if Path(folder).is_relative_to(root) and not is_installed(Path(folder))]
    return [os.path.relpath(folder, root) for folder in dict.fromkeys(ours) if os.path.isdir(folder)]


def _command_folders() -> Iterator[str]:
    for scheme in (sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user")):
        yield sysconfig.get_path("scripts", scheme)
