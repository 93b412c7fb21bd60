"""Rules of the house that import-linter can't say."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1] / "gpulayer"
MODULES = sorted(ROOT.rglob("*.py"))
HOMELESS = {"utils", "helpers", "common", "misc"}


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def exists(module: str) -> bool:
    path = ROOT.parent.joinpath(*module.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def roots_imported(tree: ast.AST) -> list[int]:
    """Return the lines that take something from the package's front, rather than from the module that has it."""
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and any(alias.name == "gpulayer" for alias in node.names):
            lines.append(node.lineno)
        if isinstance(node, ast.ImportFrom) and node.module == "gpulayer" and not node.level:
            lines += [node.lineno for alias in node.names if not exists(f"gpulayer.{alias.name}")]
    return lines


def test_nobody_imports_the_package_root() -> None:
    found = {name(path): roots_imported(ast.parse(path.read_text(encoding="utf-8"))) for path in MODULES}
    assert not {path: lines for path, lines in found.items() if lines}


def test_every_module_says_what_it_is() -> None:
    texts = {name(path): path.read_text(encoding="utf-8") for path in MODULES}
    assert not [path for path, text in texts.items() if text.strip() and not ast.get_docstring(ast.parse(text))]


def test_no_file_is_a_dumping_ground() -> None:
    assert not [name(path) for path in MODULES if HOMELESS & set(path.with_suffix("").parts[len(ROOT.parts) :])]
