"""Whether a worker could import a module, judged without importing it."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from gpulayer.errors import EntrypointMissing


def check(module: str, folders: Sequence[Path]) -> None:
    """Raise ``EntrypointMissing`` for a module that is neither in one of ``folders`` nor installed here."""
    if not any(_is_in(folder, module) for folder in folders) and not _is_installed(module, folders):
        raise EntrypointMissing(
            f"There is no module {module} in {folders[0]}, and none is installed here.",
            next_step="Stand in the folder that holds it, or name that folder with --source.",
            module=module,
        )


def _is_in(folder: Path, module: str) -> bool:
    """Say whether the folder has what an import of the module would look for."""
    *above, name = module.split(".")
    inside = folder.joinpath(*above)
    return (inside / name).is_dir() or (inside / f"{name}.py").is_file() or any(inside.glob(f"{name}.*so"))


def _is_installed(module: str, folders: Sequence[Path]) -> bool:
    """Say whether its package can be imported from elsewhere; to look for a module in it would run the package."""
    try:
        found = importlib.util.find_spec(module.partition(".")[0])
    except (ImportError, ValueError):
        return False
    if found is None:
        return False
    places = found.submodule_search_locations or [found.origin or ""]
    return not any(Path(place).parent in folders for place in places)
