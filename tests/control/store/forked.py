"""What a store of any database does about a forked child of the process that opened it."""

from __future__ import annotations

import os

from gpulayer.control.store import jobs
from gpulayer.control.store.store import Store
from gpulayer.errors import PlaneFromChild
from tests.control.given import a_record


def refuses_a_forked_child(store: Store) -> None:
    """Fail unless a child is refused, may close its copy, and leaves the parent's as it was."""
    child = os.fork()
    if not child:
        try:
            with store.read():
                os._exit(1)
        except PlaneFromChild:
            store.close()
            os._exit(0)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with store.write() as db:
        jobs.add(db, a_record(), ())
