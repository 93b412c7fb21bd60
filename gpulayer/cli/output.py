"""Prints what a command found: a table for people, JSON for programs, bare ids for scripts."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

import click

from gpulayer.logs.harmless import harmless

WATCH_S = 1.0
_SHORTEST = 6

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Form(StrEnum):
    TABLE = "table"
    JSON = "json"
    QUIET = "quiet"


def with_forms(quiet: bool = True) -> Callable[[F], F]:
    """Give a command the argument ``form``, chosen by ``--json`` (and ``-q``, where ids alone make sense)."""

    def add(command: F) -> F:
        if quiet:
            command = _flag("-q", "--quiet", Form.QUIET, "Print ids alone.")(command)
        return _flag("--json", None, Form.JSON, "Print JSON.")(command)

    return add


def _flag(name: str, long: str | None, form: Form, help_text: str) -> Callable[[F], F]:
    names = [name, long, "form"] if long else [name, "form"]
    return click.option(*names, flag_value=form.value, default=Form.TABLE.value, type=Form, help=help_text)


@dataclass(frozen=True)
class Listing(Generic[T]):
    """How many things of a kind are printed.

    ``facts`` makes the JSON object of one, ``columns`` the cells of its row; ``nothing`` is said where there are none.
    """

    facts: Callable[[T], Mapping[str, object]]
    columns: Mapping[str, Callable[[T], object]]
    id_key: str = "id"
    nothing: str = ""

    def print(self, found: Sequence[T], form: Form) -> None:
        """Print them once."""
        if text := self.text(found, form, _screen_width()):
            click.echo(text)
        elif self.nothing and form is Form.TABLE:
            click.echo(self.nothing, err=True)

    def watch(self, ask: Callable[[], Sequence[T]], form: Form) -> None:
        """Print them again and again: in a terminal in one place, into a pipe after each change. Ctrl-C is how it ends."""
        from rich.live import Live
        from rich.text import Text

        last = None
        with suppress(KeyboardInterrupt), ExitStack() as opened:
            live = opened.enter_context(Live(screen=True, auto_refresh=False)) if sys.stdout.isatty() else None
            while True:
                text = self.text(ask(), form, _screen_width()) or self.nothing
                if text != last and live is not None:
                    live.update(Text(text, no_wrap=True, overflow="ellipsis"), refresh=True)
                elif text != last:
                    click.echo(text)
                last = text
                time.sleep(WATCH_S)

    def text(self, found: Sequence[T], form: Form, width: int | None = None) -> str:
        """Return what is printed of them, without its last newline; a table is made to fit ``width``."""
        if form is Form.JSON:
            return _json([dict(self.facts(one)) for one in found])
        if form is Form.QUIET:
            return "\n".join(harmless(str(self.facts(one)[self.id_key])) for one in found)
        rows = [[_cell(make(one)) for make in self.columns.values()] for one in found]
        return _table(list(self.columns), rows, width) if rows else ""


def print_list(
    found: Sequence[T],
    form: Form,
    *,
    facts: Callable[[T], Mapping[str, object]],
    columns: Mapping[str, Callable[[T], object]],
    id_key: str = "id",
    nothing: str = "",
) -> None:
    """Print many things once."""
    Listing(facts, columns, id_key, nothing).print(found, form)


def _screen_width() -> int | None:
    """Return how wide the terminal is; None where nobody looks at one."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def with_watch(command: F) -> F:
    """Give a command the flag ``watch``."""
    return click.option("--watch", is_flag=True, help="Show it again whenever it changes, until Ctrl-C.")(command)


def print_one(facts: Mapping[str, object], form: Form, *, shown: Mapping[str, object] | None = None) -> None:
    """Print one thing, as JSON or as aligned ``name  value`` lines (of ``shown``, when people should see less)."""
    if form is Form.JSON:
        print_json(dict(facts))
        return
    pairs = {key: value for key, value in (shown or facts).items() if value not in (None, "", (), [])}
    width = max(map(len, pairs), default=0)
    for key, value in pairs.items():
        first, *more = [harmless(line) for line in _words(value).split("\n")]
        click.echo(f"{key:<{width}}  {first}")
        for line in more:
            click.echo(f"{'':<{width}}  {line}")


def print_json(value: object) -> None:
    click.echo(_json(value))


def _json(value: object) -> str:
    return json.dumps(value, indent=2, default=str)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> str:
    """Lay out cells in columns, two spaces apart; the last one isn't padded. Long cells are cut where all don't fit."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    over = 0 if width is None else sum(widths) + 2 * (len(widths) - 1) - width
    while over > 0 and max(widths[1:]) > _SHORTEST:
        widest = max(range(1, len(widths)), key=widths.__getitem__)  # never the first: it is what other commands are given
        widths[widest] -= 1
        over -= 1
    lines = ("  ".join(f"{_cut(cell, w):<{w}}" for cell, w in zip(row, widths, strict=True)) for row in (header, *rows))
    return "\n".join(line.rstrip() for line in lines)


def _cut(cell: str, width: int) -> str:
    return cell if len(cell) <= width else cell[: width - 1] + "…"


def _cell(value: object) -> str:
    return harmless(_words(value))


def _words(value: object) -> str:
    return "-" if value is None or value == "" else str(value)


def age(then: float | None, now: float | None = None) -> str | None:
    """Say how long ago ``then`` was, as ``3m``; None stays None."""
    return None if then is None else span((time.time() if now is None else now) - then)


def span(seconds: float) -> str:
    """Say a duration in one unit that fits: ``7s``, ``3m``, ``5h``, ``2d``."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


def size(count: int) -> str:
    """Say a number of bytes in the unit that fits, in powers of 1000 as everywhere in GPUlayer."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{int(value)} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
