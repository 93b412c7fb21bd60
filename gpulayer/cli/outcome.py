"""How a command ends: exit codes, and our errors as a sentence without a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from gpulayer.errors import BadRequest, GPULayerError, InvalidJob, InvalidSecret, NotFound, SecretNotFound, TokenNotFound
from gpulayer.logs.harmless import harmless

FAILED, WRONG_USE, INTERRUPTED = 1, 2, 130


class Refusal(click.ClickException):
    """One of our errors as click shows it: the sentence, then the next step on a line of its own."""

    exit_code = FAILED

    def __init__(self, error: GPULayerError) -> None:
        super().__init__(harmless("\n".join(filter(None, (error.sentence, error.next_step))), lines=True))


class WrongUse(Refusal):
    """The same for what the person asked for."""

    exit_code = WRONG_USE


_WRONG_USE = (InvalidJob, NotFound, BadRequest, InvalidSecret, SecretNotFound, TokenNotFound)


@contextmanager
def as_click() -> Iterator[None]:
    """Turn errors of our tree and Ctrl-C into what click prints and the exit code that we promise."""
    try:
        yield
    except GPULayerError as error:
        raise (WrongUse if isinstance(error, _WRONG_USE) else Refusal)(error) from error
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None
