"""Prints what a command found: a table for people, JSON for programs, bare ids for scripts."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeVar

import click

from gpulayer.logs.harmless import harmless

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


def print_list(
    found: Sequence[T],
    form: Form,
    *,
    facts: Callable[[T], Mapping[str, object]],
    columns: Mapping[str, Callable[[T], object]],
    id_key: str = "id",
    nothing: str = "",
) -> None:
    """Print many things. ``facts`` makes the JSON object of one, ``columns`` the cells of its row; ``nothing`` is for none."""
    if form is Form.JSON:
        print_json([dict(facts(one)) for one in found])
    elif form is Form.QUIET:
        for one in found:
            click.echo(harmless(str(facts(one)[id_key])))
    elif found:
        click.echo(table(list(columns), [[_cell(make(one)) for make in columns.values()] for one in found]))
    elif nothing:
        click.echo(nothing, err=True)


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
    click.echo(json.dumps(value, indent=2, default=str))


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out cells in columns, two spaces apart; the last one isn't padded."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    return "\n".join("  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in (header, *rows))


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
