"""A script run by the runtime finds what Python itself would have made."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SHOW = '''
"""The docstring."""
import json, sys, os
me = sys.modules["__main__"]
class Thing: pass
import pickle
print(json.dumps({
    "doc": __doc__,
    "name": __name__,
    "file": __file__,
    "package": __package__,
    "cached": __cached__,
    "spec": None if __spec__ is None else [__spec__.name, __spec__.origin],
    "loader": type(__loader__).__name__,
    "argv": sys.argv,
    "path": sys.path,
    "orig_argv": [word for word in sys.orig_argv if word != "-u"],
    "main_is_me": vars(me) is globals(),
    "builtins": repr(__builtins__),
    "names": sorted(name for name in globals() if name.startswith("__")),
    "class": Thing.__module__,
    "pickles": isinstance(pickle.loads(pickle.dumps(Thing())), Thing),
    "safepath": os.environ.get("PYTHONSAFEPATH"),
    "code": (lambda: 0).__code__.co_filename,
    "stdin": sys.stdin.read(),
}))
'''


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "pkg" / "sub").mkdir(parents=True)
    (root / "away").mkdir()
    for name in ("script.py", "pkg/nested.py", "pkg/sub/deep.py", "pkg/__main__.py", "away/far.py"):
        (root / name).write_text(SHOW)
    for name in ("pkg/__init__.py", "pkg/sub/__init__.py"):
        (root / name).write_text("")
    (root / "link.py").symlink_to("pkg/nested.py")
    (root / "work").mkdir()
    return root


def run(words: list[str], cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    base = {name: value for name, value in os.environ.items() if not name.startswith(("GPULAYER", "PYTHON"))}
    return subprocess.run(
        [sys.executable, *words], cwd=cwd, env={**base, **env}, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )


def through_runtime(words: list[str], cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return run(["-m", "gpulayer.runtime", *words], cwd, PYTHONSAFEPATH="1", **env)


@pytest.mark.parametrize(
    "words",
    [
        ["script.py", "--lr", "0.1", "--", "-x", ""],
        ["./script.py"],
        ["pkg/nested.py"],
        ["pkg/sub/deep.py", "a b"],
        ["link.py"],
        ["-m", "pkg", "--x"],
        ["-m", "pkg.nested", "1", "--", "-y"],
        ["-m", "pkg.sub.deep"],
        ["pkg"],
    ],
    ids=" ".join,
)
def test_a_script_sees_what_python_would_show_it(tree: Path, words: list[str]) -> None:
    expected, found = run(words, tree), through_runtime(words, tree)

    assert expected.returncode == 0, expected.stderr
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout) == json.loads(expected.stdout)


def test_a_script_outside_the_cwd_sees_what_python_would_show_it(tree: Path) -> None:
    for words in (["../away/far.py"], [str(tree / "away" / "far.py")]):
        expected, found = run(words, tree / "work"), through_runtime(words, tree / "work")

        assert found.returncode == 0, found.stderr
        assert json.loads(found.stdout) == json.loads(expected.stdout)


def test_one_word_dash_m_runs_a_module(tree: Path) -> None:
    found = json.loads(through_runtime(["-m pkg.nested", "1"], tree).stdout)

    assert found["spec"][0] == "pkg.nested"
    assert found["argv"][1:] == ["1"]


@pytest.mark.parametrize("name", ["queue", "pydantic", "socket", "colorsys"])
def test_files_of_the_user_shadow_what_they_shadow_under_python_and_never_ours(tree: Path, name: str) -> None:
    (tree / f"{name}.py").write_text("mine = True")
    (tree / "shadow.py").write_text(f"import {name}; print({name}.mine)")

    found = through_runtime(["shadow.py"], tree)

    assert found.stdout.strip() == "True", found.stderr


def test_a_users_own_safe_path_is_kept(tree: Path) -> None:
    expected = json.loads(run(["script.py"], tree, PYTHONSAFEPATH="1").stdout)
    found = json.loads(through_runtime(["script.py"], tree, GPULAYER_USER_SAFEPATH="1").stdout)

    assert found == expected


ENDS = {
    "clean": "pass",
    "exit 3": "import sys; sys.exit(3)",
    "exit none": "raise SystemExit",
    "exit words": "raise SystemExit('no luck')",
    "raises": "def f():\n    1 / 0\nf()",
    "chained": "try:\n    1 / 0\nexcept Exception as e:\n    raise ValueError('x') from e",
    "syntax": "x = = 1",
    "interrupted": "raise KeyboardInterrupt",
    "hook": "import sys\nsys.excepthook = lambda t, v, tb: print('hooked', t.__name__, tb.tb_lineno)\n1 / 0",
    "broken hook": "import sys\ndef hook(*_): raise TypeError('hook')\nsys.excepthook = hook\n1 / 0",
    "os._exit": "import os; os._exit(5)",
    "signal": "import os; os.kill(os.getpid(), 9)",
    "atexit": "import atexit\nfor x in 'ab':\n    atexit.register(print, x)\n1 / 0",
    "import": "import no_such_module",
    "thread": "import threading, time\nthreading.Thread(target=lambda: print('joined')).start()",
    "group": "raise ExceptionGroup('g', [ValueError(1)])",
}


@pytest.mark.parametrize("code", ENDS.values(), ids=ENDS)
def test_a_script_ends_as_under_python(tmp_path: Path, code: str) -> None:
    (tmp_path / "s.py").write_text(code)
    expected, found = run(["s.py"], tmp_path), through_runtime(["s.py"], tmp_path)

    assert found.returncode == expected.returncode
    assert found.stdout == expected.stdout
    if "broken" not in code and "def hook" not in code:
        assert found.stderr == expected.stderr


def test_a_module_that_raises_shows_pythons_traceback(tree: Path) -> None:
    (tree / "pkg" / "bad.py").write_text("raise ValueError('bad')")
    expected, found = run(["-m", "pkg.bad"], tree), through_runtime(["-m", "pkg.bad"], tree)

    assert found.stderr == expected.stderr


def test_a_missing_script_or_module_reads_as_from_python(tree: Path) -> None:
    missing, expected = through_runtime(["nowhere.py"], tree), run(["nowhere.py"], tree)
    assert missing.returncode == expected.returncode == 2
    assert missing.stderr == expected.stderr

    missing, expected = through_runtime(["-m", "nowhere"], tree), run(["-m", "nowhere"], tree)
    assert missing.returncode == expected.returncode
    assert "No module named nowhere" in missing.stderr


def test_importing_gpulayer_in_the_script_runs_its_front_again(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text("import sys; print('gpulayer' in sys.modules)\nimport gpulayer; print(gpulayer.__name__)")

    assert through_runtime(["s.py"], tmp_path).stdout.split() == ["False", "gpulayer"]


def test_a_function_entry_is_called_with_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "mod.py").write_text("import sys\ndef go(*args): print(args, sys.argv)")

    assert through_runtime(["mod:go", "1"], tmp_path).stdout.strip() == "('1',) ['mod:go', '1']"


def test_a_command_sees_what_its_script_would_show_it(tree: Path) -> None:
    (tree / "away" / "train").write_text("import sys\nfrom cli import main\nif __name__ == '__main__':\n    sys.exit(main())\n")
    (tree / "away" / "cli.py").write_text(
        f"import sys\nSHOW = {SHOW!r}\n"
        + "def main():\n    exec(compile(SHOW, 'show', 'exec'), vars(sys.modules['__main__']))\n    return 3\n"
    )
    words = [str(tree / "away" / "train"), "--lr", "", "--"]
    expected, found = run(words, tree), through_runtime(["--console", "cli:main", *words], tree)

    assert (found.returncode, expected.returncode) == (3, 3), found.stderr
    assert json.loads(found.stdout) == json.loads(expected.stdout)


def test_a_command_whose_script_is_not_on_this_machine_is_run_as_well(tree: Path) -> None:
    (tree / "work" / "cli.py").write_text(
        "import sys\ndef main(): print(sys.argv, hasattr(sys.modules['__main__'], '__file__'))"
    )

    found = through_runtime(["--console", "cli:main", "/no/such/train", "1"], tree, PYTHONPATH="work")

    assert found.stdout.strip() == "['/no/such/train', '1'] False", found.stderr


def test_spawned_children_of_the_script_find_its_main(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text(
        "import multiprocessing as mp\n"
        "def work(x): return x + 1\n"
        "if __name__ == '__main__':\n"
        "    with mp.get_context('spawn').Pool(1) as pool:\n"
        "        print(pool.map(work, [1, 2]))\n"
    )

    found = through_runtime(["s.py"], tmp_path)
    assert found.stdout.strip() == "[2, 3]", found.stderr
