"""``@gpulayer.remote`` and ``gpulayer.launch``: functions and scripts as jobs, from a program of the user's."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import gpulayer as gl
from gpulayer import errors
from gpulayer.client import functions
from gpulayer.spec.states import JobState
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(180)

SCRIPT = """
import sys
import helper
import gpulayer as gl

print("loaded", __name__)

class Wrong(Exception):
    pass

@gl.remote(name="halves")
def half(x):
    print("in the job", gl.in_job())
    if x % 2:
        raise Wrong(x)
    return helper.half(x)

@gl.remote
def nested(x):
    return half.remote(x).result()
"""


def run(folder: Path, text: str, *, exits: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a script that stands in a folder of the project, from another one."""
    (folder / "sub").mkdir(exist_ok=True)
    (folder / "pyproject.toml").touch()
    (folder / "sub" / "helper.py").write_text("def half(x):\n    return x // 2\n")
    (folder / "sub" / "script.py").write_text(SCRIPT + textwrap.dedent(text))
    done = subprocess.run(
        [sys.executable, "sub/script.py"], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == exits, done.stdout + done.stderr
    return done


def test_a_function_of_a_script_without_a_main_guard_runs_as_a_job_and_never_starts_another(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        print(half(4), half.local(6))
        job = half.remote(8)
        print(job.result(), job.record.spec.name, [line.text for line in job.logs()])
        try:
            half.remote(3).result()
        except Wrong as wrong:
            print("caught", wrong, wrong.args, "raise Wrong(x)" in wrong.__notes__[0])
        print(*(job.record.spec.function for job in gl.Client().jobs()))
        """,
    )

    assert done.stdout.splitlines()[1:] == [
        *("in the job False", "in the job False", "2 3"),
        "4 halves ['loaded __mp_main__', 'in the job True', 'in the job True', '2 3', 'in the job True']",
        "caught 3 (3,) True",
        "__main__:half __main__:half",
    ]


def test_a_function_that_a_script_defines_after_its_first_call_is_refused_with_the_way_out(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        print(half.remote(2).result())
        @gl.remote
        def late(): ...
        late.remote().result()
        """,
        exits=1,
    )

    assert "calls a remote function before it defines late" in done.stderr


def test_map_keeps_the_order_and_the_failures_apart(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        if __name__ == "__main__":
            values, errors = half.map([8, 3, 4, 5], concurrency=2)
            print(values, {at: (type(error), error.args) for at, error in errors.items()})
            print(half.map([]))
        """,
    )

    *_, mapped, nothing = done.stdout.splitlines()
    assert mapped == "[4, None, 2, None] {1: (<class '__main__.Wrong'>, (3,)), 3: (<class '__main__.Wrong'>, (5,))}"
    assert nothing == "Mapped(values=[], errors={})"


def test_ctrl_c_cancels_what_map_began_and_begins_nothing_more(tmp_path: Path, home: Path) -> None:
    (tmp_path / "script.py").write_text(
        textwrap.dedent("""
        import time
        import gpulayer as gl

        @gl.remote
        def wait(x):
            time.sleep(600)

        if __name__ == "__main__":
            wait.map([1, 2, 3], concurrency=1)
        """)
    )
    script = [sys.executable, "script.py"]
    with subprocess.Popen(script, cwd=tmp_path, stderr=subprocess.PIPE) as running, gl.Client() as client:
        wait_for(lambda: [job for job in client.jobs() if job.status.state is JobState.RUNNING], within=60)
        running.send_signal(signal.SIGINT)
        assert running.stderr is not None
        assert b"KeyboardInterrupt" in running.stderr.read()
        (job,) = client.jobs()
        assert job.wait().status.state is JobState.CANCELLED


def test_a_function_that_runs_as_a_job_can_start_none(tmp_path: Path) -> None:
    done = run(tmp_path, "nested.remote(4).result()", exits=1)

    assert "CallRefused" in done.stderr
    assert "can't submit jobs" in done.stderr


def test_a_launched_script_prints_by_rank_and_what_failed_first_is_raised(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        textwrap.dedent("""
        import os, sys, time
        print("rank", os.environ["RANK"], *sys.argv[1:], flush=True)
        if "fail" in sys.argv:
            if os.environ["RANK"] == "1":
                raise KeyError("first")
            time.sleep(600)
        """)
    )
    done = run(
        tmp_path,
        """
        if __name__ == "__main__":
            job = gl.launch("train.py", num_workers=2, args=["--", "--x", "", 0])
            print(job.status.state, len(job.artifacts))
            try:
                gl.launch("train.py", procs_per_worker=2, args=["fail"])
            except KeyError as error:
                print("caught", error.args, error.__notes__[0].splitlines()[0])
        """,
    )

    lines = done.stdout.splitlines()[1:]
    assert sorted(lines[:2]) == ["[rank0] rank 0 -- --x  0", "[rank1] rank 1 -- --x  0"]
    assert lines[2] == "succeeded 0"
    assert lines[-1] == "caught ('first',) On rank 1 of the job:"


# --- what can't travel ---------------------------------------------------------------------------------------------------


def a_closure() -> Any:
    big = bytearray(1 << 30)

    def uses() -> int:
        return len(big)

    return uses


class Kept:
    def method(self) -> None: ...


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda: 1, "A lambda has no name"),
        (a_closure(), r"a_closure\.<locals>\.uses is defined in another function, whose big it uses"),
        (Kept().method, r"Kept\.method is a method, and no function of a module"),
        (len, "len is a builtin_function_or_method"),
        (Kept, "Kept is a type"),
    ],
)
def test_a_function_that_a_job_could_not_find_is_refused_by_name(function: Any, sentence: str, home: Path) -> None:
    with pytest.raises(errors.InvalidFunctionValue, match=sentence):
        gl.remote(function).remote()
    assert not (home / "plane.db").exists()


def takes(first: Any = None, *others: Any, name: Any = None) -> None: ...


@pytest.mark.parametrize(
    ("args", "kwargs", "sentence"),
    [
        (({1, 2},), {}, "first of takes is a set"),
        ((1, object()), {}, r"others\[0\] of takes is a object"),
        ((), {"name": {"a": [0, b"x"]}}, r"name\['a'\]\[1\] of takes is a bytes"),
        ((), {"name": {1: 2}}, "A key of name of takes is a int"),
        ((math.nan,), {}, "first of takes is a float that is nan"),
    ],
)
def test_a_value_that_json_can_not_hold_is_refused_by_name(args: Any, kwargs: Any, sentence: str, home: Path) -> None:
    with pytest.raises(errors.InvalidFunctionValue, match=sentence):
        gl.remote(takes).remote(*args, **kwargs)
    assert not (home / "plane.db").exists()


def test_arguments_that_do_not_fit_are_a_type_error_at_the_caller() -> None:
    with pytest.raises(TypeError, match=r"takes\(\): got an unexpected keyword argument 'nmae'"):
        gl.remote(takes).remote(nmae=1)


def test_a_function_of_a_prompt_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import gpulayer as gl\n@gl.remote\ndef f(): ...\nf.remote()\n"
    done = subprocess.run([sys.executable, "-"], input=program, capture_output=True, text=True, check=False)

    assert "ScriptUnavailable: f was typed into a prompt or a notebook" in done.stderr


def test_what_a_plain_function_is_stays_with_it() -> None:
    made = gl.remote(timeout_s=5)(takes)
    assert (made.__name__, made.__wrapped__) == ("takes", takes)  # type: ignore[attr-defined]
    assert isinstance(made, functions.Remote)
    spec = gl.remote(gpus=2, target="remote", resources=gl.Resources(cpus=2))(takes)._options
    assert spec["resources"] == {"accelerator": "cuda", "gpu_count": 2, "cpus": 2}
    assert gl.remote(gpus=2, target="remote")(takes)._options == {
        "resources": {"accelerator": "cuda", "gpu_count": 2},
        "placement": {"target": "remote"},
    }
