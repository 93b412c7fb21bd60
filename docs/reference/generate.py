"""Writes docs/reference/cli.md and errors.md from the code: `make docs`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from gpulayer import errors
from gpulayer.cli.main import command

HERE = Path(__file__).parent
CLI_HEAD = """# Command line

Made from the code by `make docs`; don't edit. `python -m gpulayer` is the same program. Ids may be cut to any unique prefix.

Exit codes: 0 done, 1 the job failed (or something of ours did), 2 wrong use, 130 interrupted.
"""
ERRORS_HEAD = """# Errors

Made from the code by `make docs`; don't edit. All of them are in `gpulayer.errors`. Each has a `sentence`, a
`next_step`, `facts` (plain data), and a `code` that is stable. The user's own exceptions are not here: they arrive as
themselves.

| class | is a | code | next step |
|---|---|---|---|
"""


def pages() -> dict[Path, str]:
    """Return the text of each generated page."""
    return {HERE / "cli.md": cli_page(), HERE / "errors.md": errors_page()}


def cli_page() -> str:
    return CLI_HEAD + "".join(_sections(command, click.Context(command, info_name="gpulayer")))


def _sections(group: click.Group, ctx: click.Context) -> Iterator[str]:
    for name in group.list_commands(ctx):
        found = group.get_command(ctx, name)
        assert found is not None
        below = click.Context(found, info_name=name, parent=ctx)
        yield _section(found, below)
        if isinstance(found, click.Group):
            yield from _sections(found, below)


def _section(found: click.Command, ctx: click.Context) -> str:
    level = "##" if ctx.parent is not None and ctx.parent.parent is None else "###"
    usage = " ".join([ctx.command_path, *found.collect_usage_pieces(ctx)])
    options = "".join(f"- `{names}`: {_sentence(text)}\n" for names, text in _options(found, ctx))
    text = " ".join((found.help or "").split())
    return f"\n{level} {ctx.command_path}\n\n    {usage}\n\n{text}\n" + (f"\n{options}" if options else "")


def _options(found: click.Command, ctx: click.Context) -> list[tuple[str, str]]:
    options = [param for param in found.params if isinstance(param, click.Option)]
    return [record for option in options if (record := option.get_help_record(ctx))]


def _sentence(text: str) -> str:
    return " ".join(text.split())


def errors_page() -> str:
    return ERRORS_HEAD + "".join(_row(cls) for cls in _tree(errors.GPULayerError))


def _tree(cls: type[errors.GPULayerError]) -> Iterator[type[errors.GPULayerError]]:
    yield cls
    for child in cls.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from _tree(child)


def _row(cls: type[errors.GPULayerError]) -> str:
    above = ", ".join(base.__name__ for base in cls.__bases__)
    return f"| `{cls.__name__}` | {above} | `{cls.code}` | {cls.fix.replace('|', '/')} |\n"


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
