"""``gpulayer server``: a plane of its own for many machines and people."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click

from gpulayer import settings


@click.group()
def command() -> None:
    """Run a self-hosted plane."""


_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@command.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen; 0.0.0.0 is every address.")
@click.option("--port", type=click.IntRange(0, 65535), default=8470, show_default=True, help="0 takes a free one.")
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="Its folder.  [default: GPULAYER_HOME/server]")
@click.option("--database", metavar="URL", help="sqlite:///PATH or postgresql://...  [default: DATA/plane.db]")
@click.option("--artifacts", metavar="URL", help="Where blobs go, any fsspec URL (s3://...).  [default: DATA/blobs]")
@click.option("--tls-cert", type=_FILE, help="Certificate (PEM).  [default: one of its own, unless on loopback]")
@click.option("--tls-key", type=_FILE, help="The certificate's key (PEM).")
@click.option("--insecure", is_flag=True, help="Plain HTTP, also where other machines can listen in.")
@click.option("--lease-s", type=click.FloatRange(min=1), default=90.0, show_default=True, help="How silent a worker may be.")
@click.option("--max-blob-gb", type=click.FloatRange(min=0.001), default=1000.0, show_default=True, help="Of one file.")
@click.option("--max-log-lines", type=click.IntRange(min=1), default=10_000_000, show_default=True, help="Kept of one job.")
@click.option("--max-log-gb", type=click.FloatRange(min=0.001), default=1.0, show_default=True, help="Kept of one job, packed.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    envvar="GPULAYER_LOG_LEVEL",
    help="Of its log; GPULAYER_LOG_LEVEL says the same.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object when it is ready.")
def start(
    host: str,
    port: int,
    data: Path | None,
    database: str | None,
    artifacts: str | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    insecure: bool,
    lease_s: float,
    max_blob_gb: float,
    max_log_lines: int,
    max_log_gb: float,
    log_level: str,
    as_json: bool,
) -> None:
    """Serve a plane until SIGTERM or Ctrl-C. Its log goes to stderr, a JSON object a line."""
    from gpulayer.control.server import journal, starting
    from gpulayer.control.server.quota import Quota

    journal.begin(log_level)
    options = starting.Options(
        host=host,
        port=port,
        data=(data or settings.read().home / "server").absolute(),
        database=database,
        artifacts=artifacts,
        tls_cert=tls_cert,
        tls_key=tls_key,
        insecure=insecure,
        lease_s=lease_s,
        longest_blob=int(max_blob_gb * 1e9),
        log_quota=Quota(max_log_lines, int(max_log_gb * 1e9)),
    )

    def on_ready(ready: starting.Ready) -> None:
        # Both: the folder has the certificate that the token names. The password stays out of the log.
        where = f"--data {options.data}" + (f" --database {without_password(database)}" if database else "")
        make = "" if ready.has_admin else f"gpulayer tokens create --role admin {where}"
        if as_json:
            click.echo(
                json.dumps({"url": ready.urls[0], "urls": ready.urls, "fingerprint": ready.fingerprint, "first_token": make})
            )
        else:
            click.echo(f"The plane answers at {' and '.join(ready.urls)}")
        if make and not as_json:
            click.echo(f"gpulayer: This plane has no admin token yet: {make}", err=True)

    starting.run(options, on_ready)


def without_password(url: str) -> str:
    """Write a database's URL for others to read."""
    return re.sub(r"(//[^/@:]*):[^/]*@", r"\1:***@", url)
