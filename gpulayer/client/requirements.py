"""The packages that a job asks for, read from the files in which people keep them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.requirements import InvalidRequirement as Unreadable
from packaging.requirements import Requirement

from gpulayer.errors import InvalidRequirement

_COMMENT = re.compile(r"(^|\s)#.*$")
_OPTION = re.compile(r"\s--hash[=\s]")


def gather(given: Iterable[str], file: str | Path | None) -> tuple[str, ...]:
    """Return what a job says of its requirements: those that were given, and those of a file."""
    found = (*given, *(() if file is None else read(Path(file))))
    bare = [line for line in found if not _OPTION.search(line)]
    if bare and len(bare) < len(found):
        raise InvalidRequirement(
            f"{bare[0]!r} has no hash, and others have: pip takes hashes for all or for none.",
            next_step="Lock it too, or leave the hashes out.",
        )
    return found


def read(path: Path) -> tuple[str, ...]:
    """Read a requirements file, or a lock by the name of ``pylock.toml``; raises ``InvalidRequirement`` that names the line."""
    if path.name == "uv.lock":
        raise InvalidRequirement(
            f"{path} is uv's own kind of lock.",
            next_step="Write it as one for everybody: uv export --format pylock.toml -o pylock.toml",
        )
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as cause:
        raise InvalidRequirement(f"{path} can't be read: {cause}.") from cause
    is_lock = path.name == "pylock.toml" or (path.name.startswith("pylock.") and path.suffix == ".toml")
    return tuple(_of_lock(path, text) if is_lock else _of_lines(path, text))


def _of_lines(path: Path, text: str) -> Iterator[str]:
    begun, number = "", 0
    for at, line in enumerate(text.splitlines(), 1):
        number = number if begun else at
        begun += _COMMENT.sub("", line).strip()
        if begun.endswith("\\"):
            begun = begun[:-1] + " "
            continue
        words, begun = " ".join(begun.split()), ""
        if not words:
            continue
        if words.startswith(("-r ", "--requirement ")):
            yield from read(path.parent / words.partition(" ")[2])
        elif words.startswith("-"):
            raise InvalidRequirement(
                f"{path}, line {number}: {words.split()[0]} is an option of pip.",
                next_step="Give it by a variable (env={'PIP_INDEX_URL': ...}); an editable package is for source_dir.",
            )
        else:
            yield checked(words, f"{path}, line {number}")


def checked(words: str, where: str) -> str:
    """Return one requirement as it is, if it can be read."""
    try:
        Requirement(_OPTION.split(words)[0].strip())
    except Unreadable as cause:
        raise InvalidRequirement(f"{where}: {words!r} is no requirement: {str(cause).splitlines()[0]}.") from cause
    return words


def _of_lock(path: Path, text: str) -> Iterator[str]:
    """Return the packages of a lock (PEP 751), each with its version, its marker, and the hashes of its files."""
    try:
        packages = tomllib.loads(text)["packages"]
        for package in packages:
            yield checked(_locked(package), f"{path}, {package['name']}")
    except (tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError) as cause:
        raise InvalidRequirement(f"{path} is no lock of packages: {type(cause).__name__}: {cause}.") from cause


def _locked(package: dict[str, object]) -> str:
    name, version, marker = package["name"], package.get("version"), package.get("marker")
    if version is None:
        raise InvalidRequirement(
            f"{name} is locked to a folder or repository, which doesn't travel.", next_step="Lock a version of it."
        )
    files = [*_list(package.get("wheels")), *_list([package["sdist"]] if "sdist" in package else [])]
    hashes = "".join(f" --hash=sha256:{file['hashes']['sha256']}" for file in files)
    return f"{name}=={version}" + (f" ; {marker}" if marker else "") + hashes


def _list(value: object) -> list[dict[str, dict[str, str]]]:
    return value if isinstance(value, list) else []
