"""A real server in a process of its own, and who asks it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from gpulayer.control.server import auth
from gpulayer.control.store.store import open_database
from gpulayer.spec.tokens import TokenRequest

START_S = 60.0


class Server:
    """One ``gpulayer server start``, on a free port of loopback unless told otherwise; it can be killed and started again."""

    def __init__(self, data: Path, *options: str, database: str | None = None, open_files: int | None = None) -> None:
        self.data = data
        self.database = database or f"sqlite:///{data / 'plane.db'}"
        self.url = ""
        self.told: dict[str, Any] = {}
        self._options = options
        self._open_files = open_files
        self._log = data / "log"
        self._process: subprocess.Popen[str] | None = None
        self._tokens: dict[str, str] = {}

    def start(self, port: int = 0) -> Server:
        """Start it and wait until it says that it answers."""
        with self._log.open("w") as log:  # a pipe that nobody reads would stop it once it is full
            self._process = subprocess.Popen(self.arguments(port), stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self.ended()[1]
        self.told = json.loads(line)
        self.url = self.told["url"]
        return self

    def arguments(self, port: int = 0) -> list[str]:
        limited = ["prlimit", f"--nofile={self._open_files}"] if self._open_files else []
        given = ["--port", str(port), "--data", str(self.data), "--database", self.database, "--json", *self._options]
        return [*limited, sys.executable, "-m", "gpulayer", "server", "start", *given]

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def token(self, role: str = "admin") -> str:
        """Return a token of a role, made as on the server's own machine."""
        if role not in self._tokens:
            store = open_database(self.database, self.data)
            self._tokens[role] = auth.create(store, TokenRequest(role=role), store.now()).token  # type: ignore[arg-type]
            store.close()
        return self._tokens[role]

    @contextmanager
    def asked_by(self, role: str = "admin", **options: Any) -> Iterator[httpx.Client]:
        """Give a client with a token of the role."""
        headers = {"Authorization": f"Bearer {self.token(role)}"}
        with httpx.Client(base_url=self.url, headers=headers, **{"timeout": 60.0, **options}) as client:
            yield client

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def ended(self) -> tuple[int, str]:
        """Wait for its end; return its status and its log."""
        assert self._process is not None
        self._process.communicate(timeout=START_S)
        status, self._process = self._process.returncode, None
        return status, self._log.read_text()

    def stop(self) -> tuple[int, str]:
        """End it in good order."""
        self.signal(signal.SIGTERM)
        return self.ended()

    def kill(self) -> None:
        """End it as a power cut would."""
        self.signal(signal.SIGKILL)
        self.ended()

    def close(self) -> None:
        if self._process is not None:
            self.kill()


Serve = Callable[..., Server]
