"""A call whose job was broken off from outside is submitted again, from the newest checkpoint that it had."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpulayer.client import checkpoints
from gpulayer.client.follow import say
from gpulayer.plane import Plane
from gpulayer.strategies import parts

if TYPE_CHECKING:
    from gpulayer.strategies.session import CallRequest


class Again:
    """Counts the times that a call is submitted again; ``left`` are still to come."""

    def __init__(self, request: CallRequest, plane: Plane) -> None:
        self._request = request
        self._plane = plane
        self.left = request.options.resubmit
        # A logger that was given no version takes the next free one, as for a run that a person starts again.
        self._versions = [vars(logger).get(parts.LOGGER_VERSION) for logger in request.trainer.loggers]

    def prepare(self, job_id: str, error: BaseException | None) -> None:
        """Have the request go on where a job was broken off; earlier checkpoints count where that job had none."""
        self.left -= 1
        found = checkpoints.newest(self._plane.checkpoints(job_id))
        if found is not None:
            self._request.goes_on_from = checkpoints.url_of(found)
        for logger, version in zip(self._request.trainer.loggers, self._versions, strict=True):
            if parts.LOGGER_VERSION in vars(logger):
                setattr(logger, parts.LOGGER_VERSION, version)
        sentence = getattr(error, "sentence", str(error))
        place = "from the start" if self._request.goes_on_from is None else f"from {self._request.goes_on_from}"
        more = f"{self.left} more {'time' if self.left == 1 else 'times'}" if self.left else "for the last time"
        say(f"{sentence} It is submitted again, {place} ({more}).")
