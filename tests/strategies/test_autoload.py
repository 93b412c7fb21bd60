"""The seam is there however a program imports Lightning, and costs nothing where it isn't used."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

TRY = """
made = Trainer(accelerator="gpulayer", devices=2, logger=False, enable_checkpointing=False)
print(made.world_size)
"""


def run(code: str, **env: str) -> str:
    import os

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "first",
    [
        "from lightning.pytorch import Trainer",
        "import torch\nfrom lightning import Trainer",
        "import gpulayer\nfrom lightning.pytorch import Trainer",
        "from lightning.pytorch import Trainer\nimport gpulayer",
        "from gpulayer import Trainer",
    ],
)
def test_the_accelerator_is_known(first: str) -> None:
    assert run(first + TRY).splitlines()[-1] == "2"


def test_without_torchs_autoload_importing_us_is_enough() -> None:
    assert run("import lightning.pytorch, gpulayer\nfrom gpulayer import Trainer" + TRY, TORCH_DEVICE_BACKEND_AUTOLOAD="0")


def test_importing_us_imports_nothing_heavy() -> None:
    heavy = ("torch", "numpy", "sqlalchemy", "pydantic", "lightning", "httpx", "fsspec")
    assert run(f"import gpulayer, sys\nprint([name for name in {heavy} if name in sys.modules])").strip() == "[]"


def test_importing_torch_imports_nothing_of_lightning() -> None:
    code = "import torch, sys\nprint([name for name in ('lightning', 'sqlalchemy', 'pydantic') if name in sys.modules])"
    assert run(code).strip() == "[]"


def test_the_front_knows_its_names_and_its_modules() -> None:
    code = """
    import gpulayer
    import gpulayer.errors
    for name in gpulayer.__all__:
        getattr(gpulayer, name)
    print(gpulayer.errors.JobFailed is gpulayer.JobFailed, gpulayer.in_job())
    try:
        gpulayer.nothing
    except AttributeError as error:
        print(error)
    """
    assert run(code) == "True False\nmodule 'gpulayer' has no attribute 'nothing'\n"


def test_a_broken_seam_never_breaks_the_import_of_lightning() -> None:
    code = """
    import sys
    sys.modules["gpulayer.strategies.seam"] = None
    import lightning.pytorch
    print("fine")
    """
    assert run(code) == "fine\n"
