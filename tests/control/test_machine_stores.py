"""Engine and store together through random histories: planes that are killed, and two that write to one database."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings

from gpulayer.control.store.store import open_store
from tests.control.engine.histories import Histories
from tests.control.engine.keeping import Keeping
from tests.control.stored import InDatabase


class InOneHome(Histories):
    """Two processes with one home open."""

    def open(self) -> Keeping:
        self.folder = Path(tempfile.mkdtemp(prefix="gl-history-"))
        self.database = InDatabase(lambda: open_store(self.folder), processes=2)
        return self.database

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self.database.close()
            shutil.rmtree(self.folder)


InOneHome.TestCase.settings = settings(max_examples=15, stateful_step_count=25, deadline=None)
TestInOneHome = InOneHome.TestCase
