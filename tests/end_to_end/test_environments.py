"""Jobs that ask for packages: commands, functions and gangs find them, and a failing installation is the job's end."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpulayer as gl
from gpulayer import errors
from tests.end_to_end.scripts import run_script
from tests.worker.wheels import wheel

pytestmark = pytest.mark.timeout(180)

TINY = Path(__file__).parent / "programs" / "tiny.py"
MAIN = "version = '1.0'\ndef main(): print('says', version)\n"


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[gl.Client]:
    project = tmp_path / "project"
    project.mkdir()
    (project / "work.py").write_text(
        textwrap.dedent("""
        import os, tiny
        def version(): return tiny.version
        if __name__ == "__main__":
            print(os.environ["RANK"], tiny.version, flush=True)
        """)
    )
    monkeypatch.chdir(project)
    with gl.Client() as opened:
        yield opened


def test_every_kind_of_job_finds_what_it_asked_for(client: gl.Client, tmp_path: Path) -> None:
    asked = (wheel(tmp_path / "wheels", "tiny", text=MAIN),)

    command = client.submit(
        gl.CommandJob(
            command=("sh", "-c", "python -c 'import tiny, torch; print(tiny.version)'; tiny-says"), requirements=asked
        )
    ).wait()
    function = client.submit(gl.FunctionJob(function="work:version", requirements=asked))
    gang = client.submit(gl.DistributedJob(entrypoint="work.py", num_workers=2, requirements=asked)).wait()

    printed = [line.text for line in command.logs() if line.stream != "prepare"]
    assert printed == ["1.0", "says 1.0"], command.record.sentence
    assert any(line.text.startswith("Successfully installed") for line in command.logs() if line.stream == "prepare")
    assert function.result() == "1.0"
    assert sorted(line.text for line in gang.logs() if line.stream == "stdout") == ["0 1.0", "1 1.0"], gang.record.sentence
    assert not [line for line in function.logs() if line.stream == "prepare"]  # it was there by then


def test_what_can_not_be_installed_is_the_jobs_end_in_pips_own_words(client: gl.Client) -> None:
    job = client.submit(gl.CommandJob(command=("true",), requirements=("no-such-thing==1",), env={"PIP_NO_INDEX": "1"}))

    with pytest.raises(errors.PreparationFailed, match="No matching distribution found for no-such-thing==1"):
        job.result()
    assert "Mend the requirements" in str(job.record.cause)


def test_a_trainers_job_has_them_too(tmp_path: Path, home: Path) -> None:
    (tmp_path / "requirements.txt").write_text(wheel(tmp_path / "wheels", "tiny") + "\n")
    options = {"requirements_file": str(tmp_path / "requirements.txt")}

    done = run_script(tmp_path, str(TINY), JOB=json.dumps(options))

    assert done.returncode == 0, done.stderr
    assert len(list((home / "environments").glob("*/ready"))) == 1
