"""Every ``gpulayer ...`` that a page or a deployment file shows names verbs and options that there are."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from gpulayer.cli.main import command
from tests.docs.test_pages import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "how-to").glob("*.md")), *sorted((ROOT / "deploy").iterdir())]
BARE = {"deploy/compose.yaml": r"^ +command: (?:>-\s+)?(.*(?:\n {6}--.*)*)", "deploy/Dockerfile": r"^CMD (\[.*\])"}
"""Where commands stand without the program's name."""
SHOWN = re.compile(r"(?:^|[ `(]|bin/)gpulayer ((?:--)?[a-z][^`\n|#]*)", re.MULTILINE)
"""Up to a pipe, a comment or the end of the code."""


def shown() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        name, text = page.relative_to(ROOT).as_posix(), re.sub(r"\\\n#?", "", page.read_text(encoding="utf-8"))
        yield from ((name, words) for words in SHOWN.findall(text) if ours(words))
        for words in re.findall(BARE[name], text, re.MULTILINE) if name in BARE else ():
            yield name, re.sub(r'[\[\],"]', " ", " ".join(words.split()))


def ours(words: str) -> bool:
    """Say whether it is a command line, and not the program's name in a sentence or another program's argument."""
    return words.startswith("--") or words.split()[0].strip(".,;:)") in command.list_commands(click.Context(command))


@pytest.mark.parametrize(("page", "line"), sorted(set(shown())))
def test_a_command_line_names_what_there_is(page: str, line: str) -> None:
    check(command, shlex.split(re.sub(r"(>|<|&&|\$\().*", "", line).replace("'", "")))


def check(found: click.Command, words: list[str]) -> None:
    """Follow the words down to the verb, and fail at the first that there isn't."""
    ctx = click.Context(found, resilient_parsing=True)
    options = {name: option for option in found.params if isinstance(option, click.Option) for name in option.opts}
    while words:
        word, *words = words
        name, given, _ = word.partition("=")
        if word == "--" or (word.startswith("$") and not words):
            return None
        if name.startswith("-"):
            assert name in options, f"{found.name} has no {name}"
            takes = not given and not options[name].is_flag
            words = words[1:] if takes else words
        elif isinstance(found, click.Group):
            below = found.get_command(ctx, word.strip(".,;:)"))
            assert below is not None, f"{found.name} has no {word}"
            return check(below, words)
    return None


def test_a_wrong_verb_or_option_is_found() -> None:
    for wrong in ("workers stop red", "worker start --nmae red", "--colour tokens ls"):
        with pytest.raises(AssertionError, match="has no"):
            check(command, wrong.split())


def test_all_kinds_of_pages_show_some() -> None:
    seen = {page for page, _ in shown()}
    assert {"docs/how-to/self-host.md", "deploy/compose.yaml", "deploy/Dockerfile", "deploy/gpulayer-worker.service"} <= seen
