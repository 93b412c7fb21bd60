"""Engine and store together through random histories: planes that are killed, and two that write to one database."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from gpulayer.control.store.store import open_database, open_store
from tests.control.engine.histories import Histories
from tests.control.engine.keeping import Keeping
from tests.control.stored import InDatabase
from tests.postgres import Cluster

Fresh = Callable[[], tuple[InDatabase, Callable[[], None]]]
"""Makes an empty database that two processes have open, and what removes it."""


def run(fresh: Fresh, *, max_examples: int) -> None:
    class InThere(Histories):
        def open(self) -> Keeping:
            self.database, self.remove = fresh()
            return self.database

        def teardown(self) -> None:
            try:
                super().teardown()
            finally:
                self.database.close()
                self.remove()

    run_state_machine_as_test(InThere, settings=settings(max_examples=max_examples, stateful_step_count=25, deadline=None))


def test_two_processes_with_one_home_open_it() -> None:
    def fresh() -> tuple[InDatabase, Callable[[], None]]:
        home = Path(tempfile.mkdtemp(prefix="gl-history-"))
        return InDatabase(lambda: open_store(home), processes=2), lambda: shutil.rmtree(home)

    run(fresh, max_examples=15)


def test_two_servers_on_one_postgresql(postgres: Cluster) -> None:
    template = postgres.create()
    open_database(postgres.url(template), Path()).close()

    def fresh() -> tuple[InDatabase, Callable[[], None]]:
        name = postgres.create(template)
        return InDatabase(lambda: open_database(postgres.url(name), Path()), processes=2), lambda: postgres.drop(name)

    run(fresh, max_examples=5)
