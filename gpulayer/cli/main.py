"""The command line's front: the verbs by name, each loaded when it is asked for."""

from __future__ import annotations

import importlib
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from gpulayer import settings
from gpulayer.cli.outcome import as_click

COMMANDS = {
    "run": "Run a command as a job.",
    "launch": "Run a script under torchrun on one or several workers, as a job.",
    "call": "Call a function as a job, and print what it returns.",
    "jobs": "List, show, follow, cancel and remove jobs.",
    "artifacts": "List, fetch and forget the files that a job left.",
    "gc": "Forget old jobs, with their logs and files.",
    "workers": "List, drain and remove workers.",
    "worker": "Make this machine a worker of a plane.",
    "up": "Have workers stay on this machine, so that jobs can be left.",
    "down": "Send these workers away.",
    "server": "Run a self-hosted plane.",
    "tokens": "Make, list and revoke tokens of a self-hosted plane.",
    "secrets": "Set, list and remove values that jobs get by name.",
    "package": "Show what a job would bring along of your source.",
    "resources": "Show what this machine offers to jobs.",
    "doctor": "Check whether jobs can run here.",
    "completion": "Print what makes a shell complete our commands.",
    "version": "Print the versions in use.",
}
"""Every noun or verb is a module beside this one, whose ``command`` is the click command."""

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


class Front(click.Group):
    """Loads a command's module only when it runs, so that ``--help`` costs no more than click."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        found = importlib.import_module(f"gpulayer.cli.{cmd_name}").command
        assert isinstance(found, click.Command)
        return found

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        verbs = [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return verbs + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> object:
        with as_click():
            return super().invoke(ctx)


def _profile_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from gpulayer.cli import completing  # it needs more than click

    return completing.profile_names(ctx, param, incomplete)


@click.group(cls=Front, name="gpulayer", context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--profile",
    metavar="NAME",
    help="The profile of ~/.config/gpulayer/config.toml to use, instead of GPULAYER_PROFILE.",
    shell_complete=_profile_names,
)
@click.option("--url", metavar="URL", help="The plane to speak to, instead of GPULAYER_URL.")
@click.option("--token-file", type=_FILE, help="The file that holds the token for it, instead of GPULAYER_TOKEN.")
@click.option("--ca-cert", type=_FILE, help="Who may vouch for it (PEM), instead of GPULAYER_CA_CERT.")
@click.pass_context
def command(ctx: click.Context, profile: str | None, url: str | None, token_file: Path | None, ca_cert: Path | None) -> None:
    """Run training and other jobs on this machine or on a plane, and look after them.

    Jobs, their logs and their files live in GPULAYER_HOME (~/.gpulayer), or at the plane that GPULAYER_URL names. Exit
    codes: 0 done, 1 the job failed, 2 wrong use, 130 interrupted.
    """
    ctx.with_resource(settings.saying(profile=profile, url=url, token_file=token_file, ca_cert=ca_cert))
    if token_file is not None and settings.read().url is None:
        raise click.UsageError("--token-file opens a plane, and none is named: give --url, or set GPULAYER_URL.")


def main() -> None:
    """Run the command line on this process's arguments."""
    command(prog_name="gpulayer")
