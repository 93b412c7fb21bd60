"""Tiny packages, as files that pip installs without asking anyone."""

from __future__ import annotations

import zipfile
from pathlib import Path


def wheel(folder: Path, name: str, version: str = "1.0", *, needs: tuple[str, ...] = (), text: str = "") -> str:
    """Write a package of one module; returns the requirement that names the file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    about = f"{name}-{version}.dist-info"
    asked = "".join(f"Requires-Dist: {need}\n" for need in needs)
    files = {
        f"{name}.py": text or f"version = {version!r}\n",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{asked}",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/entry_points.txt": f"[console_scripts]\n{name}-says = {name}:main\n",
    }
    files[f"{about}/RECORD"] = "".join(f"{each},,\n" for each in (*files, f"{about}/RECORD"))
    with zipfile.ZipFile(path, "w") as archive:
        for each, content in files.items():
            archive.writestr(each, content)
    return f"{name} @ {path.as_uri()}"
