"""What the pages show exists: links lead somewhere, code compiles, names are there, files are where they are said to be."""

from __future__ import annotations

import ast
import importlib
import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted((ROOT / "docs").rglob("*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
OURS = {"gl": "gpulayer"}


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks() -> list[tuple[str, str]]:
    return [(name(page), code) for page in PAGES for code in BLOCK.findall(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    broken = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if not (page.parent / link).exists()]
    assert not broken


@pytest.mark.parametrize(("page", "code"), blocks())
def test_the_names_of_ours_in_code_blocks_exist(page: str, code: str) -> None:
    for module, attribute in ours_in(ast.parse(textwrap.dedent(code))):
        assert hasattr(importlib.import_module(module), attribute), f"{page} uses {module}.{attribute}"


def ours_in(tree: ast.AST) -> list[tuple[str, str]]:
    """List what a program takes from our package: ``gl.Trainer``, ``from gpulayer.x import y``."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("gl", "gpulayer"):
            found.append((OURS.get(node.value.id, node.value.id), node.attr))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "gpulayer":
            found += [(str(node.module), alias.name) for alias in node.names]
    return found


def test_files_named_in_the_architecture_exist() -> None:
    text = (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:control|spec|strategies|client|worker|runtime|artifacts|logs)/[\w/]*(?:\.py)?)`", text)
    assert named
    assert not [path for path in named if not (ROOT / "gpulayer" / path).exists()]


def test_every_decision_is_listed() -> None:
    text = (ROOT / "docs/adr/README.md").read_text(encoding="utf-8")
    assert not [page.name for page in (ROOT / "docs/adr").glob("[0-9]*.md") if page.name not in text]
