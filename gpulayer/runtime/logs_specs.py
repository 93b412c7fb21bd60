"""Sends the output of torchrun's ranks into the pipes that the guard reads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulayer.runtime import children

if TYPE_CHECKING:
    from torch.distributed.elastic.multiprocessing.api import LogsDest


class PipeLogsSpecs:
    """What ``torchrun --logs-specs gpulayer`` finds: a pipe per rank and stream, named by global rank in GPULAYER_PIPES.

    Arguments are torchrun's own and differ between its versions; none of them matters here.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._folder = os.environ["GPULAYER_PIPES"]
        children.note_exits(Path(self._folder))

    @property
    def root_log_dir(self) -> str:
        return self._folder

    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """Name the destinations of each local rank; torchrun opens them for writing."""
        # Only torchrun's agent asks, and it has torch.
        from torch.distributed.elastic.multiprocessing.api import LogsDest

        errors = {local: os.path.join(self._folder, f"rank{env['RANK']}.error.json") for local, env in envs.items()}
        for local, env in envs.items():
            env["TORCHELASTIC_ERROR_FILE"] = errors[local]
        return LogsDest(
            stdouts={local: os.path.join(self._folder, f"rank{env['RANK']}.stdout") for local, env in envs.items()},
            stderrs={local: os.path.join(self._folder, f"rank{env['RANK']}.stderr") for local, env in envs.items()},
            tee_stdouts={},
            tee_stderrs={},
            error_files=errors,
        )
