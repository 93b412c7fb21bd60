"""Whatever a program is started by, and from wherever, its ranks find what the caller finds."""

from __future__ import annotations

import json
import os
import shutil
import site
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

import gpulayer

from .processes import SCRIPT_S

pytestmark = pytest.mark.timeout(3 * SCRIPT_S)
KINDS = Path(__file__).parent / "programs" / "kinds"
WORDS = ["--lr=0.1", "", "a b", "ü=ö", "two\nlines", "--", "-m", "'\"$HOME*"]
COMMAND = "#!{python}\nimport sys\nfrom acme.training import two\nif __name__ == '__main__':\n    sys.exit(two())\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a package below ``src``, and a script in a folder with an awkward name."""
    project = tmp_path / "pröject one"
    shutil.copytree(KINDS / "src", project / "src")
    shutil.copytree(KINDS / "scripts", project / "sc ripts ü")
    (project / "pyproject.toml").touch()
    (project / "runs").mkdir()
    return project


def run(cwd: Path, *argv: str, **env: str) -> dict[str, Any]:
    """Run a program that exits with 3; what it saw of itself here and in the job."""
    done = subprocess.run(
        argv,
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1", **env},
        capture_output=True,
        text=True,
        timeout=SCRIPT_S,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 3, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_script_of_another_folder_with_options_of_python(project: Path) -> None:
    options = ("-X", "utf8", "-W", "error:a warning:UserWarning")
    found = run(project / "runs", sys.executable, *options, "../sc ripts ü/train.py", *WORDS, PYTHONPATH=f"{project}/src")
    assert found["there"] == found["here"]
    assert found["here"]["argv"] == ["../sc ripts ü/train.py", *WORDS]
    assert found["here"]["sibling"] == str(project / "sc ripts ü" / "neighbour.py")
    assert (found["here"]["flags"], found["here"]["raises"], found["copied"]) == ([0, False, 1], True, True)


def test_a_package_that_is_run_as_a_module(project: Path) -> None:
    found = run(project, sys.executable, "-m", "acme", *WORDS, PYTHONPATH="src")
    assert found["there"] == found["here"]
    assert found["here"]["argv"] == [str(project / "src" / "acme" / "__main__.py"), *WORDS]
    assert (found["here"]["spec"][0], found["copied"]) == ("acme.__main__", True)


def test_the_command_of_a_package_that_is_installed_as_editable(project: Path, tmp_path: Path) -> None:
    made = tmp_path / "v env"
    venv.create(made, symlinks=True)
    packages = next(made.glob("lib/python*/site-packages"))
    theirs = [Path(gpulayer.__file__).parents[1], *map(Path, sys.path), *map(Path, site.getsitepackages())]
    folders = [path for path in theirs if path.name in ("site-packages", "dist-packages") or (path / "gpulayer").is_dir()]
    packages.joinpath("editable.pth").write_text("".join(f"{path}\n" for path in [*folders, project / "src"]))
    facts = packages / "acme-0.dist-info"
    facts.mkdir()
    facts.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 0\n")
    facts.joinpath("entry_points.txt").write_text("[console_scripts]\ntrain-acme = acme.training:two\n")
    script = made / "bin" / "train-acme"
    script.write_text(COMMAND.format(python=made / "bin" / "python"))

    found = run(tmp_path, str(made / "bin" / "python"), str(script), *WORDS)

    assert found["there"] == found["here"]
    assert found["here"]["argv"] == [str(script), *WORDS]
    assert found["copied"]
