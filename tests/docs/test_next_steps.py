"""What an error tells a person to do next can be done: the commands, options and names in it exist."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

import gpulayer
from gpulayer import errors
from gpulayer.cli.main import command

SOURCES = Path(gpulayer.__file__).parent
_COMMAND = re.compile(r"gpulayer((?: -{0,2}[a-zA-Z][\w-]*)+)")
_NAME = re.compile(r"\bgpulayer\.([a-z_]+)\b")
_QUOTED = re.compile(r"`(gpulayer [^`]*)`")


def not_there(said: str) -> list[str]:
    """Return the words of the command lines in ``said`` that our command line doesn't know."""
    return [word for found in _COMMAND.findall(said) for word in _unknown(found.split())]


def _unknown(words: list[str]) -> list[str]:
    here: click.Command = command
    ctx = click.Context(here, info_name="gpulayer")
    while isinstance(here, click.Group) and words:
        word, *words = words
        below = here.get_command(ctx, word)
        if below is None:
            return [word]
        here = below
    known = {text for param in here.params for text in param.opts}
    return [word for word in words if word.startswith("-") and word not in known]


@pytest.mark.parametrize("cls", errors._tree(errors.GPULayerError), ids=lambda cls: cls.__name__)
def test_the_next_step_of_an_error_exists(cls: type[errors.GPULayerError]) -> None:
    assert not_there(cls.fix) == []
    assert [name for name in _NAME.findall(cls.fix) if not hasattr(gpulayer, name)] == []


def test_every_command_line_that_our_sentences_quote_exists() -> None:
    told = {said for path in SOURCES.rglob("*.py") for said in _QUOTED.findall(path.read_text(encoding="utf-8"))}
    assert len(told) > 5
    assert {said: missing for said in told if (missing := not_there(said))} == {}


def test_a_command_that_is_not_there_is_found() -> None:
    assert not_there("Try gpulayer jobs again ID, or `gpulayer jobs rm --hard ID`.") == ["again", "--hard"]


def test_a_job_that_nobody_can_run_names_the_option_as_well_as_the_field() -> None:
    assert "--queue" in errors.Unschedulable.fix
    assert "on_unschedulable='queue'" in errors.Unschedulable.fix
