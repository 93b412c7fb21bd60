"""A real PostgreSQL for tests: one throwaway server a run, one fresh database a test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

STARTING_S = 60.0


class Cluster:
    """A running server; whoever made it closes it."""

    def __init__(self, programs: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="gl-pg-", dir="/tmp"))  # a socket's path has little room
        server = Path(__file__).with_name("postgres_server.py")
        self._process = subprocess.Popen(
            [sys.executable, "-I", server, programs, self.folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PATH": os.defpath, "LC_ALL": "C"},  # not the home of the test that happens to be the first
            start_new_session=True,
        )
        self._answer("started")
        self._databases = 0

    def _answer(self, wanted: str) -> None:
        assert self._process.stdout is not None
        said = self._process.stdout.readline().strip()
        assert said == wanted, f"PostgreSQL did not start: {said!r}"

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        self._answer("done")

    def stop(self) -> None:
        self._tell("stop")

    def start(self) -> None:
        self._tell("start")

    def url(self, database: str) -> str:
        return f"postgresql://gpulayer@/{database}?host={self.folder}"

    def ask(self, statement: str, database: str = "postgres") -> list[Any]:
        """Run one statement, waiting for a server that is just starting."""
        until = time.monotonic() + STARTING_S
        while True:
            try:
                with psycopg.connect(self.url(database), autocommit=True) as db:
                    cursor = db.execute(statement)  # type: ignore[arg-type]
                    return cursor.fetchall() if cursor.description else []
            except psycopg.OperationalError:
                if time.monotonic() > until or self._process.poll() is not None:
                    raise
                time.sleep(0.02)

    def create(self, template: str = "template0") -> str:
        """Create a database and return its name."""
        self._databases += 1
        name = f"test{self._databases}"
        self.ask(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def drop(self, name: str) -> None:
        self.ask(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def close(self) -> None:
        self._process.communicate(timeout=60)


def programs() -> Path | None:
    """Return the folder of ``initdb`` and ``postgres``: Debian puts it on no PATH."""
    folders = [Path(found).resolve().parent for found in (shutil.which("postgres"),) if found]
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "initdb").exists() and (folder / "postgres").exists()), None)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Cluster]:
    """The server of this test run."""
    found = programs()
    if found is None:
        pytest.skip("PostgreSQL isn't installed (Debian: postgresql)")
    cluster = Cluster(found)
    yield cluster
    cluster.close()


@pytest.fixture
def postgres_url(postgres: Cluster) -> Iterator[str]:
    """The URL of an empty database."""
    name = postgres.create()
    yield postgres.url(name)
    postgres.drop(name)
