"""A Slurm of one node for as long as a block lasts: its own configuration and key in a temporary folder, nothing installed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from standing import end

_PROGRAMS = ("srun", "slurmctld", "slurmd", "munged", "sinfo")
_UP_S = 30.0


def missing() -> list[str]:
    """Return what is missing to run it."""
    lacking = [name for name in _PROGRAMS if _program(name) is None]
    return lacking if lacking or os.geteuid() == 0 else ["root's rights"]


@contextmanager
def running(folder: Path) -> Iterator[dict[str, str]]:
    """Run munged, slurmctld and slurmd; gives the environment in which ``srun`` finds them."""
    folder.chmod(0o755)
    conf = _write(folder)
    environ = {**os.environ, "SLURM_CONF": str(conf)}
    with ExitStack() as started:
        key, sock = folder / "munge.key", folder / "munge.sock"
        started.enter_context(
            _daemon(folder, environ, "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={sock}",
                    f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/munged.seed")
        )  # fmt: skip
        _until(sock.exists, folder)
        started.enter_context(_daemon(folder, environ, "slurmctld", "-D", "-f", str(conf)))
        started.enter_context(_daemon(folder, environ, "slurmd", "-D", "-f", str(conf)))

        def idle() -> bool:
            done = subprocess.run(["sinfo", "-h", "-o", "%T"], env=environ, capture_output=True, text=True, check=False)
            return done.stdout.strip() == "idle"

        _until(idle, folder)
        yield environ


def _write(folder: Path) -> Path:
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    host, ports = socket.gethostname().partition(".")[0], [_free_port(), _free_port()]
    conf = folder / "slurm.conf"
    conf.write_text(f"""
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SchedulerType=sched/backfill
SelectType=select/cons_tres
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
NodeName={host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} State=UNKNOWN
PartitionName=bench Nodes=ALL Default=YES MaxTime=INFINITE State=UP
""")
    return conf


@contextmanager
def _daemon(folder: Path, environ: dict[str, str], name: str, *options: str) -> Iterator[None]:
    program = _program(name)
    assert program is not None
    with (folder / f"{name}.out").open("ab") as out:
        daemon = subprocess.Popen([program, *options], env=environ, stdout=out, stderr=out)
    try:
        yield
    finally:
        end(daemon)


def _program(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


def _until(there: object, folder: Path) -> None:
    assert callable(there)
    deadline = time.monotonic() + _UP_S
    while not there():
        if time.monotonic() > deadline:
            logs = "\n".join(f"{log.name}: {log.read_text()[-800:]}" for log in sorted(folder.glob("*.log")))
            raise SystemExit(f"Slurm did not come up:\n{logs}")
        time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
