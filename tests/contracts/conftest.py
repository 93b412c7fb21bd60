"""The databases that a store must work on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpulayer.control.store.store import Store, open_database
from tests.postgres import Cluster


@pytest.fixture(scope="session")
def template(postgres: Cluster) -> str:
    """A database with our tables, to be copied."""
    name = postgres.create()
    open_database(postgres.url(name), Path()).close()
    return name


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty plane on each kind of database in turn."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/plane.db"
        return
    cluster: Cluster = request.getfixturevalue("postgres")
    name = cluster.create(request.getfixturevalue("template"))
    yield cluster.url(name)
    cluster.drop(name)


@pytest.fixture
def store(database: str, tmp_path: Path) -> Iterator[Store]:
    """An empty store on each kind of database in turn."""
    opened = open_database(database, tmp_path)
    yield opened
    opened.close()
