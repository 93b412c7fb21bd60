"""What of the caller's environment a job gets: what was written for it, and what was named to be forwarded."""

from __future__ import annotations

import fnmatch
import io
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from gpulayer.errors import InvalidJob

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_OURS = "GPULAYER_"


def gather(
    environ: Mapping[str, str], *, env: Mapping[str, str], env_file: str | Path | None, forward_env: Iterable[str]
) -> dict[str, str]:
    """Return a job's variables: those that ``forward_env`` names, over them the file's, over them ``env``'s."""
    return {**forwarded(environ, forward_env), **({} if env_file is None else read_file(Path(env_file))), **env}


def forwarded(environ: Mapping[str, str], patterns: Iterable[str]) -> dict[str, str]:
    """Return the variables whose names match (``LR``, ``WANDB_*``). Ours stay here: a token opens more than one job."""
    wanted = tuple(patterns)
    return {
        name: value
        for name, value in environ.items()
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in wanted) and _NAME.match(name) and not name.startswith(_OURS)
    }


def read_file(path: Path) -> dict[str, str]:
    """Read a file of ``NAME=value`` lines as dotenv does; raises ``InvalidJob`` for none, and for a line that is none."""
    from dotenv import dotenv_values
    from dotenv.parser import parse_stream

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as cause:
        raise InvalidJob(
            f"The env file {path} can't be read: {cause}.", next_step="Name a file of NAME=value lines."
        ) from cause
    for line in parse_stream(io.StringIO(text)):
        if line.error:
            text = line.original.string
            number = line.original.line + len(text) - len(text.lstrip("\n"))
            raise InvalidJob(
                f"{path}, line {number}: {text.strip()!r} is no NAME=value.",
                next_step="Mend the line, or begin it with #.",
            )
    found = dotenv_values(stream=io.StringIO(text))
    return {name: value for name, value in found.items() if value is not None}
