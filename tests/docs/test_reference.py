"""The generated pages say what the code says."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import click

from gpulayer import errors, settings
from gpulayer.cli.main import COMMANDS, command
from gpulayer.client.options import JobOptions

PACKAGE = Path(settings.__file__).parent
INTERNAL = {
    *("GPULAYER_CALLS", "GPULAYER_GUARD", "GPULAYER_PIPES", "GPULAYER_SECRETS", "GPULAYER_SOCKET", "GPULAYER_TASK_DIR"),
    *("GPULAYER_STRAGGLER_GRACE_S", "GPULAYER_USER_SAFEPATH", "GPULAYER_WORKER_NAME"),
    "GPULAYER_COMPLETE",  # click's
}
"""What a worker says to the runtime and the ranks of a task."""
DOCS = Path(__file__).parents[2] / "docs"


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "reference" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_fresh() -> None:
    stale = [path.name for path, text in generator().pages().items() if path.read_text(encoding="utf-8") != text]
    assert not stale, f"{stale} differ from the code; run `make docs`"


def test_every_verb_is_documented() -> None:
    text = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")
    ctx = click.Context(command, info_name="gpulayer")
    for name in COMMANDS:
        found = command.get_command(ctx, name)
        assert found is not None
        verbs = (
            [f"gpulayer {name} {verb}" for verb in found.commands] if isinstance(found, click.Group) else [f"gpulayer {name}"]
        )
        for verb in verbs:
            assert f"# {verb}\n" in text


def test_every_variable_that_our_code_reads_is_documented() -> None:
    """Names of ours in the code are settings, or said to a job by its worker, or between worker and runtime."""
    read = {name for path in PACKAGE.rglob("*.py") for name in re.findall(r"GPULAYER_[A-Z_]*[A-Z]", path.read_text())}
    text = (DOCS / "reference" / "settings.md").read_text(encoding="utf-8")

    assert {*settings.VARIABLES} <= read
    assert {name for name in read if f"`{name}`" not in text} == INTERNAL


def test_every_option_of_a_trainers_job_is_documented() -> None:
    assert list(generator().OPTIONS) == list(JobOptions.model_fields)


def test_every_error_is_documented_and_has_a_code_of_its_own() -> None:
    text = (DOCS / "reference" / "errors.md").read_text(encoding="utf-8")
    for code, cls in errors.by_code().items():
        assert f"| `{cls.__name__}` |" in text
        assert f"| `{code}` |" in text
