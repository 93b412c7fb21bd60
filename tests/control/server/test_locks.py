"""Lock files tell who lives, and asking does no harm."""

from __future__ import annotations

import os
from pathlib import Path

from gpulayer.control.server import locks
from tests.control.elsewhere import running, said, tell

HOLD = """
    import sys, pathlib
    from gpulayer.control.server import locks
    locks.hold(pathlib.Path(sys.argv[1]))
    print("held", flush=True)
    sys.stdin.readline()
"""
ASK = """
    import sys, pathlib
    from gpulayer.control.server import locks
    for line in sys.stdin:
        print(locks.is_held(pathlib.Path(sys.argv[1])), flush=True)
"""


def test_a_lock_is_free_as_soon_as_its_holder_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not locks.is_held(path)
    with running(HOLD, path) as holder:
        assert said(holder) == "held"
        assert locks.is_held(path)
        holder.kill()
        holder.wait()
        assert not locks.is_held(path)


def test_asking_after_our_own_lock_does_not_drop_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    locks.hold(path)
    try:
        assert locks.is_held(path)
        (tmp_path / "link").symlink_to(tmp_path)
        assert locks.is_held(tmp_path / "link" / "lock")
        with running(ASK, path) as other:
            tell(other)
            assert said(other) == "True"
            locks.release(path)
            tell(other)
            assert said(other) == "False"
    finally:
        locks.release(path)


def test_a_forked_child_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    locks.hold(path)
    child = os.fork()
    if not child:
        held_by_parent = locks.is_held(path)
        locks.release(path)
        os._exit(0 if held_by_parent else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with running(ASK, path) as other:
        tell(other)
        assert said(other) == "True"
    locks.release(path)
