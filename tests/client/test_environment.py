"""What of the caller's environment travels with a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulayer.client.environment import forwarded, gather, read_file
from gpulayer.errors import InvalidJob

HERE = {"LR": "0.1", "WANDB_MODE": "offline", "WANDB_DIR": "/w", "HOME": "/me", "GPULAYER_TOKEN": "glt_x", "BASH_FUNC_x%%": "f"}


def test_names_and_patterns_are_forwarded_and_nothing_else() -> None:
    assert forwarded(HERE, ("LR", "WANDB_*", "UNSET")) == {"LR": "0.1", "WANDB_MODE": "offline", "WANDB_DIR": "/w"}
    assert forwarded(HERE, ()) == {}


def test_our_own_and_what_is_no_name_stay_here_whatever_the_pattern() -> None:
    assert set(forwarded(HERE, ("*",))) == {"LR", "WANDB_MODE", "WANDB_DIR", "HOME"}


def test_what_is_said_closest_to_the_job_counts(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("# settings\nLR=0.2\nexport NAME='a b'\nEMPTY=\nALONE\nB=file\n")
    found = gather(HERE, env={"B": "env"}, env_file=file, forward_env=["LR", "HOME"])
    assert found == {"LR": "0.2", "NAME": "a b", "EMPTY": "", "B": "env", "HOME": "/me"}


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidJob, match=r"nothing\.env"):
        read_file(tmp_path / "nothing.env")


@pytest.mark.parametrize(("text", "line"), [("A=1\n=bad\n", "line 2: '=bad'"), ("A=1\n\nnot a line\n", "line 3: 'not a line'")])
def test_a_line_that_is_none_is_named(tmp_path: Path, text: str, line: str) -> None:
    file = tmp_path / ".env"
    file.write_text(text)
    with pytest.raises(InvalidJob, match=f"{line} is no NAME=value"):
        read_file(file)
