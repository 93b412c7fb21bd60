"""``gpulayer package``: what a job would bring along of your source, and why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from gpulayer import settings
from gpulayer.artifacts import bundle
from gpulayer.artifacts.bundle import Row
from gpulayer.cli.output import Form, print_json, print_list, size, with_forms

COLUMNS: dict[str, Callable[[Row], object]] = {
    "SENT": lambda row: "yes" if row.sent else "no",
    "SIZE": lambda row: None if row.size is None else size(row.size),
    "RULE": lambda row: row.rule,
    "PATH": lambda row: row.path,
}


@click.command()
@click.argument("path", type=click.Path(exists=True, path_type=Path), default=".")
@click.option("--explain", is_flag=True, help="Name every file with its size and the rule that decided.")
@click.option("--source", type=click.Path(exists=True, file_okay=False), help="The folder that travels.")
@with_forms(quiet=False)
def command(path: Path, explain: bool, source: str | None, form: Form) -> None:
    """Show what a job of the script or folder PATH would bring along of your source."""
    script = path.absolute()
    root = bundle.find_root(script / "-" if script.is_dir() else script, source)
    always = [script] if script.is_file() and script.is_relative_to(root) else []
    rows = bundle.explain(root, never=[settings.read().home], always=always)
    sent = [row for row in rows if row.sent]
    if explain:
        print_list(rows, form, facts=row_facts, columns=COLUMNS, nothing="The folder is empty.")
    elif form is Form.JSON:
        print_json({"root": str(root), "files": len(sent), "bytes": _bytes(sent), "left_out": len(rows) - len(sent)})
    if form is not Form.JSON:
        click.echo(f"{root}: {len(sent)} files, {size(_bytes(sent))}; {len(rows) - len(sent)} entries stay here", err=explain)


def row_facts(row: Row) -> dict[str, object]:
    """Return the object that ``package --explain --json`` prints of each path."""
    return {"path": row.path, "size": row.size, "rule": row.rule, "sent": row.sent}


def _bytes(rows: list[Row]) -> int:
    return sum(row.size or 0 for row in rows)
