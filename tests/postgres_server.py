"""Runs a throwaway PostgreSQL server for as long as stdin is open, so that it can't outlive who holds the other end.

Arguments: the folder of PostgreSQL's programs, and a folder for data and socket, which is removed at the end. Says "started"
when the server was started. The lines "stop" and "start" on stdin do so, each answered when done.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import sys
from pathlib import Path

SETTINGS = {"listen_addresses": "", "fsync": "off", "synchronous_commit": "off", "max_connections": "200"}
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def main(programs: Path, folder: Path) -> None:
    if os.geteuid() == 0:
        _become_another(folder)
    try:
        data = folder / "data"
        made = ["-D", data, "-U", "gpulayer", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        subprocess.run([programs / "initdb", *made], check=True, stdout=subprocess.DEVNULL)
        server = _start(programs, folder)
        print("started", flush=True)
        for line in sys.stdin:
            if line.strip() == "stop":
                _stop(server)
            else:
                server = _start(programs, folder)
            print("done", flush=True)
        _stop(server)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _become_another(folder: Path) -> None:
    """PostgreSQL refuses to run as root."""
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    user = names.get("postgres") or names["nobody"]
    os.chown(folder, user.pw_uid, user.pw_gid)
    os.chdir(folder)
    os.setgroups([])
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)


def _start(programs: Path, folder: Path) -> subprocess.Popen[bytes]:
    settings = [part for key, value in SETTINGS.items() for part in ("-c", f"{key}={value}")]
    argv = [programs / "postgres", "-D", folder / "data", "-k", folder, *settings]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL, preexec_fn=_die_with_parent)


def _die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.send_signal(signal.SIGINT)
    try:
        server.wait(20)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
