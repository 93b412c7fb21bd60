"""What keeps a process after the end of its script: it is waited for while it works, and left behind when it does nothing."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

BEGIN = """
    import atexit, os, subprocess, sys, threading, time
    CHILD = "import time; end = time.monotonic() + 2.0\\nwhile time.monotonic() < end: pass"
    from gpulayer.runtime.lingering import Lingering
    atexit.register(lambda: print("handled", flush=True))
    {script}
    Lingering(lambda: os._exit(7), 0.6).begin()
"""
BLOCKED = {
    "a thread": ("threading.Thread(target=time.sleep, args=(600,), name='slow').start()", "thread 'slow' did nothing"),
    "an exit handler": ("atexit.register(time.sleep, 600)", "an exit handler did nothing"),
}
AT_WORK = {
    "computing": "sum(range(20_000))",
    "reading": "open('/proc/self/stat').read(); time.sleep(0.05)",
    "writing": "os.write(2, b'.'); time.sleep(0.05)",
    "a child's": "subprocess.run([sys.executable, '-c', CHILD])",
}
BUSY = """
    def work():
        end = time.monotonic() + 2.0
        while time.monotonic() < end:
            {work}
    threading.Thread(target=work).start()
"""


def run(script: str) -> subprocess.CompletedProcess[str]:
    code = textwrap.dedent(BEGIN).format(script=textwrap.dedent(script))
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("what", BLOCKED)
def test_what_does_nothing_is_left_behind_by_name(what: str) -> None:
    script, named = BLOCKED[what]
    done = run(script)
    assert done.returncode == 7
    assert named in done.stderr
    if what == "a thread":
        assert done.stdout == "handled\n"


@pytest.mark.parametrize("how", AT_WORK)
def test_what_works_is_waited_for(how: str) -> None:
    done = run(BUSY.format(work=AT_WORK[how]))
    assert done.returncode == 0
    assert "left behind" not in done.stderr


def test_a_script_that_keeps_nothing_ends_at_once() -> None:
    assert run("").returncode == 0
