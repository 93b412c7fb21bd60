"""``gpulayer tokens``: make, list and revoke the tokens of a self-hosted plane."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import click

from gpulayer import settings
from gpulayer.cli.opened import opened
from gpulayer.cli.output import Form, age, print_json, print_list, with_forms
from gpulayer.spec.tokens import NewToken, TokenRecord, TokenRequest, seconds


class Desk(Protocol):
    """Where tokens are managed: over HTTP, or in the database on the server's own machine."""

    def create_token(self, request: TokenRequest) -> NewToken: ...

    def tokens(self) -> list[TokenRecord]: ...

    def revoke_token(self, token_id: str) -> None: ...


@click.group()
def command() -> None:
    """Make, list and revoke the tokens of a self-hosted plane.

    With GPULAYER_URL and an admin's token from anywhere; or on the server's own machine, with the --data or --database that
    the server has.
    """


_WHERE = (
    click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="The folder of the server on this machine."),
    click.option("--database", metavar="URL", help="The database of the server: sqlite:///PATH or postgresql://..."),
)


def _on_a_desk(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_WHERE):
        command = option(command)
    return command


@command.command()
@click.option("--role", type=click.Choice(["admin", "user", "join", "task"]), required=True, help="What its holder may do.")
@click.option("--name", default="", help="What it is for, to know it by in the list.")
@click.option(
    "--ttl",
    callback=lambda _ctx, _param, text: _seconds(text),
    metavar="DURATION",
    help="How long it is good for (1h, 7d); for ever when not given.",
)
@click.option("--single-use", is_flag=True, help="A join token for one worker.")
@click.option("--job", "subject", default="", metavar="ID", help="The job that a task token speaks for.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_on_a_desk
def create(
    role: Any,
    name: str,
    ttl: float | None,
    single_use: bool,
    subject: str,
    as_json: bool,
    data: Path | None,
    database: str | None,
) -> None:
    """Make a token and print it, this once."""
    request = TokenRequest(role=role, name=name, ttl_s=ttl, single_use=single_use, subject=subject)
    with _desk(data, database) as desk:
        made = desk.create_token(request)
    if as_json:
        print_json({"token": made.token, **made.model_dump(mode="json", exclude={"token"})})
        return
    click.echo(made.token)
    click.echo(f"gpulayer: this is {made.id}, shown only now. {_ADVICE[role]}", err=True)


_ADVICE = {
    "admin": "Keep it in a file that you alone can read, and name that with GPULAYER_TOKEN_FILE.",
    "user": "Its holder sets GPULAYER_URL, and GPULAYER_TOKEN or GPULAYER_TOKEN_FILE.",
    "join": "On the machine that is to work: GPULAYER_TOKEN=... gpulayer --url URL worker start",
    "task": "It reads and writes the files of its job, and nothing else.",
}


@command.command()
@with_forms()
@_on_a_desk
def ls(form: Form, data: Path | None, database: str | None) -> None:
    """List all tokens, without their texts."""
    now = time.time()
    with _desk(data, database) as desk:
        found = desk.tokens()
    columns: dict[str, Callable[[TokenRecord], object]] = {
        "ID": lambda token: token.id,
        "ROLE": lambda token: token.role,
        "FOR": lambda token: token.name or token.subject,
        "STATE": lambda token: token.state(now),
        "AGE": lambda token: age(token.created_at, now),
        "USED": lambda token: age(max(filter(None, (token.last_used_at, token.redeemed_at)), default=None), now),
    }
    nothing = "No tokens yet: gpulayer tokens create --role admin makes the first."
    print_list(
        found,
        form,
        facts=lambda token: token.model_dump(mode="json") | {"state": token.state(now)},
        columns=columns,
        nothing=nothing,
    )


@command.command()
@click.argument("token_id", metavar="ID")
@_on_a_desk
def revoke(token_id: str, data: Path | None, database: str | None) -> None:
    """Make a token good for nothing, by its id or a unique prefix of it."""
    with _desk(data, database) as desk:
        desk.revoke_token(token_id)
    click.echo(token_id)


def _seconds(text: str | None) -> float | None:
    try:
        return None if text is None else seconds(text)
    except ValueError as cause:
        raise click.BadParameter(str(cause)) from cause


@contextmanager
def _desk(data: Path | None, database: str | None) -> Iterator[Desk]:
    found = settings.read()
    if found.url is not None and data is None and database is None:
        from gpulayer.plane.remote import RemotePlane

        with opened() as plane:
            assert isinstance(plane, RemotePlane)
            yield plane
        return
    from gpulayer.control.server.token_desk import on_this_machine  # it takes a while to import, and needs no plane at a URL

    with on_this_machine((data or found.home / "server").absolute(), database) as desk:
        yield desk
