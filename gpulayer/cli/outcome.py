"""How a command ends: exit codes, and our errors as a sentence without a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from gpulayer.errors import GPULayerError, InvalidJob, NotFound

FAILED, WRONG_USE, INTERRUPTED = 1, 2, 130


class Refusal(click.ClickException):
    """One of our errors as click shows it: the sentence, then the next step on a line of its own."""

    exit_code = FAILED

    def __init__(self, error: GPULayerError) -> None:
        super().__init__("\n".join(filter(None, (error.sentence, error.next_step))))


class WrongUse(Refusal):
    """The same for what the person asked for."""

    exit_code = WRONG_USE


@contextmanager
def as_click() -> Iterator[None]:
    """Turn errors of our tree and Ctrl-C into what click prints and the exit code that we promise."""
    try:
        yield
    except GPULayerError as error:
        raise (WrongUse if isinstance(error, (InvalidJob, NotFound)) else Refusal)(error) from error
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None
