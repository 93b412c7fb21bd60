"""``gpulayer completion``: what makes a shell complete our commands, options and ids."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from gpulayer.errors import UnsupportedPlatform


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print what makes a shell complete commands, options and ids.

    bash: eval "$(gpulayer completion bash)" in ~/.bashrc. zsh: the same with zsh in ~/.zshrc. fish: gpulayer completion fish >
    ~/.config/fish/completions/gpulayer.fish.
    """
    from gpulayer.cli.main import command as front

    made = get_completion_class(shell)
    if made is None:
        raise UnsupportedPlatform(f"click knows no {shell}.")
    click.echo(made(front, {}, "gpulayer", "_GPULAYER_COMPLETE").source())
