"""Runs of hydra: each is a job of its own, which writes into the folder that hydra gave the caller.

Hydra names that folder after the time, and one process makes several runs of a sweep; so a rank is given what it takes to make
the same single run. Only what hydra calls public is used (``hydra.core.hydra_config``), and hydra is never imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

_CONFIG = "hydra.core.hydra_config"
_TAKE_A_VALUE = ("--config-path", "-cp", "--config-name", "-cn", "--config-dir", "-cd", "--package", "-p")
_SWEEPING = ("--multirun", "-m")
_OF_A_SWEEP = ("hydra.mode", "hydra.sweep", "hydra/sweeper", "hydra/launcher", "hydra.launcher", "hydra.run.dir")


@dataclass(frozen=True)
class HydraRun:
    """The run that this process is in: hydra's output folder for it, and its overrides (those of a sweep made single)."""

    output_dir: str
    sweeps: bool
    overrides: tuple[str, ...] = ()

    def arguments(self, typed: Sequence[str], cwd: str) -> tuple[str, ...]:
        """Return the script's arguments for a rank that starts in the job's place of ``cwd``."""
        place = os.path.relpath(self.output_dir, cwd).replace("\\", "\\\\").replace("'", "\\'")
        if self.sweeps:
            kept = (*_options(typed), *(word for word in self.overrides if not word.lstrip("+~").startswith(_OF_A_SWEEP)))
        else:
            kept = tuple(word for word in typed if not word.startswith("hydra.run.dir="))
        # The caller's hydra has written its own files there, which travel with the source.
        return (*kept, f"hydra.run.dir='{place}'", "hydra.output_subdir=null")


def _options(typed: Sequence[str]) -> Iterator[str]:
    """Give hydra's options with their values, but for the one that asks for a sweep: the rest of the words are overrides."""
    words: Iterable[str] = iter(typed)
    for word in words:
        if word in _SWEEPING or not word.startswith("-"):
            continue
        yield word
        if word in _TAKE_A_VALUE:
            yield next(iter(words), "")


def current() -> HydraRun | None:
    """Return the run that this process is in, None where there is none."""
    config = sys.modules.get(_CONFIG)
    if config is None or not config.HydraConfig.initialized():
        return None
    found = config.HydraConfig.get()
    overrides = (*found.overrides.task, *found.overrides.hydra)
    sweeps = getattr(found.mode, "name", "") == "MULTIRUN"
    return HydraRun(str(found.runtime.output_dir), sweeps, tuple(map(str, overrides)))
