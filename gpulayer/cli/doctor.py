"""``gpulayer doctor``: whether jobs can run here, and whether the plane that is named can be spoken to, checked by trying."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click

from gpulayer import settings
from gpulayer.cli import plane_checks
from gpulayer.cli.opened import opened
from gpulayer.cli.outcome import FAILED
from gpulayer.cli.output import Form, print_json, size, with_forms
from gpulayer.cli.plane_checks import Trouble
from gpulayer.errors import GPULayerError
from gpulayer.worker import addresses, hardware

ENOUGH_DISK = 1_000_000_000


@click.command()
@with_forms(quiet=False)
def command(form: Form) -> None:
    """Check whether jobs can run here, and with --url whether the plane there answers; exit code 1 if something is missing."""
    checks = CHECKS | ({"home": home} if settings.read().url is None else plane_checks.CHECKS)
    answers = [(name, *_ask(check)) for name, check in checks.items()]
    if form is Form.JSON:
        print_json([{"check": name, "ok": ok, "detail": detail} for name, ok, detail in answers])
    else:
        for name, ok, detail in answers:
            click.echo(f"{'ok  ' if ok else 'FAIL'}  {name:<11}  {detail}")
    if not all(ok for _, ok, _ in answers):
        raise click.exceptions.Exit(FAILED)


def _ask(check: Callable[[], str]) -> tuple[bool, str]:
    try:
        return True, check()
    except (GPULayerError, OSError, PackageNotFoundError, Trouble) as error:
        return False, str(error)


def system() -> str:
    if sys.platform not in ("linux", "darwin"):
        raise Trouble(f"{platform.system()} is not supported; GPUlayer runs on Linux, and on macOS as far as it goes.")
    return f"{platform.system()} {platform.release()} on {platform.machine()}, {os.cpu_count()} cores"


def python() -> str:
    return f"{platform.python_version()} at {sys.executable}"


def packages() -> str:
    return f"torch {version('torch')}, lightning {version('lightning')}, torchmetrics {version('torchmetrics')}"


def devices() -> str:
    """A driver without a torch that can use it is what people take for a broken job."""
    found = hardware.capabilities(settings.read().home, os.environ, None).devices
    torch = version("torch")
    if found and "+cpu" in torch:
        raise Trouble(f"{len(found)} CUDA device(s) are here, but torch {torch} was built without CUDA.")
    names = ", ".join(sorted({device.name for device in found}))
    return f"{len(found)} CUDA device(s): {names}" if found else "none that CUDA could use: jobs run on the CPU"


def home() -> str:
    found = settings.read()
    with opened():
        return f"{found.home} can be written to and holds locks"


def disk() -> str:
    free = shutil.disk_usage(_nearest(settings.read().home)).free
    if free < ENOUGH_DISK:
        raise Trouble(f"only {size(free)} are free below {settings.read().home}; bundles, logs and checkpoints go there.")
    return f"{size(free)} free"


def _nearest(path: Path) -> Path:
    return path if path.exists() else _nearest(path.parent)


def loopback() -> str:
    """Ranks on one machine meet over 127.0.0.1."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname(), timeout=5):
        return "ranks can meet over 127.0.0.1"


def address() -> str:
    """Ranks on several machines meet at what their workers advertise."""
    found = addresses.advertised(None, settings.read().url)
    if found is None:
        raise Trouble("no address of this machine leads to it from others; give one to `worker start --advertise-address`.")
    return f"a worker started here would be reached at {found} ({addresses.interface_of(found)})"


CHECKS: dict[str, Callable[[], str]] = {
    "system": system,
    "python": python,
    "packages": packages,
    "devices": devices,
    "disk": disk,
    "loopback": loopback,
    "address": address,
}
